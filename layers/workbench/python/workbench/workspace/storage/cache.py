"""A bounded cache of content-addressed bytes on the function's own disk, with the smallest and newest in memory.

Keys carry the conversation, so that one conversation's bytes are never served to another. Each process has a folder
of its own; what a process left behind goes with its sandbox.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections import OrderedDict
from pathlib import Path

MEMORY_BYTES = 64 * 1024 * 1024
MEMORY_ITEM_BYTES = 4 * 1024 * 1024


class ContentCache:
    """Least recently used bytes by ``(conversation, key)``; at most ``limit`` bytes on disk."""

    def __init__(self, folder: str, limit: int) -> None:
        self._parent = folder
        self._limit = limit
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._sizes: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._stored = 0
        self._memory: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._held = 0

    def get(self, conversation: str, key: str) -> bytes | None:
        """The bytes, or None when they are not here."""
        name = conversation, key
        with self._lock:
            held = self._memory.get(name)
            if held is not None:
                self._memory.move_to_end(name)
                return held
            if name not in self._sizes:
                return None
            self._sizes.move_to_end(name)
        try:
            data = self._file(name).read_bytes()
        except FileNotFoundError:
            # Evicted between the look and the read.
            return None
        with self._lock:
            self._remember(name, data)
        return data

    def get_part(self, conversation: str, key: str, offset: int, length: int) -> bytes | None:
        """``length`` bytes from ``offset`` of what :meth:`get` would give, without loading the rest."""
        name = conversation, key
        with self._lock:
            held = self._memory.get(name)
            if held is not None:
                self._memory.move_to_end(name)
                return held[offset : offset + length]
            if name not in self._sizes:
                return None
            self._sizes.move_to_end(name)
        try:
            with self._file(name).open("rb", buffering=0) as stream:
                return os.pread(stream.fileno(), length, offset)
        except FileNotFoundError:
            return None

    def put(self, conversation: str, key: str, data: bytes) -> None:
        """Keep the bytes. They must be final: a key never changes its content."""
        name = conversation, key
        with self._lock:
            if name in self._sizes or len(data) > self._limit:
                return
        target = self._file(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=target.parent)
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        Path(temporary).replace(target)
        with self._lock:
            if name not in self._sizes:
                self._sizes[name] = len(data)
                self._stored += len(data)
            self._remember(name, data)
            evicted = []
            while self._stored > self._limit:
                oldest, size = self._sizes.popitem(last=False)
                self._stored -= size
                evicted.append(oldest)
        for oldest in evicted:
            self._file(oldest).unlink(missing_ok=True)

    def _remember(self, name: tuple[str, str], data: bytes) -> None:
        if len(data) > MEMORY_ITEM_BYTES or name in self._memory:
            return
        self._memory[name] = data
        self._held += len(data)
        while self._held > MEMORY_BYTES:
            self._held -= len(self._memory.popitem(last=False)[1])

    def _file(self, name: tuple[str, str]) -> Path:
        if self._folder is None:
            with self._lock:
                if self._folder is None:
                    Path(self._parent).mkdir(parents=True, exist_ok=True)
                    self._folder = Path(tempfile.mkdtemp(dir=self._parent))
        conversation, key = name
        return self._folder / conversation / key
