"""The application is run once for all tests of this folder, as `make synth` runs it: assets and all."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.infra.templates import ROOT, Deployment

# What a developer's shell may hold and the application must not need.
LEFT_OUT = ("AWS_", "CDK_", "JSII_", "WORKBENCH_")


@pytest.fixture(scope="session")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """cdk.out of ``python app.py``, run without an AWS account and with nothing on the path but Python's own folder."""
    # Several test processes share what the first of them writes.
    folder = (
        tmp_path_factory.getbasetemp().parent / f"assembly-{os.environ.get('PYTEST_XDIST_TESTRUNUID', os.getpid())}"
    )
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "manifest.json").exists():
            _run_the_application(folder)
    return Deployment(folder)


def _run_the_application(folder: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(LEFT_OUT)}
    environment |= {"PATH": str(Path(sys.executable).parent), "CDK_OUTDIR": str(folder)}
    finished = subprocess.run(
        [sys.executable, "app.py"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
