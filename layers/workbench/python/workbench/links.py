"""Downloads: headers that keep a browser from running what it gets, and short-lived links for large objects."""

from __future__ import annotations

from urllib.parse import quote

from workbench.http import Response
from workbench.runtime import Runtime

LINK_SECONDS = 60
MEDIA_TYPE = "application/octet-stream"


def disposition(name: str) -> str:
    """``attachment`` with the file's name, safe for any name (RFC 6266, RFC 8187)."""
    plain = "".join(
        letter if letter.isascii() and letter.isprintable() and letter not in '"\\' else "_" for letter in name
    )
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


def headers(name: str, media_type: str = MEDIA_TYPE) -> dict[str, str]:
    """Response headers of a download."""
    return {
        "content-type": media_type,
        "content-disposition": disposition(name),
        "x-content-type-options": "nosniff",
        "cache-control": "private, no-store",
    }


def redirect(runtime: Runtime, bucket: str, key: str, name: str) -> Response:
    """307 to a link that opens ``key`` for a minute, always as an attachment of an inert type."""
    url = runtime.clients.s3.generate_presigned_url(
        "get_object",
        Params={
            "Bucket": bucket,
            "Key": key,
            "ResponseContentDisposition": disposition(name),
            "ResponseContentType": MEDIA_TYPE,
        },
        ExpiresIn=LINK_SECONDS,
    )
    return Response({"location": url}, 307, {"location": url})
