"""Plays days over a bucket as S3 would, under the lifecycle rules of a synthesised template.

S3 counts whole days from a version's creation, or from the moment it became noncurrent, and acts at the next midnight
UTC. Expiring the current version of a versioned bucket adds a delete marker; a marker behind which no version is left
is removed by a rule for such markers. Only what our rules use is understood: anything else raises.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

UNDERSTOOD = {
    "Id",
    "Status",
    "Prefix",
    "TagFilters",
    "ExpirationInDays",
    "NoncurrentVersionExpiration",
    "ExpiredObjectDeleteMarker",
    "AbortIncompleteMultipartUpload",
}


@dataclass
class Version:
    """One version or delete marker of a key. Times are days since some midnight UTC."""

    created: float
    marker: bool = False
    tags: dict[str, str] = field(default_factory=dict)
    noncurrent_since: float | None = None
    id: str = ""


class Bucket:
    """Objects by key, each with its versions, newest last."""

    def __init__(self, rules: list[dict[str, Any]], *, versioned: bool) -> None:
        for rule in rules:
            assert set(rule) <= UNDERSTOOD, f"the evaluator does not understand {set(rule) - UNDERSTOOD}"
        self._rules = [rule for rule in rules if rule["Status"] == "Enabled"]
        self._versioned = versioned
        self._objects: dict[str, list[Version]] = {}
        self.today = 0.0

    def put(self, key: str, at: float, **tags: str) -> None:
        self._advance(at)
        self._add(key, Version(at, tags=tags))

    def tag(self, key: str, at: float, **tags: str) -> None:
        self._advance(at)
        for version in self._objects[key]:
            version.tags = tags

    def delete(self, key: str, at: float) -> None:
        """A delete without a version id."""
        self._advance(at)
        if self._versioned:
            self._add(key, Version(at, marker=True))
        else:
            del self._objects[key]

    def remove_markers(self, key: str, at: float) -> None:
        """What a restore does; the version behind the markers is current again."""
        self._advance(at)
        left = [version for version in self._objects[key] if not version.marker]
        left[-1].noncurrent_since = None
        self._objects[key] = left

    def readable(self, key: str, at: float) -> bool:
        """A plain GET finds the object."""
        self._advance(at)
        versions = self._objects.get(key, [])
        return bool(versions) and not versions[-1].marker

    def stored(self, key: str, at: float) -> int:
        """How many versions with bytes are left."""
        self._advance(at)
        return sum(not version.marker for version in self._objects.get(key, []))

    def load(self, objects: dict[str, list[Version]]) -> None:
        """Take over what a real bucket holds."""
        self._objects = {key: list(versions) for key, versions in objects.items()}
        for versions in self._objects.values():
            for older, newer in itertools.pairwise(versions):
                older.noncurrent_since = newer.created

    def pass_midnight(self, midnight: float) -> dict[str, list[Version]]:
        """Apply the rules once; what is left by key, with markers that have no id where they are new."""
        self._run(midnight)
        return self._objects

    def aborts_uploads_after(self) -> list[int]:
        """The days after which each rule aborts uploads that nobody completed."""
        rules = [
            rule["AbortIncompleteMultipartUpload"]
            for rule in self._rules
            if "Prefix" not in rule and "AbortIncompleteMultipartUpload" in rule
        ]
        return [int(rule["DaysAfterInitiation"]) for rule in rules]

    def traces(self, at: float) -> list[str]:
        """Keys of which anything is left, markers included."""
        self._advance(at)
        return sorted(key for key, versions in self._objects.items() if versions)

    def _add(self, key: str, version: Version) -> None:
        versions = self._objects.setdefault(key, [])
        if versions:
            versions[-1].noncurrent_since = version.created
        if not self._versioned:
            versions.clear()
        versions.append(version)

    def _advance(self, to: float) -> None:
        assert to >= self.today, "time runs forward"
        for midnight in range(math.floor(self.today) + 1, math.floor(to) + 1):
            self._run(float(midnight))
        self.today = to

    def _run(self, midnight: float) -> None:
        for key in list(self._objects):
            for rule in self._rules:
                self._apply(rule, key, midnight)
            if not self._objects[key]:
                del self._objects[key]

    def _apply(self, rule: dict[str, Any], key: str, midnight: float) -> None:
        if not key.startswith(rule.get("Prefix", "")):
            return
        noncurrent = rule.get("NoncurrentVersionExpiration", {}).get("NoncurrentDays")
        if noncurrent is not None:
            gone = [v for v in self._matching(rule, key) if is_due(v.noncurrent_since, noncurrent, midnight)]
            self._objects[key] = [version for version in self._objects[key] if version not in gone]
        self._expire_current(rule, key, midnight)
        if rule.get("ExpiredObjectDeleteMarker") and all(version.marker for version in self._objects[key]):
            self._objects[key] = []

    def _expire_current(self, rule: dict[str, Any], key: str, midnight: float) -> None:
        days = rule.get("ExpirationInDays")
        current = [version for version in self._matching(rule, key) if version is self._objects[key][-1]]
        if days is None or not current or current[0].marker or not is_due(current[0].created, days, midnight):
            return
        if self._versioned:
            self._add(key, Version(midnight, marker=True))
        else:
            self._objects[key] = []

    def _matching(self, rule: dict[str, Any], key: str) -> Iterator[Version]:
        wanted = {filter_["Key"]: filter_["Value"] for filter_ in rule.get("TagFilters", [])}
        for version in self._objects[key]:
            # A delete marker carries no tags, so that no rule with a tag sees it.
            if all(version.tags.get(name) == value for name, value in wanted.items()):
                yield version


def is_due(since: float | None, days: int, midnight: float) -> bool:
    return since is not None and math.ceil(since + days) <= midnight
