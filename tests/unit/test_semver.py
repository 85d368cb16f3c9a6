"""Versions of skills and prompts: which texts are one, and in which order they come."""

from __future__ import annotations

from itertools import pairwise

import pytest

from workbench.semver import BadVersion, Version


def test_the_order_of_the_standard() -> None:
    """The examples of Semantic Versioning 2.0.0, section 11."""
    ordered = ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11"]
    ordered += ["1.0.0-rc.1", "1.0.0", "2.0.0", "2.1.0", "2.1.1", "2.10.0", "10.0.0"]
    assert all(Version(one) < Version(other) for one, other in pairwise(ordered))
    assert max(reversed(ordered), key=Version) == "10.0.0"


@pytest.mark.parametrize(
    ("written", "spelled"),
    [
        ("1", "1.0.0"),
        ("1.2", "1.2.0"),
        ("v2.1", "2.1.0"),
        ("2025.01.15", "2025.1.15"),
        ("1.0-b", "1.0.0-b"),
        ("0.1.0", "0.1.0"),
    ],
)
def test_one_spelling_for_each(written: str, spelled: str) -> None:
    assert str(Version(written)) == spelled and Version(written) == Version(spelled)
    assert hash(Version(written)) == hash(Version(spelled))


@pytest.mark.parametrize(
    "text",
    ["", "x", "1.", ".1", "1..2", "1.2.3.4", "-1", "1.0.0-", "1.0.0+", "1.0.0 ", "1.0\n", "١.0", "9" * 65, "1/2", "1#"],
)
def test_what_is_none(text: str) -> None:
    with pytest.raises(BadVersion, match="three numbers"):
        Version(text)


def test_builds_are_two_versions() -> None:
    assert Version("1.0.0+a") != Version("1.0.0+b") and str(Version("1.0.0-x+a.1")) == "1.0.0-x+a.1"


def test_the_next_version() -> None:
    assert [str(Version(text).next()) for text in ("1.2.3", "1.2", "1.2.3-beta.1", "1.2.3+b")] == [
        "1.2.4", "1.2.1", "1.2.3", "1.2.4",
    ]  # fmt: skip
