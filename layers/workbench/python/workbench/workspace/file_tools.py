"""The six file tools. Each says what it does in the words the model reads; the logic is one call deep.

A function has one of them, so each loads its logic itself: reading needs no edit engine, and a first call waits for all
that is loaded.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from workbench.errors import ToolError
from workbench.tools.answer import Answer
from workbench.tools.contract import tool
from workbench.tools.turn import Turn
from workbench.workspace.file_arguments import Edit, FileToWrite, Line, PathRange, Source, read_requests


@tool(step="read", tags={"files", "read"}, budget=10.0, breaker=8)
def list_files(
    turn: Turn,
    path: str | None = None,
    glob: str | None = None,
    depth: Annotated[int, Field(ge=1, le=64)] | None = None,
    after: str | None = None,
) -> Answer:
    """List files and folders of the workspace with their sizes and, for text, their number of lines.

    Of a folder it also says which version of the workspace last wrote something in it.

    Args:
        path: The folder to list; the whole workspace when left out.
        glob: Only paths that match, such as **/*.py; * and ? stay within one name, ** spans folders.
        depth: How many levels of folders to go down.
        after: Go on behind this path, which the last answer gave as next.
    """
    from workbench.workspace import finding

    return finding.list_files(turn, path, glob, depth, after)


@tool(step="read", tags={"files", "read"}, budget=15.0, breaker=8, exact=True)
def read_file(
    turn: Turn,
    path: str | None = None,
    paths: Annotated[list[str | PathRange], Field(min_length=1, max_length=10)] | None = None,
    start_line: Line | None = None,
    end_line: Line | None = None,
) -> Answer:
    """Read text files by line, or look at a picture. Lines come numbered: the number, a tab, the text.

    The number and the tab are not part of the file. One call shares 24,000 characters between its paths. A cut answer
    says which line to ask for next and why it was cut.
    [if edit_file] The numbers are those that edit_file takes.

    Args:
        path: The file to read.
        paths: Up to 10 files instead of path, each a path or an object with path, startLine and endLine.
        start_line: First line to return, counted from 1.
        end_line: Last line to return.
    """
    from workbench.workspace import looking

    return looking.read(turn, read_requests(path, paths, start_line, end_line))


@tool(step="search", tags={"files", "search"}, budget=25.0, breaker=8, exact=True)
def search_files(
    turn: Turn,
    queries: Annotated[list[Annotated[str, Field(min_length=1, max_length=1000)]], Field(min_length=1, max_length=5)],
    path: str | None = None,
    glob: str | None = None,
    context: Annotated[int, Field(ge=0, le=3)] = 0,
    ignore_case: bool = False,
    after: str | None = None,
) -> Answer:
    """Find literal texts in the workspace's files. Each match has its path, line number and the text that was found.

    Queries are text, not patterns. Ask for everything at once: all queries are searched in one pass.

    Args:
        queries: One to five texts to find, each matched exactly.
        path: Only in this file or folder.
        glob: Only in paths that match, such as **/*.md.
        context: Lines to show around each match, 0 to 3.
        ignore_case: Take upper and lower case as equal.
        after: Go on behind this path, which the last answer gave as next.
    """
    from workbench.workspace import finding

    return finding.search_files(turn, queries, path, glob, context, ignore_case, after)


@tool(step="write", tags={"files", "write"}, budget=15.0, risk="moderate", breaker=8)
def write_file(
    turn: Turn,
    path: str | None = None,
    content: str | None = None,
    source: Source | None = None,
    files: Annotated[list[FileToWrite], Field(min_length=1, max_length=3)] | None = None,
) -> Answer:
    """Create a file, or replace a short one. Give path with content or source, or files for up to three.

    The text is written exactly as given. All files of a call are written, or none.
    [if edit_file] To change an existing file use edit_file; a long file is not replaced whole.
    Use source to export a stored result as it is, without repeating it.
    [if run_code] To transform a stored result use run_code with toolResults instead.
    The workspace is deleted with its conversation.
    [if export_artifact] Only export_artifact gives the person a file.

    Args:
        path: Workspace path of the file; missing folders are created.
        content: The whole text of the file.
        source: A stored result to write instead of content.
        files: Up to three files, each with path and either content or source.
    """
    from workbench.workspace import changing

    alone = path is not None or content is not None or source is not None
    if alone == (files is not None):
        raise ToolError(
            "Give either path with content or source, for one file, or files, for up to three. Nothing was written.",
            code="invalid_args",
        )
    if files is None:
        if path is None:
            raise ToolError("path is missing: say where to write. Nothing was written.", code="invalid_args")
        files = [FileToWrite(path=path, content=content, source=source)]
    return changing.write(turn, files)


@tool(step="write", tags={"files", "write"}, budget=15.0, risk="moderate", breaker=8)
def edit_file(
    turn: Turn,
    path: str,
    edits: Annotated[list[Edit], Field(min_length=1, max_length=50)] | None = None,
    append: str | None = None,
) -> Answer:
    """Change part of a text file and nothing else, by exact text or by line number, or append to it.

    By text: find must occur exactly once, or line says which occurrence. By line: startLine to endLine, counted
    from 1, with anchor, the text of the first line as you last read it, so that a stale number changes nothing.
    Several edits of a call all mean the file as it was before the call; all apply, or none. A refused edit changes
    nothing and says where to look. Read a range before you replace it by line.
    The workspace is deleted with its conversation.
    [if export_artifact] Only export_artifact gives the person a file.

    Args:
        path: The file to change.
        edits: Up to 50 changes, all by text (find, replace, line) or all by line (startLine, endLine, anchor, content).
        append: Text to add at the end of the file, instead of edits.
    """
    from workbench.workspace import editing

    return editing.edit(turn, path, edits, append)


@tool(step="write", tags={"files", "write"}, budget=15.0, risk="moderate", breaker=8)
def delete_file(turn: Turn, path: str, recursive: bool = False) -> Answer:
    """Delete a file or, with recursive, a folder and everything in it.

    Args:
        path: The file or folder to delete.
        recursive: Delete a folder with all that it holds.
    """
    from workbench.workspace import changing

    return changing.delete(turn, path, recursive=recursive)
