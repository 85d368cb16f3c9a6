"""The routes of documents and collections, each scoped to the person that the request speaks for.

A person sees, adds to and removes what is theirs; people of a department see and add to its collections, which the
portal alone removes from. The portal, without a person's headers, may do everything.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from workbench import uploads
from workbench.artifacts import access, model
from workbench.artifacts.access import Viewer
from workbench.conversations import fields
from workbench.errors import Forbidden, InvalidRequest, NotFound, TooLarge
from workbench.http import Request, Response
from workbench.ids import DocumentId, is_part
from workbench.knowledge import removing, store, uploading
from workbench.knowledge.model import REMOVING, Collection, Document, Owner
from workbench.knowledge.uploading import Wish
from workbench.logs import audit
from workbench.runtime import Runtime
from workbench.table import ConditionFailed

PAGE_DOCUMENTS, MOST_DOCUMENTS = 50, 200
PAGE_PASSAGES, MOST_PASSAGES = 50, 500
MOST_OFFSET = 1_000_000
# A request ends within the gateway's time; the removal of a large collection goes on with the next one.
REMOVE_SECONDS = 15.0


def upload(runtime: Runtime, request: Request) -> Response:
    """``POST /v1/documents``: store a file, read its text, split it into passages and index them, all or nothing.

    ``collection`` left out is the owner's own. A new collection belongs to ``owner``, or to ``department`` when no
    person is named; ``department`` beside a person says who pays.
    """
    body = request.json()
    viewer = access.viewer_of(request.headers)
    document = uploading.upload(runtime, _wish(runtime, body, viewer))
    audit(
        "document.upload",
        document=str(document.id),
        artifact=document.artifact,
        bytes=document.bytes,
        passages=document.passages,
    )
    return Response({"document": document.as_dict()}, 201)


def list_documents(runtime: Runtime, request: Request) -> Response:
    """``GET /v1/documents?collection=&limit=&after=``: oldest first; ``next`` is there when there are more."""
    name = request.query.get("collection")
    if not name:
        raise InvalidRequest("Name a collection (`?collection=`); GET /v1/collections lists them.", field="collection")
    collection = _readable_collection(runtime, name, access.viewer_of(request.headers))
    limit = _number(request, "limit", PAGE_DOCUMENTS, 1, MOST_DOCUMENTS)
    after = _after(request.query.get("after"), collection.id)
    found = store.list_documents(runtime, collection.id, limit + 1, after)
    answer: dict[str, Any] = {"documents": [document.as_dict() for document in found[:limit]]}
    return Response(answer | {"next": str(found[limit - 1].id)} if len(found) > limit else answer)


def show(runtime: Runtime, request: Request) -> Response:
    """``GET /v1/documents/{document}``."""
    _collection, document = _readable(runtime, request)
    return Response({"document": document.as_dict()})


def read_passages(runtime: Runtime, request: Request) -> Response:
    """``GET /v1/documents/{document}/passages?offset=&limit=``: in order; ``next`` is the offset to go on at."""
    _collection, document = _readable(runtime, request)
    offset = _number(request, "offset", 0, 0, MOST_OFFSET)
    limit = _number(request, "limit", PAGE_PASSAGES, 1, MOST_PASSAGES)
    audit("document.read", document=str(document.id))
    whole = store.read_passages(runtime, document)
    if whole is None:
        raise _no_document()
    shown = whole[offset : offset + limit]
    answer: dict[str, Any] = {
        "document": str(document.id),
        "name": document.name,
        "total": len(whole),
        "offset": offset,
        "passages": [{"number": one.number, "place": one.place, "text": one.text} for one in shown],
    }
    return Response(answer | {"next": offset + limit} if offset + limit < len(whole) else answer)


def remove(runtime: Runtime, request: Request) -> Response:
    """``DELETE /v1/documents/{document}``: with its file, passages, index entry and bill, at once and for good."""
    collection, document = _readable(runtime, request, in_removal=True)
    _require_change(collection, access.viewer_of(request.headers))
    if document.state == REMOVING:
        removing.clear_away(runtime, document.id, document.artifact)
    else:
        removing.remove_document(runtime, document)
    audit("document.remove", document=str(document.id), artifact=document.artifact)
    return Response({"document": document.as_dict()})


def list_collections(runtime: Runtime, request: Request) -> Response:
    """``GET /v1/collections?owner=&department=``: those of a person and of a department, by id.

    A person's headers decide; without them the query names whose.
    """
    owner, department = (_named(request, field) for field in ("owner", "department"))
    owners = _principals(access.viewer_of(request.headers) or Viewer(owner, department))
    if not owners:
        raise InvalidRequest("Name a person (`?owner=` or X-Workbench-User) or a department.", field="owner")
    found = [collection for owner in owners for collection in store.collections_of(runtime, owner)]
    return Response({"collections": [collection.as_dict() for collection in sorted(found, key=lambda one: one.id)]})


def _named(request: Request, field: str) -> str | None:
    value = request.query.get(field)
    return None if value is None else fields.name(value, field)


def show_collection(runtime: Runtime, request: Request) -> Response:
    """``GET /v1/collections/{collection}``."""
    name = request.parameters["collection"]
    return Response({"collection": _readable_collection(runtime, name, access.viewer_of(request.headers)).as_dict()})


def remove_collection(runtime: Runtime, request: Request) -> Response:
    """``DELETE /v1/collections/{collection}``: with everything in it; nobody can use it from now on.

    ``status`` is ``removed``, or ``removing`` when there is more than one request gets done: send it again.
    """
    viewer = access.viewer_of(request.headers)
    collection = _readable_collection(runtime, request.parameters["collection"], viewer, in_removal=True)
    _require_change(collection, viewer)
    try:
        removing.hide_collection(runtime, collection)
    except ConditionFailed:
        # Another request ended the removal meanwhile. Whatever has the id by now is not what was asked for.
        return Response({"collection": collection.as_dict() | {"status": "removed"}})
    audit("collection.remove", collection=collection.id, documents=collection.documents)
    until = runtime.clock.monotonic() + REMOVE_SECONDS
    *_counts, more = removing.empty_collection(runtime, collection, lambda: runtime.clock.monotonic() >= until)
    answer = {"collection": collection.as_dict() | {"status": REMOVING if more else "removed"}}
    return Response(answer, 202 if more else 200)


# ---------------------------------------------------------------- who asks


def _principals(viewer: Viewer) -> list[Owner]:
    person = [Owner("person", viewer.user)] if viewer.user else []
    return [*person, Owner("department", viewer.department)] if viewer.department else person


def _may_read(collection: Collection, viewer: Viewer | None) -> bool:
    return viewer is None or collection.owner in _principals(viewer)


def _require_change(collection: Collection, viewer: Viewer | None) -> None:
    if viewer is not None and collection.owner != Owner("person", viewer.user or ""):
        raise Forbidden("This belongs to a department. Only the portal removes from its collections.")


def _readable_collection(runtime: Runtime, name: str, viewer: Viewer | None, *, in_removal: bool = False) -> Collection:
    """NotFound alike for none, for one that is being removed and for one that is not theirs to see."""
    found = store.load_collection(runtime, name)
    if found is None or not _may_read(found, viewer) or not (found.active or in_removal):
        raise NotFound("There is no such collection.")
    return found


def _readable(runtime: Runtime, request: Request, *, in_removal: bool = False) -> tuple[Collection, Document]:
    """The document of the route with its collection; NotFound alike for whatever is not there for this person."""
    parsed = DocumentId.parse(request.parameters["document"])
    found = store.load_document(runtime, parsed) if parsed else None
    if found is not None:
        collection, document = found
        there = document.ready or (in_removal and document.state == REMOVING)
        if collection.active and there and _may_read(collection, access.viewer_of(request.headers)):
            return found
    raise _no_document()


def _no_document() -> NotFound:
    return NotFound("There is no such document.")


# ---------------------------------------------------------------- the fields of an upload


def _wish(runtime: Runtime, body: Mapping[str, Any], viewer: Viewer | None) -> Wish:
    owner, department = _whose(body, viewer)
    person = [Owner("person", owner)] if owner else []
    of_department = [Owner("department", department)] if department else []
    welcome = (*person, *of_department)
    if not welcome:
        raise InvalidRequest("`owner` must name the person whose document this is.", field="owner")
    given = body.get("collection")
    name = _name(body.get("name"))
    media_type, charset = _media_type(body.get("mediaType"), name)
    upload_id, data = _data(runtime, body)
    return Wish(
        collection=None if given is None else fields.part(given, "collection"),
        owner=welcome[0],
        welcome=welcome,
        department=department,
        name=name,
        media_type=media_type,
        charset=charset,
        data=data,
        upload=upload_id,
    )


def _whose(body: Mapping[str, Any], viewer: Viewer | None) -> tuple[str | None, str | None]:
    """The person and the department of an upload. A person's headers decide; the body may only say the same."""
    owner = None if body.get("owner") is None else fields.person(body["owner"], "owner")
    department = None if body.get("department") is None else fields.name(body["department"], "department")
    if viewer is None:
        return owner, department
    for said, who, field in ((owner, viewer.user, "owner"), (department, viewer.department, "department")):
        if said is not None and said != who:
            raise Forbidden(f"`{field}` names somebody else than the request's headers. Leave it out.", field=field)
    return viewer.user, viewer.department


def _name(value: Any) -> str:
    """Any name that a file has somewhere; it is quoted and made fit where it is used."""
    text = fields.text(value, "name", model.NAME_BYTES)
    if not text.strip():
        raise InvalidRequest("`name` must be the file's name, such as `report.pdf`; it is empty.", field="name")
    return text


def _media_type(value: Any, name: str) -> tuple[str, str | None]:
    """The media type without parameters, and its charset; found from the name when left out."""
    if value is None:
        return model.type_of_name(name), None
    bare, *parameters = fields.text(value, "mediaType", model.NAME_BYTES).split(";")
    charsets = [
        text.partition("=")[2].strip("\"' ") for text in parameters if text.strip().lower().startswith("charset=")
    ]
    charset = next(iter(charsets), None)
    return model.check_media_type(bare), charset if is_part(charset) else None


def _data(runtime: Runtime, body: Mapping[str, Any]) -> tuple[str | None, bytes]:
    """The file's bytes, out of the body or out of a signed upload that it names."""
    if body.get("upload") is not None:
        if body.get("data") is not None:
            raise InvalidRequest("Give `data` or `upload`, not both.", field="upload")
        identifier = body["upload"]
        return identifier, uploads.read(runtime, identifier if is_part(identifier) else "", "document")
    text = body.get("data")
    if not isinstance(text, str):
        raise InvalidRequest("`data` must be the file's bytes in base64.", field="data")
    try:
        data = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidRequest("`data` is not base64.", field="data") from error
    allowed = runtime.settings.raw_body_bytes
    if len(data) > allowed:
        raise TooLarge(
            f"The file has {len(data):,} bytes; a request carries up to {allowed:,}. Larger files go through a signed "
            'upload: POST /v1/uploads with {"for": "document"}, then this route with `upload` instead of `data`.',
            allowed=allowed,
        )
    return None, data


def _after(text: str | None, collection: str) -> DocumentId | None:
    if text is None:
        return None
    parsed = DocumentId.parse(text)
    if parsed is None or parsed.collection != collection:
        raise InvalidRequest("`after` must be the `next` of an earlier page of this collection.", field="after")
    return parsed


def _number(request: Request, field: str, default: int, least: int, most: int) -> int:
    text = request.query.get(field, str(default))
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and least <= int(text) <= most):
        raise InvalidRequest(f"`{field}` must be a whole number from {least} to {most:,}.", field=field)
    return int(text)
