"""Which objects the kept versions of a workspace name, and how many bytes they take. Counting only, no AWS.

Versions share pages and pages share objects, so what a dropped version frees is known only by counting who names what:
a page belongs to the versions whose table lists it, an object to the pages whose entries name it.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from workbench.operations import Item
from workbench.workspace.storage.manifest import PageTable, object_keys, page_key


class Kept:
    """Counts for the objects in ``stored``: sizes by whole key, all below ``folder``. First :meth:`read`, then add."""

    def __init__(self, folder: str, stored: Mapping[str, int]) -> None:
        self._folder = folder
        self._stored = stored
        self._numbers: dict[str, int] = {}
        self._keys: list[str] = []
        # By page: the numbers of the objects that its entries name, its own among them.
        self._named_by: dict[str, array[int]] = {}
        self._versions: Counter[str] = Counter()
        self._users: Counter[int] = Counter()
        self.bytes = 0

    def pages_to_read(self, versions: Sequence[Item]) -> list[str]:
        """Digests of the pages that the versions name and that :meth:`read` has not had."""
        digests = {digest for item in versions for digest in _pages(item)}
        return sorted(digests - self._named_by.keys())

    def read(self, digest: str, page: bytes) -> None:
        """Learn what a page names."""
        keys = {page_key(digest), *object_keys(page)}
        self._named_by[digest] = array("L", sorted(self._number(self._folder + key) for key in keys))

    def add(self, version: Item) -> None:
        """Count a kept version (a ``V#`` item)."""
        for digest in _pages(version):
            self._versions[digest] += 1
            if self._versions[digest] == 1:
                self._use(self._named_by[digest])
        if "pathsKey" in version:
            self._use([self._number(version["pathsKey"])])

    def drop(self, version: Item) -> None:
        """Take a version out again; ``bytes`` is then what the others take."""
        for digest in _pages(version):
            self._versions[digest] -= 1
            if self._versions[digest] == 0:
                self._free(self._named_by[digest])
        if "pathsKey" in version:
            self._free([self._number(version["pathsKey"])])

    def unnamed(self) -> Iterator[str]:
        """Keys of the stored objects that no kept version names."""
        for key in self._stored:
            number = self._numbers.get(key)
            if number is None or not self._users[number]:
                yield key

    def _use(self, numbers: Sequence[int] | array[int]) -> None:
        for number in numbers:
            self._users[number] += 1
            if self._users[number] == 1:
                self.bytes += self._stored.get(self._keys[number], 0)

    def _free(self, numbers: Sequence[int] | array[int]) -> None:
        for number in numbers:
            self._users[number] -= 1
            if self._users[number] == 0:
                self.bytes -= self._stored.get(self._keys[number], 0)

    def _number(self, key: str) -> int:
        number = self._numbers.setdefault(key, len(self._keys))
        if number == len(self._keys):
            self._keys.append(key)
        return number


def _pages(version: Item) -> set[str]:
    return {ref.sha256 for ref in PageTable.decode(version["pages"]).refs}
