"""The routes of prompts: keep a version, list, show, withdraw, fill in."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from workbench.conversations import fields
from workbench.errors import InvalidRequest, TooLarge
from workbench.http import Request, Response
from workbench.logs import audit
from workbench.naming import NAME_RULE, composed, is_name
from workbench.prompts import recording, store
from workbench.prompts.prompt import (
    DEFAULT_VERSION,
    BadPrompt,
    MissingVariables,
    Prompt,
    RenderedTooLong,
    define_prompt,
)
from workbench.prompts.splitting import BadVariants, split
from workbench.prompts.store import SHELF, Candidate
from workbench.runtime import Runtime
from workbench.semver import RULE, BadVersion, Version

TEMPLATE_BYTES = 128 * 1024
RENDERED_CHARACTERS = 1_000_000
VARIANTS = 20
LISTED_AT_ONCE, LISTED_AT_MOST = 100, 1_000


def publish(runtime: Runtime, request: Request) -> Response:
    """``PUT /v1/prompts/{name}``: keep a template as a version of the prompt; the same one again changes nothing."""
    name, body = _name(request), request.json()
    template = fields.text(body.get("template"), "template", TEMPLATE_BYTES)
    version = fields.given(body, "version", DEFAULT_VERSION)
    try:
        prompt = define_prompt(name, template, version)
    except BadPrompt as error:
        raise InvalidRequest(str(error), field="version") from None
    item, created = store.publish(runtime, prompt)
    if created:
        audit("prompt.publish", prompt=name, version=version, sha256=item["digest"])
    return Response({"prompt": store.shown(item), "created": created})


def list_prompts(runtime: Runtime, request: Request) -> Response:
    """``GET /v1/prompts?limit=&after=``: every prompt's latest version, by name, without the templates."""
    limit = fields.number(request.query.get("limit"), "limit", LISTED_AT_ONCE, LISTED_AT_MOST)
    found = SHELF.everything(runtime, request.query.get("after"), limit + 1)
    answer: dict[str, Any] = {"prompts": [store.shown(item) for item in found[:limit]]}
    if len(found) > limit:
        answer["next"] = found[limit - 1]["name"]
    return Response(answer)


def show(runtime: Runtime, request: Request) -> Response:
    """``GET /v1/prompts/{name}?version=``: one version, the latest when left out, and which others there are."""
    chosen, versions = SHELF.choose(runtime, _name(request), request.query.get("version"))
    return Response({"prompt": {**store.shown(chosen), "versions": versions}})


def withdraw(runtime: Runtime, request: Request) -> Response:
    """``DELETE /v1/prompts/{name}``: take every version away."""
    name = _name(request)
    versions = [item["version"] for item in SHELF.withdraw(runtime, name)]
    audit("prompt.withdraw", prompt=name, versions=len(versions))
    return Response({"prompt": {"name": name, "withdrawn": versions}})


def render(runtime: Runtime, request: Request) -> Response:
    """``POST /v1/prompts/{name}/render``: the prompt, or one of its variants, with the variables filled in."""
    name, body = _name(request), request.json()
    variables = fields.table(fields.given(body, "vars", {}), "vars")
    version, listed = body.get("version"), body.get("variants")
    if version is not None and listed is not None:
        raise InvalidRequest("Give `version` or `variants`, not both: a variant names its own.", field="version")
    candidates = None if listed is None else _candidates(listed)
    scope = recording.scope(runtime, body.get("conversation"), body.get("turn"))
    started = runtime.clock.now()
    if candidates is None:
        item = SHELF.find(runtime, name, None if version is None else _version(version, "version"))
    else:
        chance = random.random()  # noqa: S311 - traffic is split, nothing is secured
        item = store.choose(runtime, name, candidates, scope.conversation, chance)
    text = _filled_in(store.as_prompt(item), variables)
    recording.record(runtime, scope, name, item, started=started, characters=len(text), chosen=candidates is not None)
    return Response({"text": text, "name": item["name"], "version": item["version"]})


def _filled_in(prompt: Prompt, variables: Mapping[str, Any]) -> str:
    try:
        return prompt.render(variables, longest=RENDERED_CHARACTERS)
    except MissingVariables as error:
        raise InvalidRequest(
            f"{error} Send {'it' if len(error.names) == 1 else 'them'} in `vars`.",
            field="vars",
            missing=error.names,
            prompt=prompt.id,
        ) from None
    except RenderedTooLong as error:
        raise TooLarge(f"{error} Send shorter values.", allowed=RENDERED_CHARACTERS) from None


def _candidates(listed: object) -> list[Candidate]:
    if not isinstance(listed, list) or not 1 <= len(listed) <= VARIANTS:
        raise InvalidRequest(f"`variants` must be a list of 1 to {VARIANTS} variants.", field="variants")
    candidates: list[Candidate] = []
    for number, entry in enumerate(listed):
        where = f"variants[{number}]"
        variant = fields.table(entry, where)
        name, version = variant.get("name"), variant.get("version")
        if not is_name(name):
            raise InvalidRequest(f"`{where}.name` must be the name of a prompt: {NAME_RULE}.", field=f"{where}.name")
        known = None if version is None else _version(version, f"{where}.version")
        candidates.append(Candidate(str(name), known, fields.given(variant, "weight", 1)))
    try:
        split([candidate.weight for candidate in candidates], 0.0)
    except BadVariants as error:
        raise InvalidRequest(f"{error} These are the weights of `variants`.", field="variants") from None
    return candidates


def _version(value: object, field: str) -> str:
    try:
        return str(Version(value if isinstance(value, str) else ""))
    except BadVersion:
        raise InvalidRequest(f"`{field}` must be a text: {RULE}.", field=field) from None


def _name(request: Request) -> str:
    name = composed(request.parameters["name"])
    if not is_name(name):
        raise InvalidRequest(f"That is no name of a prompt. A name is {NAME_RULE}.", field="name")
    return name
