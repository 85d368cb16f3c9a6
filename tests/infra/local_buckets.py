"""The local system's own buckets, through whole days: the synthesised rules remove what S3 would, and tell who pays.

Items go at their ttl. Objects, versions, markers, tags and times are the buckets'; the clock of the local S3 is the
system's, which the test moves. What is removed is removed, and S3's news of it reaches the function that the deployed
rule names.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import moto.s3.models
import pytest

from local.system import LocalSystem
from tests.infra.lifecycle import Bucket, Version, is_due
from tests.infra.templates import Deployment
from tests.local.reconciled import DAY_SECONDS, ShiftedClock, everything, shifted
from workbench.artifacts import billing_api

NOON = DAY_SECONDS / 2


class Days:
    """Time for a whole local system, in which S3's rules act at every midnight UTC."""

    def __init__(self, system: LocalSystem, deployment: Deployment, clock: ShiftedClock) -> None:
        self._system, self._clock = system, clock
        self._s3 = system.runtime.clients.s3
        settings = system.runtime.settings
        self._artifacts, self._workspaces = settings.artifact_bucket, settings.workspace_bucket
        self._rules: dict[str, list[dict[str, Any]]] = {}
        for bucket in deployment.of("AWS::S3::Bucket"):
            name = self._artifacts if "VersioningConfiguration" in bucket.properties else self._workspaces
            self._rules[name] = bucket.properties["LifecycleConfiguration"]["Rules"]
        (self._news,) = [
            rule.properties["EventPattern"]
            for rule in deployment.of("AWS::Events::Rule")
            if rule.properties.get("EventPattern", {}).get("source") == ["aws.s3"]
        ]
        # When each unfinished upload was first seen: the local S3 does not say when it began.
        self._uploads: dict[str, float] = {}

    @property
    def today(self) -> float:
        """Days since 1970, UTC."""
        return self._clock.now() / DAY_SECONDS

    def until_noon(self) -> None:
        """Go on to the next noon, so that every test begins at the same time of the day."""
        self.go_on(math.ceil(self.today - 0.5) + 0.5 - self.today)

    def go_on(self, days: float) -> None:
        """Let ``days`` pass."""
        self._look_for_uploads()
        end = self.today + days
        for midnight in range(math.floor(self.today) + 1, math.floor(end) + 1):
            self._move_to(midnight)
            for name in self._rules:
                self._pass_midnight(name, midnight)
            self._expire_items()
        self._move_to(end)

    def _move_to(self, day: float) -> None:
        self._clock.ahead += day * DAY_SECONDS - self._clock.now()

    # ------------------------------------------------------------ a midnight

    def _pass_midnight(self, name: str, midnight: int) -> None:
        evaluator = Bucket(self._rules[name], versioned=name == self._artifacts)
        before = self.versions(name)
        evaluator.load(before)
        after = evaluator.pass_midnight(float(midnight))
        for key, versions in before.items():
            left = {version.id for version in after.get(key, [])}
            for version in versions:
                if version.id not in left:
                    self._remove(name, key, version)
            if any(not version.id for version in after.get(key, [])):
                self._s3.delete_object(Bucket=name, Key=key)
                self._tell(name, key, "Delete Marker Created")
        self._abort_uploads(name, evaluator.aborts_uploads_after(), midnight)

    def _expire_items(self) -> None:
        """Items past their ttl go, as early as DynamoDB ever removes them; in the cloud it may take days longer."""
        table, now = self._system.runtime.table, self._clock.now()
        gone = [item for item in everything(self._system) if "ttl" in item and item["ttl"] <= now]
        table.delete_many((item["PK"], item["SK"]) for item in gone)

    def _remove(self, name: str, key: str, version: Version) -> None:
        if name == self._workspaces:
            self._s3.delete_object(Bucket=name, Key=key)
            return
        self._s3.delete_object(Bucket=name, Key=key, VersionId=version.id)
        self._tell(name, key, "Permanently Deleted")

    def _tell(self, name: str, key: str, kind: str) -> None:
        """EventBridge's news, to whom the deployed rule sends it; it may come twice."""
        detail = {
            "bucket": {"name": name},
            "object": {"key": key},
            "reason": "Lifecycle Expiration",
            "deletion-type": kind,
        }
        wanted = self._news["detail"]["deletion-type"]
        assert (self._news["detail-type"], set(self._news["detail"])) == (
            ["Object Deleted"],
            {"bucket", "deletion-type"},
        )
        if kind in wanted and name == self._artifacts:
            for _twice in range(2):
                billing_api.handler({"detail": detail}, None)

    # ------------------------------------------------------------ what there is

    def versions(self, name: str) -> dict[str, list[Version]]:
        """What a bucket holds, by key, oldest first."""
        found: dict[str, list[Version]] = {}
        for page in self._s3.get_paginator("list_object_versions").paginate(Bucket=name):
            for kind in ("Versions", "DeleteMarkers"):
                for entry in page.get(kind, []):
                    created = entry["LastModified"].timestamp() / DAY_SECONDS
                    marker = kind == "DeleteMarkers"
                    tags = {} if marker else self._tags(name, entry)
                    found.setdefault(entry["Key"], []).append(Version(created, marker, tags, None, entry["VersionId"]))
                    if entry["IsLatest"]:
                        found[entry["Key"]][-1].noncurrent_since = -1.0
        for versions in found.values():
            # S3 lists times in whole seconds; which one is current it says apart.
            versions.sort(key=lambda version: (version.noncurrent_since == -1.0, version.created))
            for version in versions:
                version.noncurrent_since = None
        return found

    def _tags(self, name: str, entry: dict[str, Any]) -> dict[str, str]:
        if name != self._artifacts:
            return {}
        tags = self._s3.get_object_tagging(Bucket=name, Key=entry["Key"], VersionId=entry["VersionId"])["TagSet"]
        return {tag["Key"]: tag["Value"] for tag in tags}

    def traces(self, prefix: str) -> list[str]:
        """Keys below ``prefix`` of which anything is left in either bucket, markers included."""
        return sorted(key for name in self._rules for key in self.versions(name) if key.startswith(prefix))

    def stored(self, key: str) -> int:
        """How many versions with bytes the artifact bucket holds under ``key``."""
        return sum(not version.marker for version in self.versions(self._artifacts).get(key, []))

    def markers(self) -> set[str]:
        """The keys of the artifact bucket that a delete marker hides."""
        return {key for key, versions in self.versions(self._artifacts).items() if versions[-1].marker}

    # ------------------------------------------------------------ unfinished uploads

    def unfinished(self, name: str) -> set[str]:
        """The keys of uploads that nobody completed."""
        return {upload["Key"] for upload in self._s3.list_multipart_uploads(Bucket=name).get("Uploads", [])}

    def _look_for_uploads(self) -> None:
        for name in self._rules:
            for upload in self._s3.list_multipart_uploads(Bucket=name).get("Uploads", []):
                self._uploads.setdefault(upload["UploadId"], self.today)

    def _abort_uploads(self, name: str, days: list[int], midnight: int) -> None:
        for upload in self._s3.list_multipart_uploads(Bucket=name).get("Uploads", []):
            if any(is_due(self._uploads[upload["UploadId"]], after, midnight) for after in days):
                self._s3.abort_multipart_upload(Bucket=name, Key=upload["Key"], UploadId=upload["UploadId"])


@contextmanager
def days_of(system: LocalSystem, deployment: Deployment) -> Iterator[Days]:
    """Whole days for ``system``; the local S3 goes by the same clock."""
    with shifted(system) as clock, pytest.MonkeyPatch.context() as patch:

        def utcnow() -> datetime.datetime:
            return datetime.datetime.fromtimestamp(clock.now(), datetime.UTC).replace(tzinfo=None)

        patch.setattr(moto.s3.models, "utcnow", utcnow)
        yield Days(system, deployment, clock)
