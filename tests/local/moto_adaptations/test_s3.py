"""S3: checksums, one request at a time, listings, tags."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from moto.s3.models import S3Backend
from moto.s3.utils import _VersionedKeyStore

from tests.local.moto_adaptations.lab import Both, Lab, code_of, in_threads, meet


def test_uploads_match_their_checksums(lab: Lab, both: Both) -> None:
    def probe() -> list[str | None]:
        def put(data: bytes, **more: str) -> str | None:
            return code_of(lambda: lab.s3.put_object(Bucket="lab-bucket", Key=lab.name(), Body=data, **more))

        right = base64.b64encode(hashlib.sha256(b"right").digest()).decode()
        md5 = base64.b64encode(hashlib.md5(b"right").digest()).decode()
        return [
            put(b"right", ChecksumSHA256=right),
            put(b"wrong", ChecksumSHA256=right),
            put(b"wrong", ContentMD5=md5),
            put(b"\xff\x00" * 1000),
        ]

    stock, cured = both("uploads_match_their_checksums", probe)
    assert stock == [None, None, None, None]
    assert cured == [None, "BadDigest", "BadDigest", None]


def test_objects_are_decided_one_at_a_time(lab: Lab, both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    meet(lab, monkeypatch, S3Backend, "get_object")

    def probe() -> int:
        key = lab.name()
        outcomes: list[str | None] = []

        def create() -> None:
            outcomes.append(
                code_of(lambda: lab.s3.put_object(Bucket="lab-bucket", Key=key, Body=b"x", IfNoneMatch="*"))
            )

        in_threads(create, create)
        return outcomes.count(None)

    assert both("objects_are_decided_one_at_a_time", probe) == (2, 1)


def test_listings_pass_over_what_goes(lab: Lab, both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    copied = _VersionedKeyStore._self_iterable

    def probe() -> list[str | None]:
        prefix = lab.name()

        def copied_before_another_goes(self: Any) -> dict[str, Any]:
            keys = copied(self)
            dict.pop(self, f"{prefix}/goes", None)
            return keys

        def outcome(listing: Callable[..., Any]) -> str | None:
            for name in ("goes", "stays"):
                lab.s3.put_object(Bucket="lab-bucket", Key=f"{prefix}/{name}", Body=b"x")
            with monkeypatch.context() as patch:
                patch.setattr(_VersionedKeyStore, "_self_iterable", copied_before_another_goes)
                return code_of(lambda: listing(Bucket="lab-bucket", Prefix=prefix))

        return [outcome(lab.s3.list_objects_v2), outcome(lab.s3.list_object_versions)]

    assert both("listings_pass_over_what_goes", probe) == (["KeyError", "TypeError"], [None, None])


def test_tags_can_be_emptied(lab: Lab, both: Both) -> None:
    def probe() -> tuple[str | None, Any]:
        key = lab.name()
        lab.s3.put_object(Bucket="lab-bucket", Key=key, Body=b"x", Tagging="a=1")
        failed = code_of(lambda: lab.s3.put_object_tagging(Bucket="lab-bucket", Key=key, Tagging={"TagSet": []}))
        return failed, lab.s3.get_object_tagging(Bucket="lab-bucket", Key=key)["TagSet"]

    stock, cured = both("tags_can_be_emptied", probe)
    assert stock[0] == "TypeError"
    assert cured == (None, [])
