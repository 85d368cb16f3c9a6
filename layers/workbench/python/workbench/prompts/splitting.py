"""Choosing between variants of a prompt: by weight, by name, and alike for the same conversation. No AWS here."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from workbench import semver
from workbench.prompts.prompt import DEFAULT_VERSION, BadPrompt, Prompt, define_prompt

# The first 53 bits of a digest are a number that a float holds exactly.
_BITS = 53


class BadVariants(BadPrompt):
    """No choice can be made between the variants; the message says why."""


class Named(Protocol):
    """What is chosen between."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...


N = TypeVar("N", bound=Named)


@dataclass(frozen=True)
class Variant:
    """A prompt and its share of the traffic, relative to the other variants'."""

    prompt: Prompt
    weight: float = 1.0


def ab_prompts(
    variants: Iterable[Variant | Prompt | Mapping[str, Any] | tuple[Prompt, float]],
    pick: str | None = None,
    *,
    key: str | None = None,
) -> Prompt:
    """One of ``variants``: prompts, prompts with weights, or ``{"name", "template", "version"?, "weight"?}``.

    ``pick`` chooses by ``name`` (among several versions by weight) or ``name@version``. Otherwise the choice is
    random by weight, and with ``key``, such as a conversation's id, the same for the same key. Raises
    :class:`BadVariants`.
    """
    listed = [_variant(variant) for variant in variants]
    if pick is not None:
        listed = [listed[number] for number in picked([variant.prompt for variant in listed], pick)]
        if len(listed) == 1:
            return listed[0].prompt
    place = random.random() if key is None else place_of(key)  # noqa: S311 - traffic is split, nothing is secured
    return listed[split([variant.weight for variant in listed], place)].prompt


def picked(prompts: Sequence[N], pick: str) -> list[int]:
    """Which of ``prompts`` are meant by ``name`` or ``name@version``; raises BadVariants when none is."""
    name, at, version = pick.rpartition("@")
    if not at:
        found = [number for number, prompt in enumerate(prompts) if prompt.name == pick]
    else:
        found = [
            number for number, prompt in enumerate(prompts) if prompt.name == name and _same(prompt.version, version)
        ]
    if not found:
        there = ", ".join(f"`{prompt.name}@{prompt.version}`" for prompt in prompts[:20])
        raise BadVariants(f"No variant is `{pick[:100]}`; there are {there or 'none'}.")
    return found


def split(weights: Sequence[object], place: float) -> int:
    """The position of the weight in whose share ``place`` lies, a number from 0 up to but not 1.

    Raises BadVariants for weights that are no numbers from 0 up, or sum to none.
    """
    checked = [_weight(weight) for weight in weights]
    # Weights may be as large as a float goes: only their shares are added.
    largest = max(checked, default=0.0)
    if largest <= 0:
        raise BadVariants("No variant has a weight above 0. Give at least one a positive weight.")
    shares = [weight / largest for weight in checked]
    mark, reached = place * math.fsum(shares), 0.0
    for number, share in enumerate(shares):
        reached += share
        if mark < reached:
            return number
    return max(number for number, share in enumerate(shares) if share)


def place_of(key: str) -> float:
    """The same evenly spread number from 0 up to but not 1 for the same key."""
    digest = hashlib.sha256(key.encode(errors="surrogatepass")).digest()
    return (int.from_bytes(digest[:8]) >> (64 - _BITS)) / float(1 << _BITS)


def _weight(weight: object) -> float:
    if isinstance(weight, bool) or not isinstance(weight, int | float):
        raise BadVariants("A weight must be a number from 0 up.")
    try:
        number = float(weight)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or number < 0:
        raise BadVariants("A weight must be a finite number from 0 up.")
    return number


def _variant(given: Variant | Prompt | Mapping[str, Any] | tuple[Prompt, float]) -> Variant:
    if isinstance(given, Variant):
        return given
    if isinstance(given, Prompt):
        return Variant(given)
    if isinstance(given, tuple):
        return Variant(*given)
    prompt = define_prompt(given.get("name", ""), given.get("template", None), given.get("version", DEFAULT_VERSION))
    return Variant(prompt, given.get("weight", 1.0))


def _same(version: str, asked: str) -> bool:
    try:
        return semver.Version(version) == semver.Version(asked)
    except semver.BadVersion:
        return False
