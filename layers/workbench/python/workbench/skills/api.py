"""The routes of skills: push a bundle, list, show, withdraw, and say which fit a text."""

from __future__ import annotations

from typing import Any

from workbench import uploads
from workbench.conversations import fields
from workbench.conversations.finishing import read_state
from workbench.errors import InvalidRequest, TooLarge
from workbench.http import Request, Response
from workbench.ids import TurnId
from workbench.logs import audit
from workbench.naming import NAME_RULE, composed, is_name
from workbench.operations import Item
from workbench.runtime import Runtime
from workbench.skills import permission, store, zipped
from workbench.skills.bundle import FILES, Bundle, BundleTooLarge
from workbench.skills.matching import Candidate, match_skills
from workbench.skills.skill_file import BadSkill

LISTED_AT_ONCE, LISTED_AT_MOST = 100, 1_000
# A function's answer has 6 MB: what does not fit is reached with `after`.
ANSWER_BYTES = 3 * 1024 * 1024
TEXT_BYTES = 256 * 1024


def push(runtime: Runtime, request: Request) -> Response:
    """``PUT /v1/skills/{name}``: keep a zipped bundle as a version of the skill; the same one again changes nothing."""
    name = _name(request)
    bundle = read_bundle(_body(runtime, request), runtime.settings.skill_bytes)
    if bundle.skill.name != name:
        raise InvalidRequest(
            f"The bundle is the skill `{bundle.skill.name}`, and the route names `{name}`. Send it to "
            f"/v1/skills/{bundle.skill.name}, or change `name` in its SKILL.md.",
            field="name",
        )
    item, created = keep(runtime, bundle)
    return Response({"skill": store.shown(item), "created": created})


def read_bundle(data: bytes, limit: int) -> Bundle:
    """The bundle in a zip; raises InvalidRequest with the reason, and TooLarge."""
    try:
        return zipped.read_zip(data, limit)
    except BundleTooLarge as error:
        raise TooLarge(f"{error.reason} Nothing was kept.", allowed=limit) from None
    except BadSkill as error:
        raise InvalidRequest(f"{error} Nothing was kept.", field=error.path or "body") from None


def keep(runtime: Runtime, bundle: Bundle) -> tuple[Item, bool]:
    """Keep a bundle and say so in the audit log; the version's item, and whether it is new. Raises Conflict."""
    item, created = store.push(runtime, bundle)
    if created:
        facts = {"skill": item["name"], "version": item["version"], "sha256": item["digest"], "bytes": item["bytes"]}
        audit("skill.push", files=len(bundle.files), **facts)
    return item, created


def list_skills(runtime: Runtime, request: Request) -> Response:
    """``GET /v1/skills?limit=&after=``: every skill in its latest version, by name."""
    limit = fields.number(request.query.get("limit"), "limit", LISTED_AT_ONCE, LISTED_AT_MOST)
    listed: list[dict[str, Any]] = []
    room, limits = ANSWER_BYTES, {"bytes": runtime.settings.skill_bytes, "files": FILES}
    # One more than asked for tells whether there are more.
    for item in store.SHELF.everything(runtime, request.query.get("after"), limit + 1):
        skill = store.shown(item)
        room -= sum(len(file["path"].encode()) + 32 for file in skill["files"]) + 4 * len(skill["description"]) + 200
        if len(listed) == limit or (listed and room < 0):
            return Response({"skills": listed, "limits": limits, "next": listed[-1]["name"]})
        listed.append(skill)
    return Response({"skills": listed, "limits": limits})


def show(runtime: Runtime, request: Request) -> Response:
    """``GET /v1/skills/{name}?version=``: one version, the latest when left out, and which others there are."""
    chosen, versions = store.SHELF.choose(runtime, _name(request), request.query.get("version"))
    return Response({"skill": {**store.shown(chosen), "versions": versions}})


def withdraw(runtime: Runtime, request: Request) -> Response:
    """``DELETE /v1/skills/{name}``: take every version away. Turns that were offered the skill lose it at once."""
    name = _name(request)
    versions = store.withdraw(runtime, name)
    audit("skill.withdraw", skill=name, versions=len(versions))
    return Response({"skill": {"name": name, "withdrawn": versions}})


def match(runtime: Runtime, request: Request) -> Response:
    """``POST /v1/skills/match``: which skills fit a text, best first; with a turn, of those that it may load."""
    body = request.json()
    text = fields.text(body.get("text"), "text", TEXT_BYTES)
    turn_id = body.get("turn")
    if turn_id is None:
        items = store.SHELF.everything(runtime)
    else:
        items = permission.usable(runtime, read_state(runtime, TurnId.parse(turn_id)).item)
    found = match_skills([Candidate(item["name"], item["description"]) for item in items], text)
    return Response({"matches": [one.as_dict() for one in found]})


def _name(request: Request) -> str:
    name = composed(request.parameters["name"])
    if not is_name(name):
        raise InvalidRequest(f"That is no name of a skill. A name is {NAME_RULE}.", field="name")
    return name


def _body(runtime: Runtime, request: Request) -> bytes:
    upload = uploads.named_in(request)
    if upload is not None:
        return uploads.take(runtime, upload, "skill")
    allowed = runtime.settings.raw_body_bytes
    if len(request.body) > allowed:
        raise TooLarge(
            f"The body has {len(request.body):,} bytes; this route carries up to {allowed:,}. Larger bundles go "
            'through a signed upload: POST /v1/uploads with {"for": "skill"}.',
            allowed=allowed,
        )
    return request.body
