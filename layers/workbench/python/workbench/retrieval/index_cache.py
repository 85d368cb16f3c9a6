"""Index files on the function's own disk: fetched once for each generation, and bounded by bytes.

A generation's name is never used twice, so a file that is here is right. A file may go while it is being read: whoever
has it open keeps it, as the file system does.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from botocore.exceptions import ClientError

from workbench.clients import Clients
from workbench.objects import is_missing

Opened = TypeVar("Opened")

_CHUNK = 1024 * 1024


class IndexCache:
    """Files by S3 key, at most ``limit`` bytes of them; the one that was used longest ago goes first."""

    def __init__(self, clients: Clients, bucket: str, parent: str, limit: int) -> None:
        self._clients = clients
        self._bucket = bucket
        self._parent = parent
        self._limit = limit
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._kept: OrderedDict[str, tuple[Path, int]] = OrderedDict()

    def use(self, key: str, opening: Callable[[Path], Opened]) -> Opened:
        """What ``opening`` makes of the file of ``key``, which is fetched when it is not here.

        Raises FileNotFoundError when S3 has no such object, and whatever else ``opening`` raises.
        """
        while True:
            path = self._path(key) or self._fetched(key)
            try:
                return opening(path)
            except Exception:
                # Another thread's file may have taken its place between the look and the opening.
                if path.exists():
                    raise

    def workspace(self) -> tempfile.TemporaryDirectory[str]:
        """A folder beside the files for building the next one; it goes when the ``with`` block ends."""
        return tempfile.TemporaryDirectory(dir=self._made())

    def take(self, key: str, path: Path) -> Path:
        """Keep the file at ``path``, which moves here, as what ``key`` names; where it is now."""
        place = self._made() / key.replace("/", "-")
        size = path.stat().st_size
        shutil.move(path, place)
        with self._lock:
            self._kept.pop(key, None)
            self._kept[key] = place, size
            total = sum(size for _, size in self._kept.values())
            # The newest stays whatever its size: somebody is about to read it.
            while total > self._limit and len(self._kept) > 1:
                _, (oldest, size) = self._kept.popitem(last=False)
                total -= size
                oldest.unlink(missing_ok=True)
        return place

    def forget(self, key: str) -> None:
        """Remove the file of ``key``, if it is here."""
        with self._lock:
            kept = self._kept.pop(key, None)
        if kept:
            kept[0].unlink(missing_ok=True)

    def _path(self, key: str) -> Path | None:
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                return None
            self._kept.move_to_end(key)
            return kept[0]

    def _fetched(self, key: str) -> Path:
        try:
            body = self._clients.s3.get_object(Bucket=self._bucket, Key=key)["Body"]
        except ClientError as error:
            if is_missing(error):
                raise FileNotFoundError(key) from error
            raise
        with self.workspace() as folder:
            path = Path(folder) / "fetched"
            with path.open("wb") as stream:
                for chunk in body.iter_chunks(_CHUNK):
                    stream.write(chunk)
            return self.take(key, path)

    def _made(self) -> Path:
        with self._lock:
            if self._folder is None:
                Path(self._parent).mkdir(parents=True, exist_ok=True)
                self._folder = Path(tempfile.mkdtemp(prefix="indexes-", dir=self._parent))
            return self._folder
