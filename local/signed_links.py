"""Signed links of one machine: what S3's presigned URLs are in AWS, served by the gateway.

moto would accept an expired or altered URL, and a browser could not reach it anyway. A local link carries the request
it allows (operation, parameters, time of expiry) and an HMAC over it, under a key that lives as long as the process.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any

from botocore.exceptions import ClientError

from local.events import HttpAnswer, HttpRequest
from workbench.errors import Conflict, Forbidden, InvalidRequest, NotFound, RequestError

PREFIX = "/signed/"
# S3 takes 5 GiB in one PUT; here it is held in memory.
UPLOAD_BYTES = 512 * 1024 * 1024
METHODS: Mapping[str, str] = {"get_object": "GET", "put_object": "PUT"}
# Headers that a signed upload must repeat, and the parameters that they are in the request to S3.
_UPLOAD_HEADERS = {
    "ContentType": "content-type",
    "ChecksumSHA256": "x-amz-checksum-sha256",
    "ContentMD5": "content-md5",
    "IfNoneMatch": "if-none-match",
    "ContentLength": "content-length",
}


class SignedLinks:
    """Replaces ``generate_presigned_url`` of ``s3`` and answers the links it gives. ``url`` is the gateway's."""

    def __init__(self, s3: Any, url: Callable[[], str]) -> None:
        self._s3 = s3
        self._url = url
        self._key = secrets.token_bytes(32)
        s3.generate_presigned_url = self.sign

    def sign(
        self,
        ClientMethod: str,  # noqa: N803 - boto's names
        Params: Mapping[str, Any],  # noqa: N803
        ExpiresIn: float = 3600,  # noqa: N803
        HttpMethod: str | None = None,  # noqa: N803, ARG002 - the operation decides
    ) -> str:
        """A link that allows one operation with these parameters for ``ExpiresIn`` seconds."""
        if ClientMethod not in METHODS:
            raise ValueError(f"{ClientMethod} cannot be signed; {', '.join(METHODS)} can")
        grant = {"operation": ClientMethod, "parameters": dict(Params), "until": time.time() + ExpiresIn}
        text = _encode(json.dumps(grant).encode())
        return f"{self._url()}{PREFIX}{text}.{self._signature(text)}"

    def answer(self, request: HttpRequest) -> HttpAnswer | None:
        """Serve a signed link; None for any other path. Raises :class:`~workbench.errors.RequestError`."""
        path = request.path.decode("latin-1")
        if not path.startswith(PREFIX):
            return None
        text, _dot, signature = path.removeprefix(PREFIX).partition(".")
        if not hmac.compare_digest(signature.encode("latin-1"), self._signature(text).encode()):
            raise Forbidden("The link was altered, or it was made before this server started. Ask for a new one.")
        grant = json.loads(_decode(text))
        if time.time() >= grant["until"]:
            raise Forbidden("The link has expired. Ask for a new one.")
        if request.method != METHODS[grant["operation"]]:
            raise Forbidden(f"The link is for {METHODS[grant['operation']]} only.")
        try:
            if grant["operation"] == "get_object":
                return self._download(request, grant["parameters"])
            return self._upload(request, grant["parameters"])
        except ClientError as error:
            raise _as_request_error(error) from error

    def _download(self, request: HttpRequest, parameters: Mapping[str, Any]) -> HttpAnswer:
        wanted = request.header("range")
        found = self._s3.get_object(**parameters, **({"Range": wanted} if wanted else {}))
        headers = [("content-type", found.get("ContentType", "binary/octet-stream")), ("etag", found["ETag"])]
        disposition = parameters.get("ResponseContentDisposition")
        if disposition:
            headers.append(("content-disposition", disposition))
        if "ContentRange" in found:
            headers.append(("content-range", found["ContentRange"]))
        status = found["ResponseMetadata"]["HTTPStatusCode"]
        return HttpAnswer(status, tuple(headers), found["Body"].read())

    def _upload(self, request: HttpRequest, parameters: Mapping[str, Any]) -> HttpAnswer:
        for parameter, header in _UPLOAD_HEADERS.items():
            if parameter in parameters and request.header(header) != str(parameters[parameter]):
                raise Forbidden(f"The upload must send the header {header}: {parameters[parameter]}.")
        stored = self._s3.put_object(**parameters, Body=request.body)
        return HttpAnswer(200, (("etag", stored["ETag"]),), b"")

    def _signature(self, text: str) -> str:
        return _encode(hmac.digest(self._key, text.encode("latin-1"), hashlib.sha256))


def _as_request_error(error: ClientError) -> RequestError:
    code = error.response["Error"].get("Code")
    if code == "PreconditionFailed":
        return Conflict("Something was sent through this link already.")
    if code in ("NoSuchKey", "404", "NoSuchVersion"):
        return NotFound("What the link names does not exist any more.")
    return InvalidRequest(f"S3 refused the request: {code}.")


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
