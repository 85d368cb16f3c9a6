"""Which processes are the sandbox's, and ending all of them.

By user: a helper whose effective uid is the sandbox's and whose real and saved uid are a third one may signal the
sandbox, cannot be signalled by it, and holds no capability, so ``kill(-1)`` reaches exactly that user. By descent
(without root): whatever the supervisor, a subreaper, has below it.
"""

import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NoReturn, Protocol

from sandbox_container import kernel
from sandbox_container.settings import Settings, erase_secrets

ROUNDS_SECONDS = 20.0
_ROUND_SECONDS = 0.002
_LINE_BYTES = 64 * 1024  # at most what a pipe takes at once; thousands of pids
_PAGE = os.sysconf("SC_PAGE_SIZE")


class StillAlive(Exception):
    """Some process survived every round: nothing it may still be changing can be trusted."""


class Process:
    """One line of /proc: enough to say whose it is."""

    __slots__ = ("parent", "pid", "uids")

    def __init__(self, pid: int, status: bytes) -> None:
        self.pid, self.parent, self.uids = pid, 0, frozenset[int]()
        for line in status.split(b"\n", 10):
            name, _, value = line.partition(b":\t")
            if name == b"PPid":
                self.parent = int(value)
            elif name == b"Uid":
                self.uids = frozenset(map(int, value.split()))


def processes() -> Iterator[Process]:
    """Every process this one can see, zombies too."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/status", "rb", buffering=0) as file:
                    yield Process(int(name), file.read(1024))
            except OSError:
                continue  # it ended meanwhile


class Keeper(Protocol):
    """Knows the sandbox's processes and can end them."""

    def members(self) -> list[int]: ...

    def strike(self) -> None: ...

    def memory(self, pids: Iterable[int]) -> int: ...

    def close(self) -> None: ...


class ByUser:
    """Members are the processes with the sandbox's uid in any of their four."""

    def __init__(self, settings: Settings) -> None:
        self._uid = settings.uid
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _jailer(settings, commands, answers)
        os.close(commands)
        os.close(answers)

    def members(self) -> list[int]:
        return [process.pid for process in processes() if self._uid in process.uids and process.pid != self.pid]

    def strike(self) -> None:
        self._ask(b"end")

    def memory(self, pids: Iterable[int]) -> int:
        """Resident bytes, shared pages counted once. Only the sandbox's own user may look, or SYS_PTRACE."""
        return int(self._ask(" ".join(map(str, pids)).encode()))

    def _ask(self, command: bytes) -> bytes:
        os.write(self._commands, command + b"\n")
        answer = os.read(self._answers, _LINE_BYTES)
        if not answer:
            raise StillAlive("the process that ends the sandbox is gone")
        return answer

    def close(self) -> None:
        """End the helper."""
        os.close(self._commands)
        os.close(self._answers)
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


class ByDescent:
    """Members are the processes that this one has below it."""

    def members(self) -> list[int]:
        children: dict[int, list[int]] = {}
        for process in processes():
            children.setdefault(process.parent, []).append(process.pid)
        found: list[int] = []
        front = children.get(os.getpid(), [])
        while front:
            pid = front.pop()
            found.append(pid)
            front += children.get(pid, [])
        return found

    def strike(self) -> None:
        for pid in self.members():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def memory(self, pids: Iterable[int]) -> int:
        return proportional(pids)

    def close(self) -> None:
        return


def _jailer(settings: Settings, commands: int, answers: int) -> NoReturn:
    try:
        erase_secrets()
        os.dup2(commands, 0)
        os.dup2(answers, 1)
        kernel.close_from(2)  # the pipes of launches among them, which wait for their other ends to be closed
        os.setsid()
        os.setgroups([])
        os.setresgid(settings.gid, settings.gid, settings.gid)
        os.setresuid(settings.jailer, settings.uid, settings.jailer)
        kernel.clear_capabilities()
        if settings.uid == 0 or os.getresuid() != (settings.jailer, settings.uid, settings.jailer):
            os._exit(1)  # with any other identity kill(-1) would end strangers
        while command := os.read(0, _LINE_BYTES):
            if command == b"end\n":
                with suppress(ProcessLookupError, PermissionError):  # nobody left
                    os.kill(-1, signal.SIGKILL)
                os.write(1, b"0\n")
            else:
                os.write(1, b"%d\n" % proportional(map(int, command.split())))
    except OSError:
        os._exit(1)
    os._exit(0)


def proportional(pids: Iterable[int]) -> int:
    """Resident bytes of these processes, a page that n of them share counted as 1/n; all of it where hidden."""
    total = 0
    for pid in pids:
        with suppress(OSError):
            try:
                with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
                    total += next(int(line.split()[1]) for line in file if line.startswith(b"Pss:")) * 1024
            except (PermissionError, StopIteration):
                total += resident(pid)
    return total


def resident(pid: int) -> int:
    """Resident bytes of one process, shared pages included. OSError when it is gone."""
    with open(f"/proc/{pid}/statm", "rb", buffering=0) as file:
        return int(file.read(256).split()[1]) * _PAGE


def collect(statuses: dict[int, int]) -> None:
    """Take the status of every child that has ended, adopted orphans included."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        statuses[pid] = status


def end_all(keeper: Keeper, statuses: dict[int, int]) -> None:
    """Strike until no member is left, not even a zombie: other threads of it may still be at work in the kernel.

    Raises :class:`StillAlive` after 20 s.
    """
    deadline = time.monotonic() + ROUNDS_SECONDS
    keeper.strike()
    while True:
        collect(statuses)
        if not keeper.members():
            return
        if time.monotonic() > deadline:
            raise StillAlive("some processes of the program could not be ended")
        keeper.strike()
        time.sleep(_ROUND_SECONDS)
