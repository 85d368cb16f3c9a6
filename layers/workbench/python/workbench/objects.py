"""Listing and deleting many S3 objects. Only the owners of a prefix call this; single objects are handled in place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from botocore.exceptions import ClientError

from workbench.clients import Clients

# What one DeleteObjects request takes, and one page of a listing holds.
BATCH = 1_000


class Stored(NamedTuple):
    """One listed object; ``modified`` in Unix seconds, by S3's clock."""

    key: str
    bytes: int
    modified: float


def pages(clients: Clients, bucket: str, prefix: str) -> Iterator[list[str]]:
    """The keys below ``prefix``, a page at a time; each page is one request, made when it is asked for."""
    return ([entry.key for entry in page] for page in listed(clients, bucket, prefix))


def listed(clients: Clients, bucket: str, prefix: str, after: str = "") -> Iterator[list[Stored]]:
    """Like :func:`pages`, with sizes and times; only keys that sort behind ``after``."""
    request: dict[str, Any] = {"Bucket": bucket, "Prefix": prefix, "MaxKeys": BATCH}
    if after:
        request["StartAfter"] = after
    while True:
        answer = clients.s3.list_objects_v2(**request)
        found = [
            Stored(entry["Key"], entry["Size"], entry["LastModified"].timestamp())
            for entry in answer.get("Contents", [])
        ]
        if found:
            yield found
        if not answer.get("IsTruncated"):
            return
        request["ContinuationToken"] = answer["NextContinuationToken"]


def versions(clients: Clients, bucket: str, prefix: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Every object version and every delete marker below ``prefix`` of a versioned bucket."""
    request: dict[str, Any] = {"Bucket": bucket, "Prefix": prefix}
    stored: list[dict[str, Any]] = []
    markers: list[dict[str, Any]] = []
    while True:
        answer = clients.s3.list_object_versions(**request)
        stored += answer.get("Versions", [])
        markers += answer.get("DeleteMarkers", [])
        if not answer.get("IsTruncated"):
            return stored, markers
        request |= {"KeyMarker": answer["NextKeyMarker"], "VersionIdMarker": answer["NextVersionIdMarker"]}


def delete(clients: Clients, bucket: str, entries: Sequence[dict[str, str]]) -> None:
    """Delete ``{"Key", "VersionId"?}`` entries; deleting what is gone is no error. Raises OSError naming a failure."""
    for start in range(0, len(entries), BATCH):
        batch = list(entries[start : start + BATCH])
        answer = clients.s3.delete_objects(Bucket=bucket, Delete={"Objects": batch, "Quiet": True})
        failures = answer.get("Errors") or []
        if failures:
            raise OSError(f"{len(failures)} objects could not be deleted, the first with {failures[0].get('Code')}")


def code_of(error: ClientError) -> str:
    """The error code that AWS gave, such as ``NoSuchKey``."""
    return str(error.response.get("Error", {}).get("Code"))


def is_missing(error: ClientError) -> bool:
    """True when there is no such object; of a HEAD request, which has no body, only the status says so."""
    return code_of(error) in ("NoSuchKey", "404")
