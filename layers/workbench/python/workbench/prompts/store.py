"""Prompts as the deployment keeps them: versions on a shelf, and which variant a conversation was given."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workbench.keys import Key, conversation_key
from workbench.operations import Item
from workbench.prompts.prompt import Prompt
from workbench.prompts.splitting import place_of, split
from workbench.runtime import Runtime
from workbench.semver import Version
from workbench.shelf import Shelf

SHELF = Shelf("PROMPT", "prompt", ("template", "variables"))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A variant as a request names it; without a version it is the latest."""

    name: str
    version: str | None
    weight: float


def publish(runtime: Runtime, prompt: Prompt) -> tuple[Item, bool]:
    """Keep a prompt as a version of its name; returns the item and whether it is new. Raises Conflict."""
    facts = {
        "name": prompt.name,
        "version": prompt.version,
        "variables": prompt.variables,
        "digest": hashlib.sha256(prompt.template.encode()).hexdigest(),
    }
    return SHELF.publish(runtime, facts, {"template": prompt.template})


def as_prompt(item: Item) -> Prompt:
    return Prompt(item["name"], item["template"], item["version"])


def shown(item: Item) -> dict[str, Any]:
    """What the API says of a version: name, version, variables, and the template where it was read."""
    return {key: item[key] for key in ("name", "version", "template", "variables") if key in item}


# ---------------------------------------------------------------- variants


def choice_key(conversation: str, experiment: str) -> Key:
    """Where it stands which variant of an experiment a conversation was given."""
    return conversation_key(conversation, f"AB#{experiment}")


def choose(
    runtime: Runtime, experiment: str, candidates: Sequence[Candidate], conversation: str | None, chance: float
) -> Item:
    """The item of the variant that the request gets.

    A conversation keeps the variant and version that it was given first, as long as the variant is listed with a
    weight. ``chance`` (from 0, below 1) decides where there is no conversation. Raises NotFound for a variant that
    there is not.
    """
    before = runtime.table.get(choice_key(conversation, experiment)) if conversation else None
    items = _resolve(runtime, candidates, before)
    for candidate, item in zip(candidates, items, strict=True):
        if before is not None and candidate.weight > 0 and _is_choice(before, item):
            return item
    # The same place for the same conversation: two first requests at once come to the same choice.
    place = place_of(f"{conversation}\n{experiment}") if conversation else chance
    return items[split([candidate.weight for candidate in candidates], place)]


def _is_choice(kept: Item, item: Item) -> bool:
    """True when what is kept of a conversation's choice names this version."""
    return bool(kept["name"] == item["name"] and Version(kept["version"]) == Version(item["version"]))


def _resolve(runtime: Runtime, candidates: Sequence[Candidate], before: Item | None) -> list[Item]:
    """The item of each candidate: in the version that it names, that the conversation has, or the latest."""
    open_names = [one.name for one in candidates if one.version is None]
    latest = SHELF.latest(runtime, open_names) if open_names else {}
    wanted: list[tuple[str, str]] = []
    for one in candidates:
        version = one.version
        if version is None:
            if one.name not in latest:
                raise SHELF.not_found(one.name)
            kept = before if before is not None and before["name"] == one.name else latest[one.name]
            version = str(kept["version"])
        wanted.append((one.name, version))
    found = zip(candidates, SHELF.versions(runtime, wanted), strict=True)
    # One that was withdrawn since: the latest takes its place, or the refusal says what there is.
    return [item or SHELF.find(runtime, candidate.name, candidate.version) for candidate, item in found]
