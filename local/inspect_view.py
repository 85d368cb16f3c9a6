"""How ``workbench inspect`` looks in a terminal. What is shown comes from ``inspect_path``."""

from __future__ import annotations

import json
import re
from typing import Any

from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from local.inspect_path import Inspection, Published

CONTENT_LINES = 12
_COLOURS = {"ok": "green", "running": "green", "approval_required": "yellow", "circuit_open": "yellow"}


def render(found: Inspection, console: Console) -> None:
    """Print the whole inspection."""
    console.print(Text.assemble(("You  ", "dim"), (found.sentence, "bold")))
    _part(console, "1  Which tool", _choice(found))
    _part(console, "2  What it publishes, from its signature and docstring", _published(found.published))
    _part(console, "3  Its arguments", _arguments(found))
    _part(console, "4  The call", _call(found))
    _part(console, "5  What is turned down, run just now", _hostile(found))
    verdict = "All of it was turned down." if found.held else "Something was NOT turned down; see above."
    console.print(Text(f"\n{verdict}", style="green" if found.held else "bold red"))
    console.print(
        "No list of bad words is involved: the calculator's parser knows numbers, operators and five functions, paths "
        "and names are checked by rule, and what was not taught is refused.",
        style="dim",
    )
    console.print(f"Computed in {found.milliseconds:,.0f} ms.", style="dim", highlight=False)


def _part(console: Console, title: str, body: Any) -> None:
    console.print()
    console.rule(Text(title, style="bold"), align="left", style="dim")
    console.print(Padding(body, (0, 0, 0, 2)))


def _facts(rows: list[tuple[str, Any]]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, value if isinstance(value, Text | Group | Table) else Text(str(value)))
    return table


def _choice(found: Inspection) -> Group:
    facts = [
        ("available", ", ".join(found.available)),
        ("picked", Text(found.choice.tool, style="bold cyan")),
        ("because", found.choice.because),
    ]
    said = "There is no model and no key here: a handful of rules made this choice. All that follows is the real path."
    return Group(_facts(facts), Text(said, style="dim italic"))


def _published(tool: Published) -> Group:
    facts = [
        ("name", tool.id),
        ("says", tool.description),
        ("tags", ", ".join(tool.tags)),
        ("rules", f"{tool.step}, risk {tool.risk}, {tool.budget_seconds:g} s to answer"),
    ]
    parameters = Table(box=None, padding=(0, 2, 0, 0), show_edge=False, header_style="dim")
    for column in ("parameter", "type", "rules", "what for"):
        parameters.add_column(column, overflow="fold")
    for one in tool.parameters:
        parameters.add_row(*map(Text, (one.name, one.kind, one.rules, one.description)))
    return Group(_facts(facts), Text(), parameters)


def _arguments(found: Inspection) -> Table:
    arguments = found.arguments
    rows: list[tuple[str, Any]] = [("drafted", _json(arguments.drafted))]
    if arguments.checked is not None:
        rows.append(("checked", _json(arguments.checked)))
    converted = [f"{one['argument']}: {_json(one['from'])} -> {_json(one['to'])}" for one in arguments.conversions]
    rows.append(("converted", "\n".join(converted) or "nothing"))
    rows.append(("problems", "\n".join(arguments.problems) or "none"))
    return _facts(rows)


def _call(found: Inspection) -> Table:
    cost = found.cost
    rows: list[tuple[str, Any]] = [
        ("offered to the turn", "yes" if found.offered else "no"),
        ("breaker", found.breaker),
    ]
    if found.gate is not None:
        does = {"proceed": "goes on", "ask": "waits for a person", "refuse": "is refused"}[found.gate.decision]
        rows.append(
            ("gate", f"rated {found.gate.rating}, so it {does} (asks from {found.gate.ask_from} up)"),
        )
    outcome = found.outcome + (f" ({found.code})" if found.code else "")
    rows += [
        ("outcome", Text(outcome, style=_COLOURS.get(found.outcome, "red"))),
        (
            "cost",
            f"{cost['milliseconds']:g} ms, {cost['attempts']} attempt{'s' if cost['attempts'] != 1 else ''}, "
            f"{cost['bytes']:,} bytes, {cost['requests']} AWS requests",
        ),
        ("answer", _content(found.content)),
        ("in one line", Text(found.line, style="cyan")),
    ]
    return _facts(rows)


def _content(content: str) -> str:
    lines = content.splitlines()
    more = len(lines) - CONTENT_LINES
    return "\n".join(lines[:CONTENT_LINES]) + (f"\n… {more} more lines" if more > 0 else "")


def _hostile(found: Inspection) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False, header_style="dim")
    table.add_column("input", ratio=3, overflow="fold")
    table.add_column("outcome", no_wrap=True)
    table.add_column("why", ratio=5, overflow="fold")
    for one in found.turned_down:
        style = "yellow" if one.held else "bold red"
        table.add_row(Text(one.shown), Text(one.outcome, style=style), Text(_first_sentence(one.why)))
    return table


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[a-z0-9)`'])\. (?=[A-Z])", text, maxsplit=1)[0].rstrip(".")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
