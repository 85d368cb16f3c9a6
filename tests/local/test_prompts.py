"""Prompts through the API: versions, filling in, variants that stay for a conversation, and the turn's trace."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.local.talk import Talk


def publish(api: Any, name: str, template: str = "Hello {{ name }}!", version: str | None = None) -> dict[str, Any]:
    body = {"template": template} | ({} if version is None else {"version": version})
    answer = api("PUT", f"/v1/prompts/{name}", body)
    assert answer.status == 200, answer.body
    prompt: dict[str, Any] = answer.json["prompt"]
    return prompt


def render(api: Any, name: str, **body: Any) -> dict[str, Any]:
    answer = api("POST", f"/v1/prompts/{name}/render", body)
    assert answer.status == 200, answer.body
    made: dict[str, Any] = answer.json
    return made


def refused(api: Any, name: str, status: int, **body: Any) -> dict[str, Any]:
    answer = api("POST", f"/v1/prompts/{name}/render", body)
    assert answer.status == status, answer.body
    error: dict[str, Any] = answer.json["error"]
    return error


def steps(talk: Talk) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = talk.api("GET", f"/v1/turns/{talk.turn}/trace").json["steps"]
    return listed


@pytest.fixture
def variants(api: Any, unique: str) -> list[dict[str, Any]]:
    """Two variants, equally weighted."""
    for name in ("a", "b"):
        publish(api, f"{unique}-{name}", f"{name}: {{{{ x }}}}")
    return [{"name": f"{unique}-a", "weight": 1}, {"name": f"{unique}-b", "weight": 1}]


# ---------------------------------------------------------------- versions


def test_a_prompt_is_kept_in_versions(api: Any, unique: str) -> None:
    first = publish(api, unique, "Hello {{ name }} from {{ place }}")
    assert first == {
        "name": unique,
        "version": "1.0.0",
        "template": "Hello {{ name }} from {{ place }}",
        "variables": ["name", "place"],
    }
    publish(api, unique, "Hi {{ name }}", "1.10.0")
    publish(api, unique, "Hey {{ name }}", "1.9.0")
    shown = api("GET", f"/v1/prompts/{unique}").json["prompt"]
    assert (shown["template"], shown["versions"]) == ("Hi {{ name }}", ["1.10.0", "1.9.0", "1.0.0"])
    assert api("GET", f"/v1/prompts/{unique}?version=1.0").json["prompt"] == {**first, "versions": shown["versions"]}
    assert api("GET", f"/v1/prompts/{unique}?version=3").status == 404
    listed = [prompt for prompt in api("GET", "/v1/prompts?limit=1000").json["prompts"] if prompt["name"] == unique]
    assert listed == [{"name": unique, "version": "1.10.0", "variables": ["name"]}]
    assert render(api, unique, vars={"name": "Ada"}) == {"text": "Hi Ada", "name": unique, "version": "1.10.0"}
    assert render(api, unique, vars={"name": "Ada", "place": "here"}, version="1")["text"] == "Hello Ada from here"


def test_a_version_never_changes(api: Any, unique: str) -> None:
    publish(api, unique, "one")
    again = api("PUT", f"/v1/prompts/{unique}", {"template": "one", "version": "1.0.0"})
    assert (again.status, again.json["created"]) == (200, False)
    other = api("PUT", f"/v1/prompts/{unique}", {"template": "two", "version": "v1"})
    assert other.status == 409 and "1.0.1" in other.json["error"]["message"]
    assert render(api, unique)["text"] == "one"


def test_a_withdrawn_prompt_is_gone(api: Any, unique: str) -> None:
    publish(api, unique, "one")
    assert api("DELETE", f"/v1/prompts/{unique}").json["prompt"] == {"name": unique, "withdrawn": ["1.0.0"]}
    for answer in (api("GET", f"/v1/prompts/{unique}"), api("DELETE", f"/v1/prompts/{unique}")):
        assert answer.status == 404
    assert refused(api, unique, 404)["code"] == "not_found"
    assert api("PUT", f"/v1/prompts/{unique}", {"template": "two"}).status == 409
    assert publish(api, unique, "one")["template"] == "one"


@pytest.mark.parametrize(
    ("name", "body", "status", "said"),
    [
        ("p", {}, 400, "template"),
        ("p", {"template": 1}, 400, "template"),
        ("p", {"template": "x", "version": "next"}, 400, "version"),
        ("p", {"template": "x", "version": 1}, 400, "version"),
        ("p", {"template": "x" * (128 * 1024 + 1)}, 413, "template"),
        ("a%40b", {"template": "x"}, 400, "name"),
        ("x" * 65, {"template": "x"}, 400, "name"),
    ],
)
def test_what_cannot_be_kept(api: Any, name: str, body: dict[str, Any], status: int, said: str) -> None:
    answer = api("PUT", f"/v1/prompts/{name}", body)
    assert answer.status == status and said in answer.json["error"]["message"], answer.body


# ---------------------------------------------------------------- filling in


def test_a_missing_variable_is_named(api: Any, unique: str) -> None:
    publish(api, unique, "{{ a }} {{ b }} {{ c }}")
    error = refused(api, unique, 400, vars={"b": 1, "c": None})
    assert error["code"] == "invalid_request" and "`a`, `c`" in error["message"]
    assert error["details"]["missing"] == ["a", "c"] and error["details"]["prompt"] == f"{unique}@1.0.0"


def test_values_go_in_as_they_are(api: Any, unique: str) -> None:
    publish(api, unique, "{{a}}|{{ b }}")
    assert render(api, unique, vars={"a": "{{ b }}", "b": ["é", True], "c": 1})["text"] == '{{ b }}|["é", true]'


def test_a_bomb_of_values_is_refused(api: Any, unique: str) -> None:
    publish(api, unique, "{{ x }}" * 10_000)
    assert refused(api, unique, 413, vars={"x": "y" * 1_000})["code"] == "too_large"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"vars": []}, "`vars`"),
        ({"version": "next"}, "`version`"),
        ({"version": 1}, "`version`"),
        ({"conversation": 1}, "`conversation`"),
        ({"variants": []}, "`variants`"),
        ({"variants": {}}, "`variants`"),
        ({"variants": [{"name": "p"}] * 21}, "`variants`"),
        ({"variants": ["p"]}, "`variants[0]`"),
        ({"variants": [{"name": "a/b"}]}, "`variants[0].name`"),
        ({"variants": [{"weight": 1}]}, "`variants[0].name`"),
        ({"variants": [{"name": "p", "version": "x"}]}, "`variants[0].version`"),
        ({"variants": [{"name": "p", "weight": -1}]}, "finite number from 0 up"),
        ({"variants": [{"name": "p", "weight": "1"}]}, "number from 0 up"),
        ({"variants": [{"name": "p", "weight": True}]}, "number from 0 up"),
        ({"variants": [{"name": "p", "weight": 0}, {"name": "q", "weight": 0.0}]}, "weight above 0"),
        ({"variants": [{"name": "p"}], "version": "1.0.0"}, "not both"),
    ],
)
def test_what_cannot_be_filled_in(api: Any, unique: str, body: dict[str, Any], said: str) -> None:
    publish(api, unique, "x")
    assert said in refused(api, unique, 400, **body)["message"]


def test_weights_beyond_numbers(api: Any, unique: str) -> None:
    publish(api, unique, "x")
    for weight in (b"1e999", b"NaN", b"-0.5", b"1" + b"0" * 400):
        body = b'{"variants": [{"name": "%s", "weight": %s}]}' % (unique.encode(), weight)
        assert api("POST", f"/v1/prompts/{unique}/render", body).status == 400


def test_unknown_names_are_said(api: Any, unique: str) -> None:
    assert refused(api, unique, 404)["code"] == "not_found"
    publish(api, unique, "x")
    assert "1.0.0" in refused(api, unique, 404, version="2.0.0")["message"]
    variants = [{"name": unique}, {"name": f"{unique}-none"}]
    assert f"{unique}-none" in refused(api, unique, 404, variants=variants)["message"]


# ---------------------------------------------------------------- variants


def test_variants_are_split_by_weight(api: Any, unique: str, variants: list[dict[str, Any]]) -> None:
    weighted = [variants[0] | {"weight": 3}, variants[1]]
    counts = Counter(render(api, unique, vars={"x": 1}, variants=weighted)["name"] for _ in range(120))
    assert 60 < counts[f"{unique}-a"] < 115
    only = [variants[0] | {"weight": 0}, variants[1]]
    assert {render(api, unique, vars={"x": 1}, variants=only)["name"] for _ in range(10)} == {f"{unique}-b"}


def test_a_conversation_keeps_its_variant(api: Any, unique: str, variants: list[dict[str, Any]]) -> None:
    seen: set[str] = set()
    # Which it gets is chance: sooner or later there are both.
    for number in range(60):
        if number >= 12 and len(seen) == 2:
            break
        conversation = Talk.open(api, f"{unique}-{number}").conversation
        first = render(api, unique, vars={"x": 1}, variants=variants, conversation=conversation)
        seen.add(first["name"])
        # Not even other weights, another order or a newer version change what it was given.
        other = "a" if first["name"].endswith("-b") else "b"
        heavy = [{"name": f"{unique}-{other}", "weight": 10**6}, {"name": first["name"], "weight": 1e-9}]
        assert render(api, unique, vars={"x": 1}, variants=heavy, conversation=conversation) == first
    assert seen == {f"{unique}-a", f"{unique}-b"}
    publish(api, first["name"], "new: {{ x }}", "2.0.0")
    assert render(api, unique, vars={"x": 1}, variants=variants, conversation=conversation) == first
    assert render(api, first["name"], vars={"x": 1}, conversation=conversation)["version"] == "2.0.0"


def test_a_variant_that_is_switched_off_or_withdrawn_gives_way(
    api: Any, unique: str, variants: list[dict[str, Any]]
) -> None:
    conversation = Talk.open(api, unique).conversation
    first = render(api, unique, vars={"x": 1}, variants=variants, conversation=conversation)["name"]
    (other,) = {variant["name"] for variant in variants} - {first}
    off = [{"name": first, "weight": 0}, {"name": other, "weight": 1}]
    assert render(api, unique, vars={"x": 1}, variants=off, conversation=conversation)["name"] == other
    # And that is what it keeps from then on.
    assert render(api, unique, vars={"x": 1}, variants=variants, conversation=conversation)["name"] == other
    assert api("DELETE", f"/v1/prompts/{other}").status == 200
    publish(api, other, "again: {{ x }}", "3.0.0")
    assert (
        render(api, unique, vars={"x": 1}, variants=[{"name": other}], conversation=conversation)["version"] == "3.0.0"
    )


def test_first_requests_at_once_come_to_the_same_variant(api: Any, unique: str, variants: list[dict[str, Any]]) -> None:
    conversation = Talk.open(api, unique).conversation

    def ask(_number: int) -> str:
        return str(render(api, unique, vars={"x": 1}, variants=variants, conversation=conversation)["name"])

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(ask, range(24)))) == 1


def test_experiments_are_apart(api: Any, unique: str, variants: list[dict[str, Any]]) -> None:
    conversation = Talk.open(api, unique).conversation
    chosen: set[str] = set()
    # Which one an experiment gets is chance: sooner or later there are both.
    for number in range(60):
        made = render(api, f"{unique}-e{number}", vars={"x": 1}, variants=variants, conversation=conversation)
        chosen.add(made["name"])
        if len(chosen) == 2:
            break
    assert len(chosen) == 2


def test_versions_of_one_prompt_as_variants(api: Any, unique: str) -> None:
    publish(api, unique, "one", "1.0.0")
    publish(api, unique, "two", "2.0.0")
    variants = [{"name": unique, "version": "1.0.0", "weight": 1}, {"name": unique, "version": "2", "weight": 1}]
    texts = {render(api, unique, variants=variants)["text"] for _ in range(40)}
    assert texts == {"one", "two"}
    conversation = Talk.open(api, unique).conversation
    kept = {render(api, unique, variants=variants, conversation=conversation)["text"] for _ in range(5)}
    assert len(kept) == 1


# ---------------------------------------------------------------- conversation, turn and trace


def test_the_choice_stands_in_the_turns_trace(api: Any, unique: str, variants: list[dict[str, Any]]) -> None:
    talk = Talk.open(api, unique)
    talk.ok("calculate", expressions=["1 + 1"])
    made = render(api, unique, vars={"x": 1}, variants=variants, turn=talk.turn)
    again = render(api, unique, vars={"x": 2}, variants=variants, turn=talk.turn, conversation=unique)
    assert (
        made["name"]
        == again["name"]
        == render(api, unique, vars={"x": 1}, variants=variants, conversation=unique)["name"]
    )
    calculated, prompt = steps(talk)
    assert calculated["tool"] == "calculate@1.0.0" and "prompt" not in calculated
    assert (prompt["tool"], prompt["step"], prompt["outcome"]) == (f"{made['name']}@1.0.0", "prompt", "ok")
    assert prompt["prompt"] == {"name": made["name"], "version": "1.0.0", "asked": unique}
    assert prompt["refs"] == [] and prompt["code"] is None
    assert set(calculated) < set(prompt)
    receipt = api("GET", f"/v1/turns/{talk.turn}/receipt").json["receipt"]
    assert receipt == {"files": [], "artifacts": [], "runs": [], "approvals": []}


def test_a_prompt_without_variants_stands_there_too(api: Any, unique: str) -> None:
    publish(api, unique, "x")
    talk = Talk.open(api, unique)
    render(api, unique, turn=talk.turn)
    assert [step["tool"] for step in steps(talk)] == [f"{unique}@1.0.0"]


def test_a_call_may_have_the_id_that_the_step_shows(api: Any, unique: str) -> None:
    publish(api, unique, "x")
    talk = Talk.open(api, unique)
    render(api, unique, turn=talk.turn)
    (step,) = steps(talk)
    assert talk.call("calculate", call=step["callId"], expressions=["2"])["outcome"] == "ok"
    assert len(steps(talk)) == 2


def test_what_fails_leaves_no_trace(api: Any, unique: str, variants: list[dict[str, Any]]) -> None:
    talk = Talk.open(api, unique)
    refused(api, unique, 400, variants=variants, turn=talk.turn)
    assert steps(talk) == []


def test_turns_and_conversations_that_do_not_fit(api: Any, unique: str) -> None:
    publish(api, unique, "x")
    talk, other = Talk.open(api, f"{unique}-1"), Talk.open(api, f"{unique}-2")
    variants = [{"name": unique}]
    assert refused(api, unique, 404, turn="no.turn")["code"] == "not_found"
    assert refused(api, unique, 404, turn=17)["code"] == "not_found"
    assert refused(api, unique, 404, conversation="none", variants=variants)["code"] == "not_found"
    assert (
        "another conversation" in refused(api, unique, 400, turn=talk.turn, conversation=other.conversation)["message"]
    )
    api("POST", f"/v1/turns/{talk.turn}/finish", {"outcome": "completed", "text": "x"})
    assert "finished" in refused(api, unique, 409, turn=talk.turn)["message"]
    assert api("DELETE", f"/v1/conversations/{other.conversation}").status == 202
    assert refused(api, unique, 409, turn=other.turn)["code"] == "conflict"
    assert refused(api, unique, 409, conversation=other.conversation, variants=variants)["code"] == "conflict"


def test_a_restored_conversation_chooses_afresh_and_nothing_is_left(api: Any, unique: str, system: Any) -> None:
    publish(api, f"{unique}-a", "a")
    talk = Talk.open(api, unique)
    render(api, unique, variants=[{"name": f"{unique}-a"}], turn=talk.turn)
    runtime = system.runtime
    assert runtime.table.query(f"C#{unique}", "AB#")
    api("DELETE", f"/v1/conversations/{unique}")
    executions = runtime.clients.stepfunctions.list_executions
    while executions(stateMachineArn=runtime.settings.delete_state_machine, statusFilter="RUNNING")["executions"]:
        api("GET", f"/v1/conversations/{unique}")
    assert runtime.table.query(f"C#{unique}", "AB#") == []


def test_what_filling_in_costs(api: Any, unique: str, variants: list[dict[str, Any]]) -> None:
    talk = Talk.open(api, unique)
    answers = [
        api("POST", f"/v1/prompts/{unique}/render", {"vars": {"x": 1}, "variants": variants, "turn": talk.turn}),
        api("POST", f"/v1/prompts/{unique}-a/render", {"vars": {"x": 1}, "version": "1.0.0"}),
        api("POST", f"/v1/prompts/{unique}-a/render", {"vars": {"x": 1}}),
    ]
    # The turn, the choice so far, the names, the versions, the record; a version; a name and its version.
    assert [int(answer.headers["x-workbench-requests"]) for answer in answers] == [5, 1, 2]
