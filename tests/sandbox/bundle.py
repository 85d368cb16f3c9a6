"""The supervisor in an OCI container with Fargate's constraints, for the third rung.

Docker's default capabilities less those that the task definition drops, a read-only root, memory disks on ``/sandbox``
and ``/tmp``, no user namespace, and none for the program. The root is this machine's ``/usr`` and ``/etc``, read-only.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from local.payload import Payload

# Docker's defaults without what infra/sandbox.py drops, to which tests/infra holds this.
CAPABILITIES = [f"CAP_{name}" for name in ("CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID", "SETPCAP", "KILL")]
SUPERVISOR = "/opt/workbench/sandbox_container"
READ_ONLY = ["bind", "ro", "nosuid", "nodev"]
ULIMITS = {"NOFILE": 4096, "CORE": 0, "NPROC": 256}


def write_bundle(folder: Path, payload: Payload, source: Path, environment: dict[str, str]) -> None:
    """Make ``folder`` a bundle that runs the supervisor from ``source`` with ``environment``."""
    root = folder / "rootfs"
    binds = {"/usr": "/usr", "/etc": "/etc", SUPERVISOR: str(source), str(payload.folder): str(payload.folder)}
    for place in (*binds, "/dev", "/proc", "/tmp", "/sandbox"):
        (root / place.lstrip("/")).mkdir(parents=True, exist_ok=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        if Path("/", name).is_symlink():
            (root / name).symlink_to(Path("/", name).readlink())
    disks = {"/sandbox": "160m", "/tmp": "160m"}
    mounts = [
        _mount("/proc", "proc", []),
        _mount("/dev", "tmpfs", ["nosuid", "mode=755", "size=65536k"]),
        _mount("/dev/pts", "devpts", ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]),
        _mount("/dev/shm", "tmpfs", ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"]),
        *(_mount(place, "bind", READ_ONLY, origin) for place, origin in binds.items()),
        *(_mount(place, "tmpfs", ["rw", "exec", "nosuid", "nodev", f"size={size}"]) for place, size in disks.items()),
    ]
    config = {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": [str(payload.base), "-I", "-S", SUPERVISOR],
            "env": [f"{name}={value}" for name, value in environment.items()],
            "cwd": "/",
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), CAPABILITIES),
            "rlimits": [{"type": f"RLIMIT_{name}", "hard": most, "soft": most} for name, most in ULIMITS.items()],
        },
        "root": {"path": "rootfs", "readonly": True},
        "mounts": mounts,
        # The route is on this machine's loopback, so the network stays.
        "linux": {"namespaces": [{"type": name} for name in ("pid", "ipc", "uts", "mount")]},
    }
    (folder / "config.json").write_text(json.dumps(config))


def _mount(place: str, kind: str, options: list[str], origin: str | None = None) -> dict[str, Any]:
    return {"destination": place, "type": kind, "source": origin or kind, "options": options}


class Container:
    """A running bundle, to be waited for and stopped like a process."""

    def __init__(self, folder: Path, name: str) -> None:
        runtime = shutil.which("runc", path="/usr/sbin:/usr/bin:/sbin:/bin")
        assert runtime, "this rung needs runc: install the system's package of that name"
        self._runtime, self._folder, self._name = [runtime, "--root", str(folder / "state")], folder, name
        self._process = subprocess.Popen(
            [*self._runtime, "run", "--bundle", str(folder), name], stdin=subprocess.DEVNULL
        )
        self.pid = self._process.pid

    def wait(self) -> int:
        status = self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
        return status

    def stop(self) -> None:
        subprocess.run([*self._runtime, "delete", "--force", self._name], check=False)
