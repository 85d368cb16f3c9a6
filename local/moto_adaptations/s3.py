"""S3: checksums, one request at a time, listings, tags."""

from __future__ import annotations

import base64
import hashlib
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from moto.s3.exceptions import S3ClientError
from moto.s3.responses import S3Response
from moto.s3.utils import _VersionedKeyStore

from local.moto_adaptations.registry import Patches, adaptation


class BadDigest(S3ClientError):
    code = "BadDigest"


def _crc32(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(4, "big")


_CHECKSUMS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "x-amz-checksum-sha256": ("SHA256", lambda data: hashlib.sha256(data).digest()),
    "x-amz-checksum-sha1": ("SHA1", lambda data: hashlib.sha1(data).digest()),
    "x-amz-checksum-crc32": ("CRC32", _crc32),
    "content-md5": ("Content-MD5", lambda data: hashlib.md5(data).digest()),
}


@adaptation
def uploads_match_their_checksums(patches: Patches) -> None:
    """moto stores an object whatever checksum was sent with it. S3 refuses a body that does not match with BadDigest;
    content-addressed blobs rely on that.
    """

    def wrapper(stock: Callable[..., Any]) -> Callable[..., Any]:
        def upload(self: S3Response) -> Any:
            body = self.body if isinstance(self.body, bytes) else (self.body or "").encode()
            for header, (name, compute) in _CHECKSUMS.items():
                said = self.headers.get(header)
                if said and said != base64.b64encode(compute(body)).decode():
                    raise BadDigest(f"The {name} you specified did not match the calculated checksum.")
            return stock(self)

        return upload

    for name in ("put_object", "upload_part"):
        patches.wrap(S3Response, name, wrapper)


@adaptation
def objects_are_decided_one_at_a_time(patches: Patches) -> None:
    """moto looks for an object and stores it in two steps, so that two threads which send ``If-None-Match: *`` both
    win. In S3 one of them gets 412.
    """
    lock = threading.RLock()

    def wrapper(stock: Callable[..., Any]) -> Callable[..., Any]:
        def respond(self: S3Response, *arguments: Any, **named: Any) -> Any:
            with lock:
                return stock(self, *arguments, **named)

        return respond

    patches.wrap(S3Response, "key_response", wrapper)


@adaptation
def listings_pass_over_what_goes(patches: Patches) -> None:
    """moto lists a bucket key by key and fails when another thread removes one of them for good meanwhile. In S3 a
    listing shows such a key or does not.
    """

    def lists(self: Any) -> Iterator[tuple[str, list[Any]]]:
        yield from ((key, versions) for key, versions in self._self_iterable().items() if versions)

    def items(self: Any) -> Iterator[tuple[str, Any]]:
        yield from ((key, versions[-1]) for key, versions in lists(self))

    def values(self: Any) -> Iterator[Any]:
        yield from (versions[-1] for _key, versions in lists(self))

    for name, function in (("lists", lists), ("items", items), ("values", values)):
        patches.replace(_VersionedKeyStore, name, function)
        patches.replace(_VersionedKeyStore, f"iter{name}", function)


@adaptation
def tags_can_be_emptied(patches: Patches) -> None:
    """moto fails with a TypeError on PutObjectTagging with an empty TagSet, by which S3 removes every tag."""

    def wrapper(stock: Callable[..., Any]) -> Callable[..., Any]:
        def tagging_from_xml(self: S3Response) -> Any:
            body = self.body if isinstance(self.body, bytes) else (self.body or "").encode()
            return stock(self) if b"<Tag>" in body else {}

        return tagging_from_xml

    patches.wrap(S3Response, "_tagging_from_xml", wrapper)
