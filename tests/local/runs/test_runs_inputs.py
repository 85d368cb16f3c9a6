"""What a run is given, and what is refused before a byte of it is read."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.local.conftest import Api
from tests.local.runs.following import Begin, final
from tests.local.runs.sandbox import Launcher
from tests.local.talk import Talk, text


def test_results_and_artifacts_are_mounted_and_listed(talk: Talk, begin: Begin, launcher: Launcher, api: Api) -> None:
    talk.put("report.md", b"# Report\n")
    exported = talk.ok("export_artifact", path="report.md")["structured"]["artifact"]
    summed = talk.call("calculate", expressions=["1 + 1"])
    answer = begin(artifacts=[{"id": exported}], toolResults=[summed["ref"]])
    started = launcher.next(api).claimed()
    found = started.inputs()
    assert found[f"inputs/artifacts/{exported}.md"] == b"# Report\n"
    result = json.loads(found["inputs/tool-results/1.json"])
    assert (result["ref"], result["toolName"], result["isError"]) == (summed["ref"], "calculate", False)
    assert result["output"] == text(summed)
    started.finish()
    made = final(answer)
    assert made["structured"]["mounted"] == [f"inputs/artifacts/{exported}.md", "inputs/tool-results/1.json"]
    assert f"inputs/artifacts/{exported}.md" in text(made)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"toolResults": ["res_other.turn.call"]}, "not_found"),
        ({"toolResults": ["../../secret"]}, "not_found"),
        ({"artifacts": [{"id": "art_unknown"}]}, "not_found"),
        ({"files": ["doc_1"]}, "not_allowed"),
        ({"passages": ["doc_1"]}, "not_allowed"),
        ({"skills": ["reporting"]}, "not_allowed"),
    ],
)
def test_one_bad_input_refuses_the_call_and_is_named(
    talk: Talk, launcher: Launcher, arguments: dict[str, Any], code: str
) -> None:
    made = talk.call("run_code", code="pass", **arguments)
    assert (made["outcome"], made["error"]["code"]) == ("error", code)
    ((_kind, (named, *_)),) = arguments.items()
    assert (named["id"] if isinstance(named, dict) else named) in text(made)
    assert launcher.idle


def test_an_artifact_is_mounted_for_those_it_is_shared_with_only(
    talk: Talk, api: Api, unique: str, launcher: Launcher, threads: ThreadPoolExecutor
) -> None:
    talk.put("plan.txt", b"secret plan")
    exported = talk.ok("export_artifact", path="plan.txt")["structured"]["artifact"]
    eve = {"user": f"eve-{unique}", "department": "sales"}
    other = Talk.open(api, f"{unique}-other", caller=eve)
    wanted = {"code": "pass", "artifacts": [{"id": exported}]}
    refused = other.call("run_code", **wanted)
    assert refused["error"]["code"] == "not_found"
    assert "plan.txt" not in text(refused)
    assert launcher.idle
    shared = api("PUT", f"/v1/artifacts/{exported}/sharing", {"people": [eve["user"]]})
    assert shared.status == 200, shared.body
    answer = threads.submit(other.call, "run_code", **wanted)
    started = launcher.next(api).claimed()
    assert b"secret plan" in started.inputs().values()
    started.finish()
    assert final(answer)["outcome"] == "ok"
    assert (
        other.call("run_code", code="pass", artifacts=[{"id": exported, "version": 7}])["error"]["code"] == "not_found"
    )


def test_a_run_at_work_has_a_ref_and_no_result_yet(talk: Talk, api: Api, begin: Begin, launcher: Launcher) -> None:
    """Its answer names the ref already, so that "there is none" would have the reader look for a slip in it."""
    answer = begin()
    started = launcher.next(api).claimed()
    ref = "res_" + started.run.removeprefix("run_")
    found = api("GET", f"/v1/results/{ref}", None, {"X-Turn-Token": talk.token})
    assert found.status == 404 and "not finished" in found.json["error"]["message"]
    assert "under its call id" in talk.refused("not_found", "read_result", ref=ref)
    assert "no stored result" in talk.refused("not_found", "read_result", ref=f"{ref}x")
    started.finish()
    assert final(answer)["ref"] == ref
    assert text(talk.ok("read_result", ref=ref)).startswith("The program ended")


def test_only_tools_that_the_turn_has_are_named_for_artifacts(talk: Talk, launcher: Launcher) -> None:
    unknown: dict[str, Any] = {"code": "pass", "artifacts": [{"id": "art_unknown"}]}
    assert "list_artifacts names" in text(talk.call("run_code", **unknown))
    assert "list_artifacts" not in text(talk.again(["run_code"]).call("run_code", **unknown))
    assert launcher.idle


def test_a_ref_of_another_conversation_is_not_there(talk: Talk, api: Api, unique: str, launcher: Launcher) -> None:
    other = Talk.open(api, f"{unique}-other")
    ref = other.call("calculate", expressions=["40 + 2"])["ref"]
    assert talk.call("run_code", code="pass", toolResults=[ref])["error"]["code"] == "not_found"
    assert launcher.idle


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"code": ""},
        {"code": "x" * 200_001},
        {"code": "pass", "language": "cobol"},
        {"code": "pass", "timeoutSeconds": 0},
        {"code": "pass", "timeoutSeconds": 901},
        {"code": "pass", "toolResults": ["a", "b", "c", "d"]},
        {"code": "pass", "artifacts": [{"version": 1}]},
        {"code": "half \ud800 a character"},
    ],
)
def test_arguments_that_do_not_fit_run_nothing(talk: Talk, launcher: Launcher, arguments: dict[str, Any]) -> None:
    assert talk.send("run_code", arguments).json["outcome"] == "invalid_args"
    assert launcher.idle
