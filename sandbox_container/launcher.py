"""From a trusted child to a hostile program: rights are taken away one step at a time, then the program replaces us.

A launch is forked early, while the supervisor has a single thread and no secret, and waits on a pipe. So the hot
path costs a few system calls, and the child never holds what the supervisor learns later. Each step either works
or ends the child with its name; there is no way on with one of them missing.
"""

import fcntl
import json
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from sandbox_container import kernel, landlock, seccomp
from sandbox_container.settings import Settings, erase_secrets

DEVICES = ("/dev/null", "/dev/zero", "/dev/full")
# Descriptors of the child before the program: its own three, then these.
_FAILURE, _ORDERS, _STATUS = 3, 4, 5
_NICENESS = 5
_FAILED_TO_START = 127


class Order(NamedTuple):
    """What to run. Limits in bytes, seconds and counts; ``writable`` are the folders it may change (Landlock)."""

    argv: list[str]
    environment: dict[str, str]
    directory: str
    writable: list[str]
    memory_bytes: int
    processes: int
    file_bytes: int
    open_files: int
    cpu_seconds: int


class Confinement(NamedTuple):
    """What every step may look at: whose rights to take, and the order."""

    settings: Settings
    order: Order
    filter: bytes
    landlock_level: int


class StartFailed(Exception):
    """The program never ran; the message names the step."""


def own_session(_: Confinement) -> None:
    # SIGCONT crosses users within a session, and a terminal belongs to one.
    os.setsid()


def default_signals(_: Confinement) -> None:
    # Python ignores these two; a shell pipeline relies on them.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def stand_back(_: Confinement) -> None:
    """The supervisor stays quicker than what it watches, and is not what the kernel ends when memory runs out."""
    os.nice(_NICENESS)
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def limit_resources(confinement: Confinement) -> None:
    order = confinement.order
    for name, value in (
        (resource.RLIMIT_AS, order.memory_bytes),
        (resource.RLIMIT_NPROC, order.processes),
        (resource.RLIMIT_FSIZE, order.file_bytes),
        (resource.RLIMIT_NOFILE, order.open_files),
        (resource.RLIMIT_CPU, order.cpu_seconds),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(name)[1]
        if hard != resource.RLIM_INFINITY:
            value = min(value, hard)
        resource.setrlimit(name, (value, value))


def enter_directory(confinement: Confinement) -> None:
    os.umask(0o022)
    os.chdir(confinement.order.directory)


def empty_bounding_set(_: Confinement) -> None:
    try:
        kernel.drop_bounding_set()
    except PermissionError:
        # Without CAP_SETPCAP the set stays; no_new_privs makes it worthless, and the probe looks at the rest.
        return


def change_user(confinement: Confinement) -> None:
    settings = confinement.settings
    if settings.boundary == "user":
        os.setgroups([])
        os.setresgid(settings.gid, settings.gid, settings.gid)
        os.setresuid(settings.uid, settings.uid, settings.uid)


def drop_capabilities(_: Confinement) -> None:
    kernel.clear_capabilities()


def gain_nothing(_: Confinement) -> None:
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)


def restrict_files(confinement: Confinement) -> None:
    if confinement.landlock_level >= landlock.OLDEST_USED:
        landlock.restrict(confinement.landlock_level, confinement.order.writable, DEVICES)


def filter_calls(confinement: Confinement) -> None:
    seccomp.load(confinement.filter)


def close_descriptors(_: Confinement) -> None:
    kernel.close_from(_FAILURE + 1)  # that one closes itself when the program starts


# In this order. A test takes one away at a time and sees its case fail.
STEPS: tuple[Callable[[Confinement], None], ...] = (
    own_session,
    default_signals,
    stand_back,
    enter_directory,
    limit_resources,
    empty_bounding_set,
    change_user,
    drop_capabilities,
    gain_nothing,
    restrict_files,
    filter_calls,
    close_descriptors,
)


class Launch:
    """A forked child that waits for its order. ``stdout`` and ``stderr`` are the ends to read from."""

    def __init__(self, settings: Settings) -> None:
        orders, self._orders = os.pipe()
        self._failure, failure = os.pipe()
        self.stdout, stdout = os.pipe()
        self.stderr, stderr = os.pipe()
        self._status, status = os.pipe()
        self._started = False
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _become(settings, orders, stdout, stderr, failure, status)
        for descriptor in (orders, failure, stdout, stderr, status):
            os.close(descriptor)

    def start(self, order: Order) -> None:
        """Returns when the program has replaced the child; raises :class:`StartFailed` when it did not."""
        self._started = True
        with os.fdopen(self._orders, "wb") as pipe:
            pipe.write(json.dumps(order).encode())
        with os.fdopen(self._failure, "rb") as pipe:
            failed = pipe.read()
        if failed:
            raise StartFailed(failed.decode(errors="replace"))

    def dismiss(self) -> None:
        """End the child if it was never given an order."""
        if not self._started:
            os.close(self._orders)
            os.waitpid(self.pid, 0)

    def true_status(self, status: int) -> int:
        """The program's own wait status, given that of ``pid``: with a PID namespace between, its init reports it."""
        with os.fdopen(self._status, "rb") as pipe:
            reported = pipe.read(4)
        return int(struct.unpack("=i", reported)[0]) if len(reported) == 4 else status


def _become(settings: Settings, orders: int, stdout: int, stderr: int, failure: int, status: int) -> NoReturn:
    """The child's whole life. Nothing here may return into the supervisor's code."""
    step = "read the order"
    try:
        erase_secrets()
        null = os.open("/dev/null", os.O_RDONLY)
        # Lift everything above the numbers it is to be moved onto, so that no move hits another source.
        lifted = [_lift(number) for number in (null, stdout, stderr, failure, orders, status)]
        for number, source in enumerate(lifted):
            os.dup2(source, number, inheritable=number < _FAILURE)
        kernel.close_from(_STATUS + 1)
        _leave_network()
        with os.fdopen(_ORDERS, "rb") as pipe:
            text = pipe.read()
        if not text:
            os._exit(0)  # the supervisor left without using this launch
        values: dict[str, Any] = dict(zip(Order._fields, json.loads(text), strict=True))
        confinement = Confinement(settings, Order(**values), seccomp.program(), landlock.level())
        if settings.boundary == "namespace":
            step = "enter a PID namespace"
            _own_pid_namespace()
        for action in STEPS:
            step = action.__name__
            action(confinement)
        step = f"execute {confinement.order.argv[0]}"
        os.execve(confinement.order.argv[0], confinement.order.argv, confinement.order.environment)  # noqa: S606
    except BaseException as error:  # noqa: BLE001 - whatever went wrong, the child must end here
        os.write(_FAILURE, f"{step}: {error}".encode())
    os._exit(_FAILED_TO_START)


def _lift(number: int) -> int:
    return int(fcntl.fcntl(number, fcntl.F_DUPFD, 10))


def _leave_network() -> None:
    """An empty network namespace where that is allowed (not in Fargate); the filter alone must do."""
    try:
        kernel.unshare(kernel.CLONE_NEWNET)
    except OSError:
        return


def _own_pid_namespace() -> None:
    """Returns in a process that is neither the init of its PID namespace nor able to see beyond it.

    Three processes: ours waits outside, the init reaps and reports, the program runs. The init holds capabilities in
    the user namespace that the program has lost, so the program can neither signal, read nor trace it.
    """
    kernel.unshare(kernel.CLONE_NEWPID | kernel.CLONE_NEWNS | kernel.CLONE_NEWIPC)
    init = os.fork()
    if init:
        kernel.close_from(0)
        os.waitpid(init, 0)
        os._exit(0)
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    kernel.mount("proc", "/proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
    program = os.fork()
    if program == 0:
        return
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    for number in range(_FAILURE + 1):
        os.close(number)
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == program:
            os.write(_STATUS, struct.pack("=i", status))
            os._exit(0)
