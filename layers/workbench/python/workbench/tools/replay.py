"""Messages as they should be sent again: documents that were written are cut, delivered files become one line. Pure.

A write's arguments stay in the message list and are paid for at every later step, though the workspace holds what they
wrote. Only a call that is known to have succeeded is cut: a model that has to find out what was wrong with a call needs
all of it. Understands the messages of OpenAI (Chat Completions and Responses), Anthropic and Bedrock Converse; what is
none of these passes through as it is.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from workbench.tools.arguments import Given
from workbench.workspace.paths import printable
from workbench.workspace.views.cuts import cut_before

KEPT_CHARACTERS = 200

# Where a call carries text that is stored once it succeeded; `[]` stands for every item of an array.
DOCUMENTS: dict[str, tuple[str, ...]] = {
    "write_file": ("content", "files[].content"),
    "edit_file": ("append", "edits[].replace", "edits[].content"),
    "export_artifact": ("content",),
}

_MARK = "… [{more:,} more characters were written; they are left out of this replay]"
_MARKED = re.compile(r"… \[[\d,]+ more characters were written; they are left out of this replay\]\Z")

Message = dict[str, Any]


@dataclass
class ToolCall:
    """One call of a tool that writes. ``said`` is what its result in the messages says: succeeded, failed or None."""

    id: str
    tool: str
    holder: dict[str, Any]
    field: str
    said: bool | None = None

    @property
    def arguments(self) -> Any:
        """As the message has them: an object, or a JSON string of one."""
        return self.holder[self.field]

    @property
    def digest(self) -> str:
        """What identifies a call's arguments in its stored record."""
        return Given.read(self.arguments).digest


Succeeded = Callable[[ToolCall], bool]


def replay(messages: list[Any], succeeded: Succeeded) -> list[Any]:
    """A copy of ``messages`` with the documents of the calls that ``succeeded`` cut and file parts as one line each."""
    copied: list[Any] = copy.deepcopy(messages)
    for call in writing_calls(copied):
        if succeeded(call):
            call.holder[call.field] = _cut_arguments(call.arguments, DOCUMENTS[call.tool])
    bedrock = any("type" not in block for message in copied for block in _blocks(message))
    for message in copied:
        if isinstance(message, dict):
            _name_files(message, bedrock=bedrock)
    return copied


def writing_calls(messages: list[Any]) -> list[ToolCall]:
    """Every call of a writing tool in order, each with what the result that follows it says."""
    found: list[ToolCall] = []
    latest: dict[str, ToolCall] = {}
    for message in messages:
        for call in _calls(message):
            # Also calls of other tools: a later result under the same id is theirs.
            latest[call.id] = call
            if call.tool in DOCUMENTS:
                found.append(call)
        for identifier, said in _results(message):
            if identifier in latest:
                latest[identifier].said = said
    return found


# ---------------------------------------------------------------- the shapes


def _blocks(message: Any) -> Iterator[dict[str, Any]]:
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list):
        yield from (block for block in content if isinstance(block, dict))


def _calls(message: Any) -> Iterator[ToolCall]:
    if not isinstance(message, dict):
        return
    made: list[tuple[Any, Any, Any, str]] = []
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            made.append((call.get("id"), function.get("name"), function, "arguments"))
    if message.get("type") == "function_call":
        made.append((message.get("call_id"), message.get("name"), message, "arguments"))
    for block in _blocks(message):
        use = block.get("toolUse")
        if isinstance(use, dict):
            made.append((use.get("toolUseId"), use.get("name"), use, "input"))
        elif block.get("type") == "tool_use":
            made.append((block.get("id"), block.get("name"), block, "input"))
    for identifier, name, holder, field in made:
        if isinstance(identifier, str) and isinstance(name, str) and field in holder:
            # MCP clients put the server's name before the tool's.
            yield ToolCall(identifier, name.rpartition("__")[2], holder, field)


def _results(message: Any) -> Iterator[tuple[str, bool | None]]:
    """``(call id, succeeded)`` of each tool result; None where the messages do not tell."""
    if not isinstance(message, dict):
        return
    told: list[tuple[Any, bool | None]] = []
    if message.get("role") == "tool":
        told.append((message.get("tool_call_id"), _outcome(message.get("content"))))
    if message.get("type") == "function_call_output":
        told.append((message.get("call_id"), _outcome(message.get("output"))))
    for block in _blocks(message):
        result = block.get("toolResult")
        if isinstance(result, dict):
            # Not every model behind Converse takes a status, so a missing one says nothing.
            flag = {"success": True, "error": False}.get(str(result.get("status")))
            told.append((result.get("toolUseId"), _together(flag, _outcome(result.get("content")))))
        elif block.get("type") == "tool_result":
            # A missing is_error means false: https://docs.anthropic.com/en/api/messages
            flag = not block.get("is_error")
            told.append((block.get("tool_use_id"), _together(flag, _outcome(block.get("content")))))
    yield from ((identifier, said) for identifier, said in told if isinstance(identifier, str))


def _together(flag: bool | None, outcome: bool | None) -> bool | None:
    return flag if outcome is None else outcome and flag is not False


def _outcome(content: Any) -> bool | None:
    """Whether a result that holds a whole tool answer, as JSON, is ``ok``; None when it holds none."""
    parts = content if isinstance(content, list) else [content]
    for part in parts:
        value = part
        if isinstance(part, dict):
            value = part.get("json", part.get("text", part))
        if isinstance(value, str) and value.lstrip().startswith("{"):
            value = _decoded(value)
        if isinstance(value, dict) and isinstance(value.get("outcome"), str) and "callId" in value:
            return bool(value["outcome"] == "ok")
    return None


# ---------------------------------------------------------------- documents


def _cut_arguments(arguments: Any, places: tuple[str, ...]) -> Any:
    for place in places:
        arguments = _cut_at(arguments, place)
    return arguments


def _cut_at(value: Any, place: str) -> Any:
    """``value`` with the text at ``place`` cut; JSON in a string stays JSON in a string."""
    name, array, rest = place.partition("[].")
    if isinstance(value, str):
        decoded = _decoded(value)
        if not isinstance(decoded, dict | list):
            return value
        changed = _cut_at(decoded, place)
        return value if changed == decoded else _encoded(changed, value)
    if not isinstance(value, dict) or name not in value:
        return value
    part = value[name]
    return {**value, name: _cut_items(part, rest) if array else _cut(part)}


def _cut_items(value: Any, place: str) -> Any:
    if isinstance(value, str):
        decoded = _decoded(value)
        if not isinstance(decoded, dict | list):
            return value
        changed = _cut_items(decoded, place)
        return value if changed == decoded else _encoded(changed, value)
    # One object is taken for a list of one.
    return [_cut_at(item, place) for item in value] if isinstance(value, list) else _cut_at(value, place)


def _cut(text: Any) -> Any:
    if not isinstance(text, str) or len(text) <= KEPT_CHARACTERS:
        return text
    marked = _MARKED.search(text)
    if marked and marked.start() <= KEPT_CHARACTERS:
        # Cut by an earlier replay.
        return text
    at = cut_before(text, KEPT_CHARACTERS)
    return text[:at] + _MARK.format(more=len(text) - at)


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _encoded(value: Any, instead: str) -> str:
    """``value`` as JSON, or ``instead`` where a number of it cannot be written down."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError):
        return instead


# ---------------------------------------------------------------- files of a reply


def _name_files(message: Message, *, bedrock: bool) -> None:
    """Put one line of text in the place of each file that a reply delivered."""
    for field in ("content", "parts"):
        parts = message.get(field)
        if isinstance(parts, list):
            message[field] = [_line(part, bedrock=bedrock) if _is_file(part) else part for part in parts]


def _is_file(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "file" and isinstance(part.get("artifact"), str)


def _line(part: dict[str, Any], *, bedrock: bool) -> dict[str, Any]:
    size = part.get("bytes")
    said = [f"artifact {part['artifact']}", f"version {part.get('version')}"]
    if isinstance(size, int):
        said.append(f"{size:,} bytes")
    text = printable(f"[file {part.get('name')}: {', '.join(said)}]")
    return {"text": text} if bedrock else {"type": "text", "text": text}
