"""Byte code for what a layer holds: a function cannot keep any, so without it every cold start compiles everything.

That is half of a cold start's work. Byte code belongs to one version of Python, so that very version makes it, where
this machine has it. It is of the kind that is never compared with its source (PEP 552): the other kind holds the
source's time of change, which packing an asset resets.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

# Where Lambda unpacks layers; without it byte code would name a folder of this machine.
UNPACKED = "/opt"


def interpreter(version: str, candidates: Iterable[str | None] | None = None) -> str | None:
    """The first of ``candidates`` that is a released Python ``version`` (such as ``3.13``), or None.

    Without candidates: the Python that runs this, and the one that the path has under the version's name.
    """
    wanted = [sys.executable, shutil.which(f"python{version}")] if candidates is None else candidates
    return next((found for found in wanted if found and _version(found) == f"{version} final"), None)


def add_bytecode(python: str, folder: Path) -> None:
    """Put byte code of the version of ``python`` beside every module below ``folder``, which becomes ``/opt``.

    A file that is no program of this version stays without: whoever imported it would fail in the same way.
    """
    command = [python, "-I", "-m", "compileall", "-qq", "--invalidation-mode", "unchecked-hash"]
    subprocess.run([*command, "-s", str(folder), "-p", UNPACKED, str(folder)], check=False, capture_output=True)


def _version(python: str) -> str:
    program = "import sys; print('{}.{} {}'.format(sys.version_info[0], sys.version_info[1], sys.version_info[3]))"
    try:
        # A name on the path may belong to a program that chooses among Pythons, and has none of this version.
        return subprocess.run([python, "-I", "-c", program], capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""
