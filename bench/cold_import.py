"""Cold import of each handler against what no Lambda of this kind can do without: botocore, two clients, pydantic.

Each side is a new interpreter; the disk's cache is warm and everything is compiled. What is compared is processor
time: an import has one thread and waits for nothing, and on a machine with other work its ratio is the steadier one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.measure import Row, in_turns, spent

# Of one handler on a busy machine, medians of five gave ratios between 1.13 and 1.36; of ten, between 1.20 and 1.31.
RUNS = 10
ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
    # The run that warms up compiles what is not compiled yet, on both sides, whatever the installer left undone.
    "PYTHONPYCACHEPREFIX": str(ROOT / "build/bench-bytecode"),
    "PYTHONPATH": str(ROOT / "layers/workbench/python"),
    "AWS_ACCESS_KEY_ID": "none",
    "AWS_SECRET_ACCESS_KEY": "none",
    "AWS_DEFAULT_REGION": "eu-central-1",
    # As infra/functions.py sets it; both sides get it.
    "PYDANTIC_DISABLE_PLUGINS": "__all__",
}
PEER = """
import botocore.session, pydantic
session = botocore.session.get_session()
session.create_client("dynamodb"), session.create_client("s3")
"""
# What a handler has done before its first request: imports, the runtime, the one client that every call needs.
OURS = """
import runpy
runpy.run_path({handler!r})
from workbench import runtime
runtime.current().clients.dynamodb
"""


def rows() -> dict[str, Callable[[], Row]]:
    """One row for each function."""
    handlers = sorted(ROOT.glob("functions/*/handler.py"))
    return {f"cold import of {path.parent.name}": partial(_row, path) for path in handlers}


def _row(handler: Path) -> Row:
    ours, theirs = in_turns(
        partial(_python, OURS.format(handler=str(handler))), partial(_python, PEER), runs=RUNS, measure=spent
    )
    return Row(ours, "botocore, 2 clients, pydantic", theirs, "1.25x", most=1.25)


def _python(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, check=True, capture_output=True)
