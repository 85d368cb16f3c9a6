"""Stands beside the running program: reads what it prints, keeps the limits, and says how it ended.

One thread, one poll. The result is judged only by what the kernel says (wait status, clock, counters), never by
anything the program printed.
"""

import os
import select
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress

from sandbox_container import reap
from sandbox_container.job import Limits
from sandbox_container.launcher import Launch
from sandbox_container.output import Output

LOOK_SECONDS = 0.05
# Looking at memory must not take more than about a tenth of the time.
_LOOK_SHARE = 10
_READ_BYTES = 64 * 1024
# Inodes are memory too: a tree this far over its file limit could not be kept anyway.
_INODES_PER_FILE = 8


class Disks:
    """The file systems that the program can write to, and how much was added to them since this was made."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._system = os.stat("/").st_dev
        self._paths: dict[int, list[str]] = {}
        for path in paths:
            if os.path.isdir(path):
                self._paths.setdefault(os.stat(path).st_dev, []).append(path)
        self._before = {device: _used(paths[0]) for device, paths in self._paths.items()}

    def added(self) -> tuple[int, int]:
        """Bytes and inodes, as the file systems count them."""
        return self._sum(list(self._paths))

    def surely_added(self, uid: int, members: Iterable[int]) -> tuple[int, int]:
        """The same, but on a disk that others write to as well only what belongs to ``uid``: slower."""
        size, inodes = self._sum([device for device in self._paths if device != self._system])
        owned = _owned(self._paths.get(self._system, []), uid, members)
        return size + sum(owned.values()), inodes + len(owned)

    def _sum(self, devices: Iterable[int]) -> tuple[int, int]:
        size = inodes = 0
        for device in devices:
            used = _used(self._paths[device][0])
            size += used[0] - self._before[device][0]
            inodes += used[1] - self._before[device][1]
        return size, inodes


def _used(path: str) -> tuple[int, int]:
    status = os.statvfs(path)
    return (status.f_blocks - status.f_bfree) * status.f_frsize, status.f_files - status.f_ffree


def _owned(tops: Iterable[str], uid: int, members: Iterable[int]) -> dict[int, int]:
    """Allocated bytes by inode of what ``uid`` owns beneath ``tops`` or holds open after deleting it."""
    found: dict[int, int] = {}
    waiting = list(tops)
    while waiting:
        for path, status in _entries(waiting.pop(), follow=False):
            if status.st_uid == uid:
                found[status.st_ino] = status.st_blocks * 512
                if stat.S_ISDIR(status.st_mode):
                    waiting.append(path)
    for pid in members:
        for _, status in _entries(f"/proc/{pid}/fd", follow=True):
            if status.st_uid == uid and status.st_nlink == 0:
                found[status.st_ino] = status.st_blocks * 512
    return found


def _entries(folder: str, *, follow: bool) -> Iterator[tuple[str, os.stat_result]]:
    """What can be looked at in a folder; entries that go away meanwhile are passed over."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        with suppress(OSError):
            yield f"{folder}/{name}", os.stat(f"{folder}/{name}", follow_symlinks=follow)


class Watch:
    """Watches one launch. ``wake`` becomes readable when somebody asks to stop."""

    def __init__(
        self, uid: int, launch: Launch, keeper: reap.Keeper, output: Output, limits: Limits, disks: Disks, wake: int
    ) -> None:
        self._uid, self._launch, self._keeper, self._output = uid, launch, keeper, output
        self._limits, self._disks, self._wake = limits, disks, wake
        self._streams = {launch.stdout: output.stdout, launch.stderr: output.stderr}
        self.statuses: dict[int, int] = {}

    def until_end(self, seconds: float) -> str:
        """``finished``, or the limit that was hit: ``timeout``, ``memory``, ``disk``, ``output``; or ``stopped``."""
        poll = select.poll()
        for stream in self._streams:
            os.set_blocking(stream, False)
            poll.register(stream, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        process = os.pidfd_open(self._launch.pid)
        try:
            poll.register(process, select.POLLIN)
            return self._loop(poll, process, time.monotonic() + seconds)
        finally:
            os.close(process)

    def drain(self) -> None:
        """Read what is still in the pipes; every writer is gone."""
        for stream in self._streams:
            while self._read(stream) and not self._output.too_large:
                continue
            os.close(stream)

    def _loop(self, poll: select.poll, process: int, deadline: float) -> str:
        next_look = 0.0
        while True:
            now = time.monotonic()
            if now >= deadline:
                return "timeout"
            if now >= next_look:
                reap.collect(self.statuses)
                over = self._over_limits()
                if over:
                    return over
                spent = time.monotonic() - now
                next_look = now + max(LOOK_SECONDS, _LOOK_SHARE * spent)
            wait = min(deadline, next_look) - time.monotonic()
            for descriptor, _ in poll.poll(max(0.0, wait) * 1000 + 1):
                if descriptor == process:
                    return "finished"
                if descriptor == self._wake:
                    return "stopped"
                if not self._read(descriptor):
                    poll.unregister(descriptor)
            if self._output.too_large:
                return "output"

    def _read(self, stream: int) -> bool:
        """One read; False at the end of the stream or when nothing is there."""
        try:
            data = os.read(stream, _READ_BYTES)
        except BlockingIOError:
            return False
        self._output.add(self._streams[stream], data)
        return bool(data)

    def _over_limits(self) -> str | None:
        members = self._keeper.members()
        if self._over_disk(*self._disks.added()) and self._over_disk(*self._disks.surely_added(self._uid, members)):
            return "disk"
        resident = 0
        for pid in members:
            with suppress(OSError):  # it ended meanwhile
                resident += reap.resident(pid)
        if resident <= self._limits.memory_bytes:
            return None
        # Pages that several processes share were counted for each of them; look again, slower and fairly.
        return "memory" if self._keeper.memory(members) > self._limits.memory_bytes else None

    def _over_disk(self, size: int, inodes: int) -> bool:
        return size > self._limits.disk_bytes or inodes > _INODES_PER_FILE * self._limits.workspace_files
