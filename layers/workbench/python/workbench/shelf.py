"""Skills and prompts as they are kept: in versions that never change, by name. What a version holds is its owner's.

A version is one item; one more item for each name, all of a kind in one partition, says which version is the latest,
so that everything there is can be listed and read at once, and right after it was published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from workbench.errors import Conflict, NotFound
from workbench.keys import Key
from workbench.naming import NAME_CHARACTERS
from workbench.operations import Condition, Item, Operation, Update, put, update
from workbench.runtime import Runtime
from workbench.semver import BadVersion, Version
from workbench.table import ConditionFailed
from workbench.workspace.paths import printable

TRIES = 5
# What one transaction takes.
WITHDRAWN_AT_ONCE = 100
# What the item of a name holds that is no fact of its latest version.
_OF_THE_NAME = ("PK", "SK", "number", "withdrawn")
_SHOWN_VERSIONS = 10


@dataclass(frozen=True)
class Shelf:
    """All of one kind. ``kind`` begins the keys, ``word`` is what people call one.

    ``contents`` are the attributes that go when a version is withdrawn.
    """

    kind: str
    word: str
    contents: tuple[str, ...]

    def version_key(self, name: str, version: str) -> Key:
        return f"{self.kind}#{name}", f"V#{Version(version)}"

    def name_key(self, name: str) -> Key:
        return f"{self.kind}S", name

    # ------------------------------------------------------------ reading

    def latest(self, runtime: Runtime, names: Iterable[str]) -> dict[str, Item]:
        """The facts of the latest version of each of ``names`` that there is."""
        found = runtime.table.get_many([self.name_key(name) for name in dict.fromkeys(names)])
        return {item["name"]: item for item in found.values() if _is_live(item)}

    def versions(self, runtime: Runtime, wanted: Sequence[tuple[str, str]]) -> list[Item | None]:
        """The item of each of ``wanted`` (name and version), in order; None for one that there is not."""
        keys = [self.version_key(*pair) for pair in wanted]
        found = runtime.table.get_many(list(dict.fromkeys(keys)))
        return [item if (item := found.get(key)) and _is_live(item) else None for key in keys]

    def history(self, runtime: Runtime, name: str) -> list[Item]:
        """Every version of ``name``, latest first; empty when there is none."""
        items = runtime.table.query(f"{self.kind}#{name}", "V#")
        return sorted(filter(_is_live, items), key=lambda item: Version(item["version"]), reverse=True)

    def everything(self, runtime: Runtime, after: str | None = None, limit: int | None = None) -> list[Item]:
        """The facts of the latest version of each name, by name, behind ``after``; at most ``limit`` of them."""
        found: list[Item] = []
        # No name is longer, so that what follows says nothing; a key has a limit of its own.
        after = after[: NAME_CHARACTERS + 1] if after is not None else None
        while limit is None or len(found) < limit:
            page = runtime.table.query(f"{self.kind}S", after=after, limit=limit)
            found += filter(_is_live, page)
            if limit is None or len(page) < limit:
                break
            after = page[-1]["SK"]
        return found[:limit]

    def find(self, runtime: Runtime, name: str, version: str | None = None) -> Item:
        """One version, the latest when None. Raises NotFound that says which versions there are."""
        if version is None:
            known = self.latest(runtime, [name]).get(name)
            version = known["version"] if known else None
        try:
            found = self.versions(runtime, [(name, version)])[0] if version else None
        except BadVersion:
            found = None
        if found is None:
            raise self.not_found(name, version, [item["version"] for item in self.history(runtime, name)])
        return found

    def choose(self, runtime: Runtime, name: str, version: str | None) -> tuple[Item, list[str]]:
        """One version, the latest when None, and every version that there is, latest first. Raises NotFound."""
        history = self.history(runtime, name)
        versions = [item["version"] for item in history]
        chosen = history[0] if history and version is None else None
        if version is not None:
            chosen = next((item for item in history if _is_version(item, version)), None)
        if chosen is None:
            raise self.not_found(name, version, versions)
        return chosen, versions

    def not_found(self, name: str, version: str | None = None, there: Sequence[str] = ()) -> NotFound:
        """The 404 for a name, or for a version of it when ``there`` are others."""
        if not there:
            return NotFound(f"There is no {self.word} `{printable(name[:100])}`.", name=name[:100])
        listed = ", ".join(there[:_SHOWN_VERSIONS])
        return NotFound(
            f"There is no version {printable(str(version)[:100])} of the {self.word} `{printable(name[:100])}`; there "
            f"are {listed}.",
            name=name[:100],
            versions=list(there[:_SHOWN_VERSIONS]),
        )

    # ------------------------------------------------------------ writing

    def publish(
        self, runtime: Runtime, facts: Item, details: Item, prepare: Callable[[], Item] = dict
    ) -> tuple[Item, bool]:
        """Keep a version; returns its item and whether it is new. The same version with the same digest is kept once.

        ``facts`` (with name, version and digest) also describe the name when no later version is there; ``details``
        are the version's alone. ``prepare`` stores what the version needs beside the table and returns more details.
        Raises Conflict when the version is there with another digest.
        """
        name, version = facts["name"], facts["version"]
        of_name, of_version = self.name_key(name), self.version_key(name, version)
        for _ in range(TRIES):
            found = runtime.table.get_many([of_name, of_version])
            named, known = found.get(of_name, {}), found.get(of_version)
            if known is not None and known["digest"] != facts["digest"]:
                raise self._taken(name, version, str(named.get("version") or version))
            if known is not None and _is_live(known):
                return known, False
            item = {"PK": of_version[0], "SK": of_version[1], "at": runtime.clock.now(), **facts, **details}
            item |= prepare()
            try:
                runtime.table.transact([put(item), self._name(named, facts)])
            except ConditionFailed:
                # Somebody published or withdrew a version of this name meanwhile.
                continue
            return item, True
        raise Conflict(f"Other versions of this {self.word} are being published. Try again.", retryAfterSeconds=1)

    def withdraw(self, runtime: Runtime, name: str, clean: Callable[[list[Item]], None] | None = None) -> list[Item]:
        """Take every version away; what is left of each keeps its number from meaning something else.

        ``clean`` removes what versions have beside the table. Returns those that there were. Raises NotFound. Doing it
        again after a crash ends it.
        """
        for _ in range(TRIES):
            named = self.latest(runtime, [name]).get(name)
            if named is None:
                raise self.not_found(name)
            items = runtime.table.query(f"{self.kind}#{name}", "V#")
            live = [item for item in items if _is_live(item)]
            now = runtime.clock.now()
            for start in range(0, len(live), WITHDRAWN_AT_ONCE):
                runtime.table.transact(
                    [self._withdrawal(item, now) for item in live[start : start + WITHDRAWN_AT_ONCE]]
                )
            if clean is not None:
                clean(items)
            number = named["number"]
            gone = {"PK": named["PK"], "SK": named["SK"], "name": name, "number": number + 1, "withdrawn": now}
            try:
                runtime.table.put(gone, _unchanged(number))
            except ConditionFailed:
                continue
            return live
        raise Conflict(f"Versions of this {self.word} are being published. Try again.", retryAfterSeconds=1)

    def _name(self, named: Item, facts: Item) -> Operation:
        """The write of the name's item that makes ``facts`` known, when they are the latest."""
        number = named.get("number", 0)
        is_latest = not named or not _is_live(named) or Version(facts["version"]) >= Version(named["version"])
        shown = facts if is_latest else {key: value for key, value in named.items() if key not in _OF_THE_NAME}
        pk, sk = self.name_key(facts["name"])
        return put({"PK": pk, "SK": sk, "number": number + 1, **shown}, _unchanged(number))

    def _withdrawal(self, item: Item, now: float) -> Operation:
        change = Update().set_if_absent("withdrawn", now)
        for name in self.contents:
            change.remove(name)
        return update((item["PK"], item["SK"]), change)

    def _taken(self, name: str, version: str, latest: str) -> Conflict:
        higher = max(Version(version), Version(latest)).next()
        return Conflict(
            f"Version {version} of the {self.word} `{name}` is there already with other content, and a version never "
            f"changes. Raise the version, for example to {higher}, and send it again.",
            version=version,
            latest=latest,
            next=str(higher),
        )


def _is_version(item: Item, version: str) -> bool:
    try:
        return Version(item["version"]) == Version(version)
    except BadVersion:
        return False


def _is_live(item: Item) -> bool:
    return "withdrawn" not in item


def _unchanged(number: int) -> Condition:
    """Nothing was published or withdrawn under the name since its item was read; 0 means that there was none."""
    if not number:
        return Condition("attribute_not_exists(PK)")
    return Condition("#number = :number", {"#number": "number"}, {":number": number})
