"""The templates pass the rules that others wrote: cdk-nag's AwsSolutions pack and cfn-lint."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.infra.templates import Deployment

# CDK writes `DependsOn` for what a reference enforces already: redundant, and harmless.
IGNORED_LINT = ["W3005"]


def test_the_aws_solutions_rules_are_met_or_the_exception_is_explained(deployment: Deployment) -> None:
    report = json.loads((deployment.folder / "validation-report.json").read_text())
    found = [violation for plugin in report["pluginReports"] for violation in plugin["violations"]]
    assert found == []


def test_cfn_lint_finds_nothing(deployment: Deployment) -> None:
    command = [str(Path(sys.executable).parent / "cfn-lint"), "--ignore-checks", *IGNORED_LINT, "--"]
    finished = subprocess.run([*command, *map(str, deployment.files)], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stdout
