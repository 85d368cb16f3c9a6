"""Text of a stored result, to be written to a file without passing through the model."""

from __future__ import annotations

import json
from typing import Any

from workbench.errors import ToolError
from workbench.ids import RESULT_PREFIX, CallId
from workbench.keys import call_key
from workbench.runtime import Runtime
from workbench.tools.arguments import decode, reported, shown
from workbench.tools.recording import full_output, load_answer

NAMES_SHOWN = 10


def stored_text(runtime: Runtime, conversation: str, ref: str, pointer: str | None) -> str:
    """The whole text of the result ``ref``, or the value that a JSON pointer (RFC 6901) picks from it.

    The pointer reads the text as JSON, or else the answer's ``structured`` facts. Text is written as it is, any other
    value as JSON. Raises ToolError ``not_found`` for a ref of another conversation as for one that does not exist.
    """
    call = CallId.parse(ref, RESULT_PREFIX)
    item = (
        runtime.table.get(call_key(call.turn, call.call)) if call and call.turn.conversation == conversation else None
    )
    if item is None or item["state"] != "done":
        raise ToolError(
            f"There is no stored result {shown(ref)} in this conversation. Use the `ref` of an earlier answer.",
            code="not_found",
            ref=ref,
        )
    text = full_output(runtime, item)
    if not pointer:
        return text
    try:
        document = decode(text)
    except ValueError:
        document = load_answer(runtime, item)["structured"]
    value = _pick(document, pointer)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


def _pick(value: Any, pointer: str) -> Any:
    if not pointer.startswith("/"):
        raise ToolError(
            "pointer is a JSON pointer: it begins with /, such as /files/0/path. Nothing was written.",
            code="invalid_args",
        )
    for part in pointer[1:].split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isascii() and name.isdigit() and int(name[:9]) < len(value):
            value = value[int(name[:9])]
        else:
            raise ToolError(
                f"The pointer {shown(pointer)} finds nothing at {shown(name)}; what stands there: {_described(value)}. "
                "Nothing was written.",
                code="not_found",
                pointer=reported(pointer),
            )
    return value


def _described(value: Any) -> str:
    if isinstance(value, dict):
        names = ", ".join(map(shown, sorted(value)[:NAMES_SHOWN]))
        return f"an object with {names or 'nothing in it'}{', …' if len(value) > NAMES_SHOWN else ''}"
    if isinstance(value, list):
        return f"a list of {len(value):,}, counted from 0"
    return f"the value {shown(value)}"
