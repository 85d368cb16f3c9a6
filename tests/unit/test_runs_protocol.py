"""Messages of a sandbox: what does not fit is refused by name, in bounded memory and time."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import zlib
from typing import Any

import pytest

from workbench.errors import InvalidRequest
from workbench.runs import protocol
from workbench.runs.plan import PART_BYTES

MIB = 1024 * 1024

REPORT: dict[str, Any] = {
    "outcome": "finished",
    "exitCode": 0,
    "signal": None,
    "seconds": 1.5,
    "stdout": "out",
    "stderr": "",
    "outputBytes": 3,
    "truncated": False,
    "spill": None,
    "tree": "ok",
    "reason": None,
    "packParts": 1,
    "changeParts": 1,
    "mounted": [],
    "verified": {"uid": 1000},
}


def sent(raw: bytes, **changed: Any) -> dict[str, Any]:
    body = {"sha256": hashlib.sha256(raw).hexdigest(), "data": base64.b64encode(zlib.compress(raw)).decode()}
    return body | changed


def test_a_part_arrives_as_it_was_sent() -> None:
    raw = bytes(range(256)) * 100
    assert protocol.unpack(sent(raw)) == (raw, hashlib.sha256(raw).hexdigest())
    packed = protocol.packed(raw)
    assert protocol.unpack(packed) == (raw, packed["sha256"])


@pytest.mark.parametrize(
    "body",
    [
        {},
        sent(b"x", data=None),
        sent(b"x", data="not base64!"),
        sent(b"x", data="é"),
        sent(b"x", data=base64.b64encode(b"not zlib").decode()),
        sent(b"x", data=base64.b64encode(zlib.compress(b"x")[:-3]).decode()),
        sent(b"x", data=base64.b64encode(zlib.compress(b"x") + b"more").decode()),
        sent(b"x", sha256="0" * 64),
        sent(b"x", sha256="X" * 64),
        sent(b"x", sha256=hashlib.sha256(b"x").hexdigest().upper()),
        sent(b"x", sha256=None),
    ],
)
def test_a_part_that_is_not_what_it_says_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        protocol.unpack(body)


def test_a_few_bytes_cannot_become_gigabytes() -> None:
    bomb = zlib.compress(b"\0" * (64 * MIB), 9)
    body = sent(b"", data=base64.b64encode(bomb).decode())
    with pytest.raises(InvalidRequest, match="at most"):
        protocol.unpack(body)


def test_a_full_part_fits() -> None:
    raw = b"\0" * PART_BYTES
    assert protocol.unpack(sent(raw))[0] == raw


def test_an_honest_report_is_read_with_only_the_fields_that_are_used() -> None:
    read = protocol.report({"report": {**REPORT, "surprise": "x" * 1000}}, 100 * MIB)
    assert set(read) == set(REPORT) - {"mounted"}
    assert read["exitCode"] == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("outcome", "splendid"),
        ("outcome", None),
        ("outcome", ["finished"]),
        ("exitCode", "0"),
        ("exitCode", 2**40),
        ("exitCode", 1.0),
        ("exitCode", True),
        ("signal", -1),
        ("signal", 1000),
        ("seconds", "fast"),
        ("seconds", -1),
        ("seconds", math.nan),
        ("seconds", math.inf),
        ("seconds", True),
        ("stdout", None),
        ("stdout", ["a"]),
        ("stderr", 5),
        ("outputBytes", -1),
        ("outputBytes", 2**60),
        ("spill", "../spill"),
        ("spill", ".spill-1.txt\n"),
        ("spill", ".spill-0.txt"),
        ("spill", 1),
        ("tree", "fine"),
        ("reason", {}),
        ("packParts", 10**9),
        ("packParts", -1),
        ("changeParts", 10**6),
        ("verified", "yes"),
        ("verified", {"x": "y" * 10_000}),
    ],
)
def test_a_report_that_does_not_fit_is_refused_by_field(name: str, value: Any) -> None:
    with pytest.raises(InvalidRequest, match=name):
        protocol.report({"report": REPORT | {name: value}}, 100 * MIB)


@pytest.mark.parametrize("body", [{}, {"report": None}, {"report": [REPORT]}, {"report": "finished"}])
def test_a_report_must_be_an_object(body: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="report must be an object"):
        protocol.report(body, 100 * MIB)


def test_deep_nesting_is_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    with pytest.raises(InvalidRequest, match="verified"):
        protocol.self_report({"verified": deep})


def test_output_keeps_its_end_and_can_always_be_stored() -> None:
    read = protocol.report({"report": REPORT | {"stdout": "a" * 50_000 + "\ud800end"}}, 100 * MIB)
    assert len(read["stdout"]) == protocol.TAIL_CHARACTERS
    assert read["stdout"].endswith("?end")
    json.dumps(read).encode()


def test_equal_reports_have_equal_digests_and_others_do_not() -> None:
    first, again = (protocol.report({"report": dict(REPORT)}, 100 * MIB) for _ in range(2))
    other = protocol.report({"report": REPORT | {"exitCode": 1}}, 100 * MIB)
    assert protocol.report_digest(first) == protocol.report_digest(again)
    assert protocol.report_digest(first) != protocol.report_digest(other)


@pytest.mark.parametrize("value", [None, "", 7, "x" * 300, ["a"], {}, "half \ud800", "run_\n", "rün", "a\0b"])
def test_ids_and_secrets_are_short_texts(value: object) -> None:
    with pytest.raises(InvalidRequest, match="run"):
        protocol.word({"run": value}, "run")


@pytest.mark.parametrize("value", [None, -1, 10, 1.0, True, "1"])
def test_part_numbers_are_whole_and_bounded(value: object) -> None:
    with pytest.raises(InvalidRequest, match="part"):
        protocol.whole({"part": value}, "part", 9)
