"""Bytes that no request carries: sent by a signed PUT, then named in the route that they are meant for.

An upload is a record with a purpose and an hour to live, and an object under ``tmp/uploads/`` that nothing but the
routes of that purpose reads. What they read is hashed again and used once.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from workbench import ids
from workbench.clock import iso
from workbench.conversations import fields
from workbench.errors import Conflict, InvalidRequest, NotFound, TooLarge
from workbench.http import Request, Response
from workbench.keys import Key
from workbench.objects import is_missing
from workbench.operations import ABSENT, Condition, Item, Operation, Update, update
from workbench.runtime import Runtime
from workbench.table import ConditionFailed

PURPOSES = ("document", "file", "skill")
ID_PREFIX = "upl_"
# The link and what came through it: whoever needs longer asks for another.
UPLOAD_SECONDS = 3600
DAY_SECONDS = 86_400
# A body that is longer than this names no upload, whatever it looks like.
REFERENCE_BYTES = 1024

_UNUSED = Condition("attribute_exists(PK) AND attribute_not_exists(usedAt)")


def create(runtime: Runtime, request: Request) -> Response:
    """``POST /v1/uploads``: a link that takes one PUT, for bytes larger than a request carries.

    What is known of the bytes (``bytes``, ``sha256``, ``mediaType``) becomes part of the signature, so that the store
    itself refuses anything else. The ``headers`` of the answer must be sent with the PUT.
    """
    body = request.json()
    purpose = fields.choice(body.get("for"), "for", PURPOSES)
    size = _size(body.get("bytes"), runtime.settings.upload_bytes)
    sha256 = _sha256(body.get("sha256"))
    media_type = _media_type(body.get("mediaType"))
    upload = ids.random_part(ID_PREFIX)
    expires = runtime.clock.now() + UPLOAD_SECONDS
    pk, sk = upload_key(upload)
    item: Item = {"PK": pk, "SK": sk, "purpose": purpose, "expiresAt": expires, "ttl": int(expires + DAY_SECONDS)}
    item |= {"bytes": size} if size is not None else {}
    item |= {"sha256": sha256} if sha256 is not None else {}
    runtime.table.put(item, ABSENT)
    # Nothing may take the place of what was sent: the link writes where nothing is.
    parameters: dict[str, Any] = {"IfNoneMatch": "*"}
    headers = {"if-none-match": "*"}
    if size is not None:
        parameters["ContentLength"] = size
        headers["content-length"] = str(size)
    if sha256 is not None:
        checksum = base64.b64encode(bytes.fromhex(sha256)).decode()
        parameters["ChecksumSHA256"] = headers["x-amz-checksum-sha256"] = checksum
    if media_type is not None:
        parameters["ContentType"] = headers["content-type"] = media_type
    url = runtime.clients.s3.generate_presigned_url(
        "put_object",
        Params={"Bucket": runtime.settings.workspace_bucket, "Key": object_key(upload), **parameters},
        ExpiresIn=UPLOAD_SECONDS,
    )
    return Response({"upload": upload, "url": url, "headers": headers, "expiresAt": iso(expires)}, 201)


def named_in(request: Request) -> str | None:
    """The upload that a raw body names: exactly ``{"upload": id}``. None when the body is data itself.

    Bytes sent as application/octet-stream are always data, also those that look like this.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if len(request.body) > REFERENCE_BYTES or media_type == "application/octet-stream":
        return None
    try:
        said = json.loads(request.body)
    except (ValueError, RecursionError):
        return None
    upload = said.get("upload") if isinstance(said, dict) and said.keys() == {"upload"} else None
    if not isinstance(upload, str) or not (upload.startswith(ID_PREFIX) or media_type == "application/json"):
        return None
    return upload


def take(runtime: Runtime, upload: str, purpose: str) -> bytes:
    """The bytes of an upload, which is used by this: for routes that keep them outside the table's transaction.

    Raises NotFound for an unknown or expired upload, Conflict for one that was made for another purpose, was used, or
    has other bytes than agreed (or none yet), TooLarge.
    """
    data = read(runtime, upload, purpose)
    try:
        runtime.table.transact([used(runtime, upload)])
    except ConditionFailed:
        raise _already_used() from None
    discard(runtime, upload)
    return data


def read(runtime: Runtime, upload: str, purpose: str) -> bytes:
    """Like :func:`take`, but the upload stays usable until :func:`used` is committed. Two requests."""
    item = require_usable(runtime, upload, purpose)
    allowed = runtime.settings.upload_bytes
    try:
        answer = runtime.clients.s3.get_object(Bucket=runtime.settings.workspace_bucket, Key=object_key(upload))
    except ClientError as error:
        if is_missing(error):
            raise Conflict("Nothing was sent through this upload's link yet. PUT the bytes there first.") from None
        raise
    if answer["ContentLength"] > allowed:
        answer["Body"].close()
        raise TooLarge(f"The upload has {answer['ContentLength']:,} bytes; {allowed:,} are allowed.", allowed=allowed)
    data: bytes = answer["Body"].read()
    _check(item, data)
    return data


def require_usable(runtime: Runtime, upload: str, purpose: str) -> Item:
    """The upload's record, when it may be used for ``purpose`` now; raises NotFound or Conflict."""
    item = runtime.table.get(upload_key(upload)) if ids.is_part(upload) else None
    if item is None or item["expiresAt"] <= runtime.clock.now():
        raise NotFound("There is no such upload, or it has expired. Ask for a new one with POST /v1/uploads.")
    if item["purpose"] != purpose:
        raise Conflict(f"This upload was made for a {item['purpose']}, not for a {purpose}.", purpose=item["purpose"])
    if "usedAt" in item:
        raise _already_used()
    return item


def used(runtime: Runtime, upload: str) -> Operation:
    """The write that uses an upload up, for the transaction that keeps its bytes: it fails when it was used already."""
    return update(upload_key(upload), Update().set("usedAt", runtime.clock.now()), _UNUSED)


def discard(runtime: Runtime, upload: str) -> None:
    """Remove the object of an upload that was used; the bucket's lifecycle removes what is left behind."""
    runtime.clients.s3.delete_object(Bucket=runtime.settings.workspace_bucket, Key=object_key(upload))


def upload_key(upload: str) -> Key:
    return f"UP#{upload}", "UPLOAD"


def object_key(upload: str) -> str:
    return f"tmp/uploads/{upload}"


def _already_used() -> Conflict:
    return Conflict("This upload was used already; an upload is used once. Ask for a new one with POST /v1/uploads.")


def _check(item: Mapping[str, Any], data: bytes) -> None:
    if item.get("bytes", len(data)) != len(data):
        raise Conflict(f"The upload has {len(data):,} bytes; {item['bytes']:,} were announced.", bytes=len(data))
    found = hashlib.sha256(data).hexdigest()
    if item.get("sha256", found) != found:
        raise Conflict("The uploaded bytes are not those of the announced sha256.", sha256=found)


def _size(value: Any, allowed: int) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidRequest("`bytes` must be a whole number, the size of what will be sent.", field="bytes")
    if value > allowed:
        raise TooLarge(f"`bytes` is {value:,}; an upload holds up to {allowed:,}.", field="bytes", allowed=allowed)
    return value


def _sha256(value: Any) -> str | None:
    if value is None:
        return None
    text = value.lower() if isinstance(value, str) else ""
    if len(text) != 64 or any(letter not in "0123456789abcdef" for letter in text):
        raise InvalidRequest("`sha256` must be 64 hexadecimal digits, the hash of what will be sent.", field="sha256")
    return text


def _media_type(value: Any) -> str | None:
    if value is None:
        return None
    # Whoever only takes uploads need not know media types.
    from workbench.artifacts.model import check_media_type

    return check_media_type(fields.text(value, "mediaType", REFERENCE_BYTES))
