"""Turns as data: tokens, the choice of tools, what the model is told, what is left of the calls."""

from __future__ import annotations

from typing import Any

import pytest

from workbench import ids
from workbench.conversations.instructions import instructions
from workbench.conversations.turn_record import receipt, trace
from workbench.conversations.turns import choose_tools, make_token, verify_token
from workbench.errors import InvalidRequest, Unauthorized
from workbench.ids import TurnId
from workbench.settings import Settings
from workbench.tools import catalogue

TURN = TurnId("c1", "t1")
TOKEN = make_token(TURN, "secret")
ITEM = {"tokenHash": ids.digest(TOKEN), "expiresAt": 1000}
KNOWN = {"read_file": ["1.0.0"], "export_artifact": ["1.0.0", "2.0.0"], "run_code": ["1.0.0"]}


def test_the_right_token_opens_its_turn_until_it_expires() -> None:
    verify_token(ITEM, TOKEN, 999.9)
    with pytest.raises(Unauthorized):
        verify_token(ITEM, TOKEN, 1000)


@pytest.mark.parametrize(
    ("item", "token"),
    [
        (ITEM, None),
        (ITEM, ""),
        (ITEM, "secret"),
        (ITEM, TOKEN + " "),
        (ITEM, make_token(TurnId("c1", "t2"), "secret")),
        (ITEM, "\ud800"),
        (ITEM, "é"),
        (None, TOKEN),
        (None, None),
        ({"tokenHash": ids.digest(""), "expiresAt": 1000}, ""),
    ],
)
def test_every_other_token_gets_the_same_answer(item: Any, token: Any) -> None:
    with pytest.raises(Unauthorized) as refused:
        verify_token(item, token, 0)
    with pytest.raises(Unauthorized) as unknown:
        verify_token(None, TOKEN, 0)
    assert refused.value.as_dict() == unknown.value.as_dict()


@pytest.mark.parametrize(
    ("asked", "pinned", "chosen"),
    [
        ("all", {}, {"read_file": "1.0.0", "export_artifact": "2.0.0", "run_code": "1.0.0"}),
        ([], {}, {}),
        (["export_artifact"], {"export_artifact": "1.0.0"}, {"export_artifact": "1.0.0"}),
        (["export_artifact@2.0.0"], {"export_artifact": "1.0.0"}, {"export_artifact": "2.0.0"}),
        (["export_artifact"], {"export_artifact": "0.9.0"}, {"export_artifact": "2.0.0"}),
        (["read_file", "read_file@1.0.0"], {}, {"read_file": "1.0.0"}),
    ],
)
def test_tools_are_offered_in_the_pinned_version(asked: Any, pinned: dict[str, str], chosen: dict[str, str]) -> None:
    assert choose_tools(asked, pinned, KNOWN) == chosen


@pytest.mark.parametrize(
    ("asked", "nearest"),
    [
        (["readfile"], "read_file"),
        (["xyz"], None),
        (["export_artifact@2.0"], "export_artifact@2.0.0"),
        (["export_artifact@"], "export_artifact@2.0.0"),
        (["\ud800" * 9999], None),
    ],
)
def test_an_unknown_tool_is_named_with_the_nearest(asked: Any, nearest: str | None) -> None:
    with pytest.raises(InvalidRequest) as refused:
        choose_tools(asked, {}, KNOWN)
    assert refused.value.details["nearest"] == nearest
    refused.value.message.encode()
    assert len(refused.value.message) < 1500


@pytest.mark.parametrize("offered", [[], ["read_file"], ["calculate"], ["run_code", "export_artifact"], None])
def test_instructions_name_only_what_was_offered(offered: list[str] | None) -> None:
    offered = catalogue.names() if offered is None else offered
    told = instructions(offered, Settings(), delegated=False)
    assert {name for name in catalogue.names() if name in told} <= set(offered)
    assert "Documents you may use: none." in told
    assert ("Never say that a file is attached" in told) == ("export_artifact" not in offered)
    assert ("workspace" in told) == bool({"read_file", "run_code"} & set(offered))


def step(call: str, **effects: Any) -> dict[str, Any]:
    facts = {
        "callId": call,
        "tool": "t@1.0.0",
        "step": "write",
        "outcome": "ok",
        "code": None,
        "at": "2026",
        "refs": [],
    }
    return {"step": facts | {"milliseconds": 1.0, "bytes": 1}, "effects": effects}


def file(path: str, created: bool, size: int) -> dict[str, Any]:
    return {"path": path, "mode": "0644", "created": created, "bytes": size}


def test_the_receipt_says_how_files_were_left() -> None:
    calls = [
        step("1", files=[file("a", True, 1), file("b", False, 2)]),
        step(
            "2", files=[file("a", False, 3)], approvals=[{"id": "apr", "pattern": "p", "decision": "allow", "by": "x"}]
        ),
        step("3", deleted=["b"]),
        step("4", runs=[{"run": "run_1", "exitCode": 0, "seconds": 1.5, "secret": "no"}]),
        step("5"),
    ]
    assert receipt(calls) == {
        "files": [file("a", True, 3)],
        "artifacts": [],
        "runs": [{"run": "run_1", "exitCode": 0, "seconds": 1.5}],
        "approvals": [{"id": "apr", "pattern": "p", "decision": "allow", "by": "x"}],
    }


def test_the_trace_holds_facts_and_no_contents() -> None:
    assert trace([step("1", files=[file("a", True, 1)])]) == [step("1")["step"]]
