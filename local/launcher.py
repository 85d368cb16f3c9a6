"""Starts sandboxes on this machine: one process each, with a user, namespaces and memory disks of its own.

What isolates is the supervisor (``sandbox_container``) and, around it, :mod:`local.confine`. Here it is decided how
much of that this machine can give, and where it cannot, the start is refused.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import platform
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

from local.payload import Payload, PayloadUnavailable, payload_environment

log = logging.getLogger("workbench.local")

_HERE = Path(__file__).resolve().parent
CONFINE = _HERE / "confine.py"
SUPERVISOR = _HERE.parent / "sandbox_container"
# Two uids for each slot: the sandbox's and that of the process which ends it.
FIRST_UID, SLOTS = 200_000, 512
_SLOT_FOLDER = Path("/run/workbench/slots")
_PROBE_SECONDS = 30.0
_NOT_ALLOWED = 70


class SandboxUnavailable(RuntimeError):
    """This machine cannot isolate a program; the message says what it lacks and what to install or allow."""


class SandboxProcess:
    """A sandbox that runs."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path | None) -> None:
        self._process, self._folder = process, folder
        self._cleaned = threading.Lock()

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait(self) -> int:
        """Block until it ended; its exit status (0: it reported or had nothing to do), negative for a signal."""
        assert self._process.stderr is not None
        with self._cleaned:
            for line in iter(self._process.stderr.readline, b""):
                log.info("sandbox %d: %s", self.pid, line.decode(errors="replace").rstrip())
            status = self._process.wait()
            self._process.stderr.close()
            if self._folder:
                shutil.rmtree(self._folder, ignore_errors=True)
                self._folder = None
        return status

    def stop(self) -> None:
        """End it and everything it started; harmless when it has ended."""
        if self._process.poll() is None:
            # The init of its PID namespace follows at once, and with it all that lives in there.
            self._process.send_signal(signal.SIGKILL)


def start_sandbox(
    sandbox: str,
    secret: str,
    route_url: str,
    *,
    environment: Mapping[str, str] | None = None,
    unsafe: bool = False,
) -> SandboxProcess:
    """Start one supervisor that claims one job from ``route_url`` (``http://127.0.0.1:PORT/v1/sandbox``).

    ``environment`` are further variables of the supervisor. With ``unsafe`` a program may run without a boundary
    where this machine cannot give one. Raises :class:`SandboxUnavailable`.
    """
    payload = _payload()
    boundary = _boundary(payload, unsafe)
    told = {
        **(environment or {}),
        "WORKBENCH_SANDBOX": sandbox,
        "WORKBENCH_SECRET": secret,
        "WORKBENCH_ROUTE": route_url,
    }
    return _start(payload, boundary, told, [])


def prepare(*, unsafe: bool = False) -> None:
    """Do ahead what the first start would wait for: build the programs' environment, find the boundary.

    Raises :class:`SandboxUnavailable`.
    """
    _boundary(_payload(), unsafe)


def stop(handle: SandboxProcess) -> None:
    """End a sandbox and everything it started."""
    handle.stop()


def _payload() -> Payload:
    if platform.system() != "Linux":
        raise SandboxUnavailable(
            "Running code needs Linux here: start the local system in a Linux machine or container."
        )
    try:
        return payload_environment()
    except PayloadUnavailable as error:
        raise SandboxUnavailable(str(error)) from error


_boundaries: dict[bool, str] = {}
_boundaries_lock = threading.Lock()


def _boundary(payload: Payload, unsafe: bool) -> str:
    """The strongest boundary that proves itself here; looked for once in the life of this process."""
    with _boundaries_lock:
        if unsafe not in _boundaries:
            _boundaries[unsafe] = _find_boundary(payload, unsafe)
        return _boundaries[unsafe]


def _find_boundary(payload: Payload, unsafe: bool) -> str:
    boundary = "user" if os.geteuid() == 0 else "namespace"
    try:
        verify(payload, boundary)
        return boundary
    except SandboxUnavailable:
        if not unsafe:
            raise
        log.warning("programs run WITHOUT a boundary on this machine, as was asked for", exc_info=True)
        return "none"


def verify(payload: Payload, boundary: str) -> dict[str, object]:
    """Start a sandbox that only looks at itself; what it found. Raises :class:`SandboxUnavailable`."""
    told = {"WORKBENCH_SANDBOX": "probe", "WORKBENCH_SECRET": "none", "WORKBENCH_ROUTE": "http://127.0.0.1:1/"}
    process = _start(payload, boundary, told, ["--probe"])._process
    try:
        printed, complaint = process.communicate(timeout=_PROBE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise SandboxUnavailable("The sandbox's self-check did not end.") from None
    if process.returncode == 0:
        found: dict[str, object] = json.loads(printed)
        if found["python"] != payload.version:
            raise SandboxUnavailable(
                f"The sandbox runs Python {found['python']} where {payload.version} was installed: "
                f"remove {payload.folder} and run `python -m local.payload`."
            )
        return found
    reason = complaint.decode(errors="replace").strip()
    if process.returncode == _NOT_ALLOWED:
        raise SandboxUnavailable(
            f"This machine does not allow the namespaces that a sandbox needs ({reason}). Start the local system as "
            "root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1 and, on Ubuntu, "
            "kernel.apparmor_restrict_unprivileged_userns=0), or, in a container, give it CAP_SYS_ADMIN."
        )
    raise SandboxUnavailable(f"The sandbox's self-check failed: {reason}")


def _start(payload: Payload, boundary: str, told: Mapping[str, str], arguments: list[str]) -> SandboxProcess:
    variables = {
        **told,
        "PATH": "/usr/bin:/bin",
        "WORKBENCH_BOUNDARY": boundary,
        "WORKBENCH_INTERPRETER": str(payload.interpreter),
        "WORKBENCH_NODE": str(payload.node),
    }
    program, folder, slot = CONFINE, None, None
    if boundary == "none":
        program, folder = SUPERVISOR, Path(tempfile.mkdtemp(prefix="workbench-sandbox-"))
        variables["WORKBENCH_ROOT"] = str(folder / "sandbox")
        variables["WORKBENCH_HOME"] = str(folder / "home")
    else:
        variables |= {"WORKBENCH_ROOT": "/sandbox", "WORKBENCH_HOME": "/tmp/home"}
        variables["WORKBENCH_VISIBLE"] = ":".join(_visible(payload))
    if boundary == "user":
        slot, uid = _free_slot()
        variables |= {"WORKBENCH_UID": str(uid), "WORKBENCH_GID": str(uid)}
    try:
        process = subprocess.Popen(
            [str(payload.base), "-I", "-S", str(program), *arguments],
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if arguments else subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            # The lock lives as long as any process of the sandbox holds it.
            pass_fds=() if slot is None else (slot,),
            start_new_session=True,
        )
    finally:
        if slot is not None:
            os.close(slot)
    return SandboxProcess(process, folder)


def _visible(payload: Payload) -> list[str]:
    """What the sandbox must see beside the system: the environment, and its Python where that lies elsewhere."""
    prefix = payload.base.resolve().parent.parent
    outside = [] if prefix.is_relative_to("/usr") else [str(prefix)]
    return [str(payload.folder), *outside]


def _free_slot() -> tuple[int, int]:
    """An exclusive pair of uids: the open lock, and the first of the two."""
    _SLOT_FOLDER.mkdir(mode=0o700, parents=True, exist_ok=True)
    for number in range(SLOTS):
        lock = os.open(_SLOT_FOLDER / f"{number}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        return lock, FIRST_UID + 2 * number
    raise SandboxUnavailable(f"All {SLOTS} sandboxes of this machine are in use.")
