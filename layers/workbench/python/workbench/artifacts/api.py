"""The routes of one artifact, each scoped to the person that the request speaks for: show, compare, download, share."""

from __future__ import annotations

from functools import partial

from workbench import links
from workbench.artifacts import access, listing, store
from workbench.artifacts.model import Artifact, Sharing, Version
from workbench.conversations import fields
from workbench.errors import Forbidden, NotFound
from workbench.http import Request, Response
from workbench.keys import artifact_key
from workbench.logs import audit
from workbench.operations import PRESENT, Update
from workbench.runtime import Runtime
from workbench.table import ConditionFailed
from workbench.workspace.differing import unified
from workbench.workspace.text.lines import measure

# Beyond this a difference is reported without its text.
DIFFED_BYTES = 256 * 1024
# Whatever a stored page or picture holds, it runs nothing, loads nothing and reaches nothing of the portal.
SANDBOXED = "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'; font-src data:; form-action 'none'"


def show(runtime: Runtime, request: Request) -> Response:
    """``GET /v1/artifacts/{artifact}``: one that may be read; with ``state=all`` in whatever state, to the portal."""
    if listing.everything(request):
        return Response({"artifact": listing.show_all(runtime, request.parameters["artifact"])})
    return Response({"artifact": _readable(runtime, request).as_dict()})


def content(runtime: Runtime, request: Request) -> Response:
    """``GET /v1/artifacts/{artifact}/versions/{v}/content``: the bytes, always as an attachment that runs nothing."""
    artifact = _readable(runtime, request)
    version = _version(artifact, request.parameters["v"])
    audit("artifact.read", artifact=artifact.id, version=version.version)
    settings = runtime.settings
    if version.bytes > settings.raw_body_bytes:
        key = store.object_key(artifact.id, version.version)
        return links.redirect(runtime, settings.artifact_bucket, key, version.name)
    data = store.read(runtime, artifact.id, version.version)
    if data is None:
        raise _no_artifact()
    headers = links.headers(version.name, _content_type(version))
    return Response(data, headers=headers | {"content-security-policy": SANDBOXED})


def diff(runtime: Runtime, request: Request) -> Response:
    """``GET /v1/artifacts/{artifact}/versions/{v}/diff/{w}``: what changed from v to w, as a unified diff.

    ``diff`` is empty for equal bytes; where it is null, ``note`` says why.
    """
    artifact = _readable(runtime, request)
    before, after = (_version(artifact, request.parameters[name]) for name in ("v", "w"))
    audit("artifact.read", artifact=artifact.id, versions=[before.version, after.version])
    text, note = _difference(runtime, artifact, before, after)
    facts = {"artifact": artifact.id, "from": before.version, "to": after.version, "diff": text}
    return Response({**facts, "note": note} if note else facts)


def _difference(runtime: Runtime, artifact: Artifact, before: Version, after: Version) -> tuple[str | None, str | None]:
    """(unified diff, None), or None and the reason why there is none."""
    if before.sha256 == after.sha256:
        return "", None
    if max(before.bytes, after.bytes) > DIFFED_BYTES:
        return None, f"longer than {DIFFED_BYTES:,} bytes"
    reads = (partial(store.read, runtime, artifact.id, version.version) for version in (before, after))
    old, new = runtime.clients.together(*reads)
    if old is None or new is None:
        raise _no_artifact()
    if measure(old) is None or measure(new) is None:
        return None, "not text"
    text = unified(after.name, old, new)
    return (text, None) if text else (None, "the same text in other bytes")


def share(runtime: Runtime, request: Request) -> Response:
    """``PUT /v1/artifacts/{artifact}/sharing``: who may read besides the owner, who alone (or the portal) says so."""
    viewer = access.viewer_of(request.headers)
    artifact = _readable(runtime, request)
    if not access.may_change(artifact, viewer):
        raise Forbidden("Only the owner of an artifact decides who else may read it.")
    body = request.json()
    sharing = Sharing(
        tuple(fields.names(fields.given(body, "people", []), "people")),
        tuple(fields.names(fields.given(body, "departments", []), "departments")),
        fields.flag(fields.given(body, "everyone", False), "everyone"),
    )
    try:
        runtime.table.update(artifact_key(artifact.id), Update().set("sharing", sharing.as_dict()), PRESENT)
    except ConditionFailed:
        raise _no_artifact() from None
    audit("artifact.share", artifact=artifact.id, everyone=sharing.everyone)
    return Response({"artifact": {**artifact.as_dict(), "sharing": sharing.as_dict()}})


def _readable(runtime: Runtime, request: Request) -> Artifact:
    """The artifact of the route; NotFound alike for none, for an expired one and for one that is not theirs to see."""
    found = store.find(runtime, request.parameters["artifact"])
    if found is None or not access.may_read(found, access.viewer_of(request.headers)):
        raise _no_artifact()
    return found


def _version(artifact: Artifact, text: str) -> Version:
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else 0
    version = artifact.version(number)
    if version is None:
        there = ", ".join(str(kept.version) for kept in artifact.versions)
        raise NotFound(f"This artifact has no such version; it has {there}.")
    return version


def _content_type(version: Version) -> str:
    return f"{version.media_type}; charset=utf-8" if version.media_type.startswith("text/") else version.media_type


def _no_artifact() -> NotFound:
    return NotFound("There is no such artifact.")
