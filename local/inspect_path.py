"""What ``workbench inspect`` shows, as data: one sentence on the real call path, then inputs that must be turned down.

Everything but the choice of the tool is the product itself: a local system in this process, asked over HTTP.
"""

from __future__ import annotations

import base64
import itertools
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any

from local.inspect_router import CANDIDATES, Choice, choose
from local.system import LocalSystem
from workbench.errors import ToolError
from workbench.keys import breaker_key
from workbench.settings import MIB
from workbench.tools import breaker, catalogue, gate
from workbench.tools.contract import Tool

DOCUMENT = "limits.md"


@dataclass(frozen=True)
class Parameter:
    """One parameter as published; ``rules`` are required or default, and bounds."""

    name: str
    kind: str
    rules: str
    description: str


@dataclass(frozen=True)
class Published:
    """A tool as a model gets to know it."""

    id: str
    step: str
    risk: str
    tags: tuple[str, ...]
    budget_seconds: float
    description: str
    parameters: tuple[Parameter, ...]


@dataclass(frozen=True)
class Arguments:
    """As drafted, as checked (None when they were refused), what was converted, and every problem."""

    drafted: dict[str, Any]
    checked: dict[str, Any] | None
    conversions: tuple[dict[str, Any], ...]
    problems: tuple[str, ...]


@dataclass(frozen=True)
class Gate:
    """The rating by rule, and what this deployment does with it."""

    rating: str
    reason: str
    decision: str
    ask_from: str
    deny_from: str


@dataclass(frozen=True)
class TurnedDown:
    """One hostile input, run live. ``held`` is False when it was not turned down."""

    shown: str
    outcome: str
    code: str
    why: str
    held: bool


@dataclass(frozen=True)
class Inspection:
    """The whole path of one sentence."""

    sentence: str
    available: tuple[str, ...]
    choice: Choice
    published: Published
    arguments: Arguments
    offered: bool
    breaker: str
    gate: Gate | None
    outcome: str
    code: str | None
    cost: dict[str, Any]
    content: str
    line: str
    turned_down: tuple[TurnedDown, ...]
    milliseconds: float

    @property
    def held(self) -> bool:
        """True when every hostile input was turned down."""
        return all(one.held for one in self.turned_down)


@dataclass(frozen=True)
class Hostile:
    """An input, the outcome it must have, and the calls that come before it in its conversation."""

    shown: str
    tool: str
    arguments: dict[str, Any]
    outcome: str
    before: tuple[dict[str, Any], ...] = ()
    offered: Any = "all"


def _sum(expression: str) -> tuple[str, dict[str, Any]]:
    return "calculate", {"expressions": [expression]}


HOSTILE = (
    Hostile("__import__('os').system('id')", *_sum("__import__('os').system('id')"), "error"),
    Hostile("().__class__.__base__.__subclasses__()", *_sum("().__class__.__base__.__subclasses__()"), "error"),
    Hostile("eval('1+1')", *_sum("eval('1+1')"), "error"),
    Hostile("open('/etc/passwd').read()", *_sum("open('/etc/passwd').read()"), "error"),
    Hostile("2 ** 10000000", *_sum("2 ** 10000000"), "error"),
    Hostile("1/0", *_sum("1/0"), "error"),
    Hostile("drop_tables(name=customers)", "drop_tables", {"name": "customers"}, "unknown_tool"),
    Hostile(
        "delete_file, in a turn that may only calculate",
        "delete_file",
        {"path": "a.txt"},
        "denied",
        offered=["calculate"],
    ),
    Hostile("calculate(precision=99)", "calculate", {"expressions": ["1"], "precision": 99}, "invalid_args"),
    Hostile("1+1, after three refusals in a row", *_sum("1+1"), "circuit_open", before=(_sum("1/0")[1],) * 3),
    Hostile("read_file(../../etc/passwd)", "read_file", {"path": "../../etc/passwd"}, "error"),
    Hostile("read_file(/etc/passwd)", "read_file", {"path": "/etc/passwd"}, "error"),
    Hostile("write_file(docs/../../x)", "write_file", {"path": "docs/../../x", "content": "x"}, "error"),
    Hostile("write_file(.env)", "write_file", {"path": ".env", "content": "KEY=1"}, "approval_required"),
)


class _Portal:
    """The portal's side of one conversation with one turn."""

    _ids = itertools.count(1)

    def __init__(self, url: str, tools: Any = "all") -> None:
        self._host = url.removeprefix("http://")
        self.conversation = f"inspect-{next(self._ids)}"
        self.send("POST", "/v1/conversations", {"owner": "you", "department": "demo", "id": self.conversation})
        opened = self.send(
            "POST",
            f"/v1/conversations/{self.conversation}/turns",
            {"caller": {"user": "you", "department": "demo"}, "tools": tools},
        )
        self.turn, self._token = opened["turn"]["id"], opened["token"]
        self._calls = itertools.count(1)

    def send(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        connection = HTTPConnection(self._host, timeout=60)
        try:
            data = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else None
            connection.request(method, path, data, dict(headers or {}))
            answer = connection.getresponse()
            decoded = json.loads(answer.read())
        finally:
            connection.close()
        if answer.status >= 400:
            raise RuntimeError(f"{method} {path}: {decoded['error']['message']}")
        return decoded

    def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        body = {"callId": f"call_{next(self._calls)}", "arguments": arguments}
        answer: dict[str, Any] = self.send(
            "POST", f"/v1/turns/{self.turn}/tools/{tool}", body, {"X-Turn-Token": self._token}
        )
        return answer


def inspect(system: LocalSystem, sentence: str) -> Inspection:
    """Send the sentence along the whole path, then the hostile inputs; raises ValueError when no tool fits it."""
    started = time.perf_counter()
    choice = choose(sentence, CANDIDATES)
    tool = catalogue.get(choice.tool)
    assert tool is not None
    portal = _Portal(system.url, list(CANDIDATES))
    portal.send("POST", "/v1/documents", _document(system))
    listed = portal.send("GET", f"/v1/catalogue?turn={portal.turn}")["tools"]
    published = next(one for one in listed if one["name"] == choice.tool)
    closed = _breaker(system, portal, tool)
    answer = portal.call(choice.tool, choice.arguments)
    checked, problems = _checked(tool, choice.arguments)
    return Inspection(
        sentence=sentence,
        available=CANDIDATES,
        choice=choice,
        published=_published(published),
        arguments=Arguments(choice.arguments, checked, tuple(answer["conversions"]), problems),
        offered=choice.tool in {one["name"] for one in listed},
        breaker=closed,
        gate=_gate(system, tool, checked),
        outcome=answer["outcome"],
        code=answer["error"]["code"] if answer["error"] else None,
        cost=answer["cost"],
        content="\n".join(part["text"] for part in answer["content"] if part["type"] == "text"),
        line=answer["line"],
        turned_down=tuple(_turned_down(system, hostile) for hostile in HOSTILE),
        milliseconds=(time.perf_counter() - started) * 1000,
    )


def _turned_down(system: LocalSystem, hostile: Hostile) -> TurnedDown:
    portal = _Portal(system.url, hostile.offered)
    for arguments in hostile.before:
        portal.call(hostile.tool, arguments)
    answer = portal.call(hostile.tool, hostile.arguments)
    error = answer["error"] or {"code": "", "message": answer["line"]}
    why = error["message"].removeprefix(f"{hostile.shown}: ")
    return TurnedDown(hostile.shown, answer["outcome"], error["code"], why, answer["outcome"] == hostile.outcome)


def _checked(tool: Tool, drafted: dict[str, Any]) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    try:
        bound = tool.bind(drafted)
    except ToolError as error:
        found = error.details.get("problems", ())
        return None, tuple(f"{problem['argument']} {problem['rule']}" for problem in found) or (error.message,)
    aliases = {name: field.alias or name for name, field in tool.model.model_fields.items()}
    return {aliases[name]: value for name, value in bound.values.items() if value is not None}, ()


def _breaker(system: LocalSystem, portal: _Portal, tool: Tool) -> str:
    state = system.runtime.table.get(breaker_key(portal.conversation)) or {}
    opened = breaker.check(state, tool, system.runtime.clock.now())
    if opened:
        return opened.reason
    return f"closed; opens after 3 times the same failure, or {tool.breaker_after} of any kind in a row"


def _gate(system: LocalSystem, tool: Tool, checked: dict[str, Any] | None) -> Gate | None:
    if checked is None:
        return None
    settings = system.runtime.settings
    rating = gate.rate(tool, checked)
    decision = gate.decide(rating, settings.ask_from, settings.deny_from)
    return Gate(rating.level, rating.reason, decision, settings.ask_from, settings.deny_from)


def _published(one: dict[str, Any]) -> Published:
    schema = one["parameters"]
    required = set(schema.get("required", ()))
    return Published(
        id=f"{one['name']}@{one['version']}",
        step=one["step"],
        risk=one["risk"],
        tags=tuple(one["tags"]),
        budget_seconds=one["budgetSeconds"],
        description=one["description"],
        parameters=tuple(
            Parameter(name, _kind(part), _rules(part, name in required), part.get("description", ""))
            for name, part in schema["properties"].items()
        ),
    )


def _kind(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    return f"array of {_kind(schema['items'])}" if "items" in schema else str(schema.get("type", "anything"))


def _rules(schema: dict[str, Any], required: bool) -> str:
    rules = ["required"] if required else []
    if "default" in schema:
        rules.append(f"default {json.dumps(schema['default'])}")
    elif not required:
        rules.append("optional")
    bounds = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")
    return ", ".join(rules + [f"{name} {schema[name]}" for name in bounds if name in schema])


def _document(system: LocalSystem) -> dict[str, Any]:
    """A document to search that says what is true: the limits of this very deployment."""
    settings = system.runtime.settings
    facts = (
        "# Limits\n\n"
        f"- A workspace holds up to {settings.workspace_files:,} files and {settings.workspace_bytes // MIB} MiB.\n"
        f"- A file written through a tool has at most {settings.written_file_bytes // MIB} MiB.\n"
        f"- An answer over {settings.output_cap_characters:,} characters is stored whole and shown in part.\n"
        f"- A turn and its approvals expire after {settings.turn_seconds / 3600:g} hours.\n"
        f"- A tool that keeps failing is out of service for {settings.breaker_cooldown_seconds:g} seconds.\n"
    )
    return {
        "name": DOCUMENT,
        "mediaType": "text/markdown",
        "owner": "you",
        "data": base64.b64encode(facts.encode()).decode(),
    }
