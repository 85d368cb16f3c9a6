"""The library's tools as a model reads them: signatures, descriptions, and the way from a model's call to an answer."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Annotated, Any

from pydantic import BaseModel, Field

from local.library.backend import SandboxBackend
from workbench.errors import ToolError
from workbench.settings import Settings
from workbench.tools import docstrings
from workbench.tools.answer import Answer, TextPart
from workbench.tools.arguments import ArgumentObject, InvalidArguments, nearest, shown
from workbench.tools.contract import Tool, tool
from workbench.workspace.file_arguments import Edit, FileToWrite, Line, PathRange
from workbench.workspace.views.matching import QUERY_CHARACTERS


class NewFile(ArgumentObject):
    """One file of a batch."""

    path: Annotated[str, Field(description="Where to write; missing folders are created.")]
    content: Annotated[str, Field(description="The whole text, written exactly as given.")]


@tool(step="read", tags={"files", "read"}, budget=10.0)
def ls(
    turn: SandboxBackend,
    path: str | None = None,
    depth: Annotated[int, Field(ge=1, le=64)] = 1,
    after: str | None = None,
) -> Answer:
    """List what a folder holds: names, sizes and, of folders, how many files lie below.

    Args:
        path: The folder to list; the root when left out.
        depth: How many levels of folders to go down.
        after: Go on behind this path, which the last answer gave as next.
    """
    return turn.ls(path, depth, after)


@tool(step="read", tags={"files", "read"}, budget=15.0, exact=True)
def read_file(
    turn: SandboxBackend,
    path: str | None = None,
    paths: Annotated[list[str | PathRange], Field(min_length=1, max_length=10)] | None = None,
    start_line: Line | None = None,
    end_line: Line | None = None,
) -> Answer:
    """Read text files by line. Lines come numbered: the number, a tab, the text.

    The number and the tab are not part of the file. One call shares {read_budget_characters} characters between its
    paths. A cut answer says which line to ask for next and why it was cut.
    [if edit_file] The numbers are those that edit_file takes.
    [if vision] A picture is shown as a picture.

    Args:
        path: The file to read.
        paths: Up to 10 files instead of path, each a path or an object with path, startLine and endLine.
        start_line: First line to return, counted from 1.
        end_line: Last line to return.
    """
    return turn.read_file(path, start_line, end_line, paths=paths)


@tool(step="write", tags={"files", "write"}, budget=15.0, risk="moderate")
def write_file(
    turn: SandboxBackend,
    path: str | None = None,
    content: str | None = None,
    files: Annotated[list[NewFile], Field(min_length=1, max_length=3)] | None = None,
) -> Answer:
    """Create a file, or replace a short one. Give path and content, or files for up to three.

    The text is written exactly as given. All files of a call are written, or none.
    [if edit_file] To change an existing file use edit_file; a long file is not replaced whole.

    Args:
        path: Where to write; missing folders are created.
        content: The whole text of the file.
        files: Up to three files, each with path and content.
    """
    batch = None if files is None else [FileToWrite(path=one.path, content=one.content) for one in files]
    return turn.write_file(path, content, files=batch)


@tool(step="write", tags={"files", "write"}, budget=15.0, risk="moderate")
def edit_file(
    turn: SandboxBackend,
    path: str,
    edits: Annotated[list[Edit], Field(min_length=1, max_length=50)] | None = None,
    append: str | None = None,
) -> Answer:
    """Change part of a text file and nothing else, by exact text or by line number, or append to it.

    By text: find must occur exactly once, or line says which occurrence. By line: startLine to endLine, counted
    from 1, with anchor, the text of the first line as you last read it, so that a stale number changes nothing.
    Several edits of a call all mean the file as it was before the call; all apply, or none. A refused edit changes
    nothing and says where to look. Read a range before you replace it by line.

    Args:
        path: The file to change.
        edits: Up to 50 changes, all by text (find, replace, line) or all by line (startLine, endLine, anchor, content).
        append: Text to add at the end of the file, instead of edits.
    """
    return turn.edit_file(path, edits, append)


@tool(step="write", tags={"files", "write"}, budget=15.0, risk="moderate")
def delete_file(turn: SandboxBackend, path: str, recursive: bool = False) -> Answer:
    """Delete a file or, with recursive, a folder and everything in it.

    Args:
        path: The file or folder to delete.
        recursive: Delete a folder with all that it holds.
    """
    return turn.delete_file(path, recursive=recursive)


@tool(step="search", tags={"files", "search"}, budget=15.0)
def glob(turn: SandboxBackend, pattern: str, path: str | None = None, after: str | None = None) -> Answer:
    """Find files by name.

    Args:
        pattern: Such as **/*.py; * and ? stay within one name, ** spans folders.
        path: The folder to look in, which the pattern is relative to; the root when left out.
        after: Go on behind this path, which the last answer gave as next.
    """
    return turn.glob(pattern, path, after)


@tool(step="search", tags={"files", "search"}, budget=25.0, exact=True)
def grep(
    turn: SandboxBackend,
    query: Annotated[str, Field(min_length=1, max_length=QUERY_CHARACTERS)],
    glob: str | None = None,
    path: str | None = None,
    ignore_case: bool = False,
) -> Answer:
    """Find a literal text in files. Each match is given as path:line: text, at most 50 of them.

    Args:
        query: The text to find, matched exactly; no pattern.
        glob: Only in paths that match, such as **/*.md.
        path: Only in this file or folder.
        ignore_case: Take upper and lower case as equal.
    """
    return turn.grep(query, glob, path, ignore_case=ignore_case)


@tool(step="run", tags={"run", "code"}, budget=900.0, risk="high")
def execute(turn: SandboxBackend, command: Annotated[str, Field(min_length=1)]) -> Answer:
    """Run a shell command in the root folder, in a sandbox without network.

    Files that it creates, changes or deletes below the root are kept, also when it fails; nothing else lasts. Python,
    Node.js and the usual text tools are there. Print a figure or a small table; write data to a file.

    Args:
        command: What sh -c gets.
    """
    return turn.execute(command)


TOOLS: Mapping[str, Tool] = {
    one.name: one for one in (ls, read_file, write_file, edit_file, delete_file, glob, grep, execute)
}

Names = Collection[str]


# ---------------------------------------------------------------- a model's call


def called(backend: SandboxBackend, offered: Names, name: str, arguments: object) -> dict[str, Any]:
    """See :meth:`SandboxBackend.call`."""
    found = TOOLS.get(name)
    if found is None or name not in offered:
        near = nearest(name, offered)
        hint = f" Did you mean {near}?" if near else f" There are {', '.join(one for one in TOOLS if one in offered)}."
        return _refused(ToolError(f"There is no tool named {shown(name)}.{hint}", code="unknown_tool"))
    try:
        bound = found.bind(arguments)
    except InvalidArguments as refusal:
        return _refused(refusal)
    try:
        answer = found.function(backend, **bound.values)
    except ToolError as refusal:
        return {**_refused(refusal), "conversions": bound.conversions}
    return {
        "outcome": "error" if answer.error else "ok",
        "content": [part.as_dict() for part in answer.content],
        "structured": answer.structured,
        "error": answer.error.as_dict() if answer.error else None,
        "conversions": bound.conversions,
    }


_OUTCOMES = {"invalid_args": "invalid_args", "unknown_tool": "unknown_tool", "SANDBOX_TIMEOUT": "timeout"}


def _refused(error: ToolError) -> dict[str, Any]:
    return {
        "outcome": _OUTCOMES.get(error.code, "error"),
        "content": [TextPart(error.message).as_dict()],
        "structured": {},
        "error": error.as_dict(),
        "conversions": [],
    }


# ---------------------------------------------------------------- for frameworks


def published(name: str, offered: Names, settings: Settings, *, vision: bool) -> list[dict[str, Any]]:
    """See :meth:`SandboxBackend.schemas`."""
    from workbench.tools.formats import publish

    tools = [one for one in TOOLS.values() if one.name in offered]
    return publish(name, tools, {*offered, *(["vision"] if vision else [])}.__contains__, settings)


def functions_of(backend: SandboxBackend, offered: Names, settings: Settings) -> list[Callable[..., str]]:
    """See :meth:`SandboxBackend.tools`."""
    return [_function(backend, one, offered, settings) for one in TOOLS.values() if one.name in offered]


def _function(backend: SandboxBackend, one: Tool, offered: Names, settings: Settings) -> Callable[..., str]:
    published_names = {name: info.alias or name for name, info in one.model.model_fields.items()}
    signature = _signature(one)

    def function(*args: Any, **kwargs: Any) -> str:
        given = signature.bind(*args, **kwargs).arguments
        arguments = {published_names[name]: _plain(value) for name, value in given.items()}
        answer = called(backend, offered, one.name, arguments)
        texts = [part["text"] for part in answer["content"] if part["type"] == "text"]
        if len(texts) < len(answer["content"]):
            texts.append("[The picture itself cannot be given as text.]")
        if answer["outcome"] != "ok" and answer["error"]:
            texts.insert(0, f"[{answer['error']['code']}]")
        return "\n".join(texts)

    function.__name__ = function.__qualname__ = one.name
    function.__doc__ = _documentation(one, offered, settings)
    function.__signature__ = signature  # type: ignore[attr-defined]
    function.__annotations__ = {
        **{name: parameter.annotation for name, parameter in signature.parameters.items()},
        "return": str,
    }
    return function


@cache
def _signature(one: Tool) -> inspect.Signature:
    """The function's own signature without the backend, its annotations resolved."""
    hints = typing.get_type_hints(one.function, include_extras=True)
    parameters = list(inspect.signature(one.function).parameters.values())[1:]
    return inspect.Signature(
        [parameter.replace(annotation=hints[parameter.name]) for parameter in parameters], return_annotation=str
    )


def _documentation(one: Tool, offered: Names, settings: Settings) -> str:
    read = docstrings.read(one)
    parts = [docstrings.render(read.description, offered.__contains__, settings), "", "Args:"]
    for name, text in read.parameters.items():
        parts.append(f"    {name}: {docstrings.render(text, offered.__contains__, settings)}")
    return "\n".join(parts)


def _plain(value: Any) -> Any:
    """What a framework made of an argument, as the JSON it was made from."""
    if isinstance(value, BaseModel):
        return value.model_dump(by_alias=True, exclude_none=True)
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value
