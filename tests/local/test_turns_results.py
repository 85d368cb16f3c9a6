"""Stored results: whole, in pages, searched, and for turns of their own conversation only."""

from __future__ import annotations

from typing import Any

import pytest

from tests.local.talk import Talk, text


def get(talk: Talk, ref: str, query: str = "") -> Any:
    return talk.api("GET", f"/v1/results/{ref}{query}", None, {"X-Turn-Token": talk.token})


def test_a_result_is_given_whole_to_a_program_and_in_pages_to_whoever_asks(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    expressions = [f"{n} * {n}" for n in range(20)]
    answer = talk.ok("calculate", expressions=expressions)
    whole = get(talk, answer["ref"]).json
    assert whole == {
        "ref": answer["ref"],
        "tool": "calculate@1.0.0",
        "isError": False,
        "output": text(answer),
        "offset": 0,
        "length": len(text(answer)),
        "total": len(text(answer)),
    }
    pages, offset = "", 0
    while True:
        page = get(talk, answer["ref"], f"?offset={offset}&limit=7").json
        assert page["length"] == len(page["output"]) <= 7
        pages += page["output"]
        if "next" not in page:
            break
        offset = page["next"]
    assert pages == text(answer)
    end = get(talk, answer["ref"], f"?offset={len(pages)}").json
    assert (end["output"], end["length"], "next" in end) == ("", 0, False)
    later = talk.again()
    assert get(later, answer["ref"]).json == whole


def test_a_refusal_is_a_result_too(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    answer = talk.call("read_file", path="missing.txt")
    assert get(talk, answer["ref"]).json["isError"] is True


@pytest.mark.parametrize("query", ["?offset=-1", "?offset=x", "?offset=1e9", "?offset=999999", "?limit=0", "?limit=²"])
def test_wrong_pages_are_refused(api: Any, unique: str, query: str) -> None:
    talk = Talk.open(api, unique)
    ref = talk.ok("calculate", expressions=["1"])["ref"]
    answer = get(talk, ref, query.replace("²", "%C2%B2"))
    assert (answer.status, answer.json["error"]["code"]) == (400, "invalid_request")


def test_a_model_pages_through_a_result(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    words = "".join(f"\U0001f469\u200d\U0001f467 row {n}\n" for n in range(400))
    artifact = talk.ok("export_artifact", content=words)["structured"]["artifact"]
    shown = talk.ok("read_artifact", id=artifact)
    stored = text(shown)
    pages, offset = "", 0
    while True:
        page = talk.ok("read_result", ref=shown["ref"], offset=offset, limit=1000)
        output = page["content"][0]["text"]
        assert page["structured"]["length"] == len(output) <= 1000
        assert not output.endswith("\u200d") and not output.startswith("\u200d")
        pages += output
        if "next" not in page["structured"]:
            break
        offset = page["structured"]["next"]
        assert f"offset {offset}" in page["content"][1]["text"]
    assert pages == stored


def test_a_model_finds_a_text_in_a_result(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    artifact = talk.ok("export_artifact", content="".join(f"row {n}\n" for n in range(900)))["structured"]["artifact"]
    shown = talk.ok("read_artifact", id=artifact)
    stored = text(shown)
    found = talk.ok("read_result", ref=shown["ref"], query="row 77")["structured"]["matches"]
    places = [match["offset"] for match in found]
    assert places == [at for at in range(len(stored)) if stored.startswith("row 77", at)]
    offset, collected = 0, []
    while True:
        page = talk.ok("read_result", ref=shown["ref"], query="row 7", offset=offset, limit=500)["structured"]
        collected += [match["offset"] for match in page["matches"]]
        if "next" not in page:
            break
        offset = page["next"]
    assert collected == [at for at in range(len(stored)) if stored.startswith("row 7", at)]
    nothing = talk.ok("read_result", ref=shown["ref"], query="ROW")
    assert nothing["structured"]["matches"] == [] and "Case counts" in text(nothing)


def test_results_stay_in_their_conversation(api: Any, unique: str) -> None:
    talk, other = Talk.open(api, unique), Talk.open(api, f"{unique}-2")
    ref = talk.ok("calculate", expressions=["1"])["ref"]
    missing = other.refused("not_found", "read_result", ref="res_a.b.c")
    assert other.refused("not_found", "read_result", ref=ref) == missing
    assert other.call("read_result", ref="")["outcome"] in ("error", "invalid_args")
    assert talk.refused("range_outside", "read_result", ref=ref, offset=10_000)
    talk.refused("invalid_args", "read_result", ref=ref, limit=24_001)
