"""The argument objects of the file tools, as the model sends them, and how they become the engine's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from workbench.errors import ToolError
from workbench.tools.arguments import ArgumentObject

if TYPE_CHECKING:
    from workbench.workspace.text.edit import FindEdit, LineEdit
    from workbench.workspace.views.reading import ReadRequest

Line = Annotated[int, Field(ge=1)]


class PathRange(ArgumentObject):
    """A path with a line range of its own."""

    path: Annotated[str, Field(description="Workspace path.")]
    start_line: Annotated[Line | None, Field(description="First line to return, counted from 1.")] = None
    end_line: Annotated[Line | None, Field(description="Last line to return.")] = None


class Source(ArgumentObject):
    """Text of a stored result."""

    ref: Annotated[str, Field(description="The ref of an earlier answer of this conversation.")]
    pointer: Annotated[str | None, Field(description="JSON pointer to one value of it, such as /entries/0/value.")] = (
        None
    )


class FileToWrite(ArgumentObject):
    """One file of a batch."""

    path: Annotated[str, Field(description="Workspace path; missing folders are created.")]
    content: Annotated[str | None, Field(description="The whole text, written exactly as given.")] = None
    source: Annotated[Source | None, Field(description="A stored result to write instead of content.")] = None


class Edit(ArgumentObject):
    """One change, by text (find, replace, line) or by line (startLine, endLine, anchor, endAnchor, content)."""

    find: Annotated[str | None, Field(description="Exact text to replace; must occur once.")] = None
    replace: Annotated[str | None, Field(description="What to put instead; empty deletes.")] = None
    line: Annotated[Line | None, Field(description="Which occurrence: the one that starts on this line.")] = None
    start_line: Annotated[Line | None, Field(description="First line to replace, counted from 1.")] = None
    end_line: Annotated[Line | None, Field(description="Last line to replace; startLine when left out.")] = None
    anchor: Annotated[str | None, Field(description="Text of the first line as last read, as a check.")] = None
    end_anchor: Annotated[str | None, Field(description="Text of the last line as last read.")] = None
    content: Annotated[str | None, Field(description="The new lines; empty deletes the range.")] = None

    def as_engine(self, number: int) -> FindEdit | LineEdit:
        """The engine's edit; raises ``invalid_args`` naming this edit when it mixes or lacks what its form needs."""
        from workbench.workspace.text.edit import FindEdit, LineEdit

        by_line = {"startLine": self.start_line, "content": self.content}
        others = {**by_line, "endLine": self.end_line, "anchor": self.anchor, "endAnchor": self.end_anchor}
        if self.find is not None:
            mixed = [name for name, value in others.items() if value is not None]
            if mixed:
                raise _bad_edit(number, f"names its place by find and by {mixed[0]}; use one of the two")
            if self.replace is None:
                raise _bad_edit(number, "has find without replace; give the new text, or an empty one to delete")
            return FindEdit(self.find, self.replace, self.line)
        if self.replace is not None or self.line is not None:
            raise _bad_edit(number, "has replace or line without find; give the exact text to find")
        missing = [name for name, value in by_line.items() if value is None]
        if missing:
            raise _bad_edit(
                number, f"lacks {missing[0]}; give find and replace, or startLine and content (empty content deletes)"
            )
        assert self.start_line is not None and self.content is not None
        return LineEdit(self.start_line, self.end_line, self.anchor, self.end_anchor, self.content)


def _bad_edit(number: int, fault: str) -> ToolError:
    return ToolError(f"Edit {number} {fault}. Nothing was changed.", code="invalid_args", edit=number)


def read_requests(
    path: str | None, paths: list[str | PathRange] | None, start_line: int | None, end_line: int | None
) -> list[ReadRequest]:
    """What to read, in order: exactly one of ``path`` and ``paths``; a range of its own goes before the call's."""
    from workbench.workspace.views.reading import ReadRequest

    if (path is None) == (paths is None):
        raise ToolError("Give either path, for one file, or paths, for up to 10.", code="invalid_args")
    wanted = [path] if path is not None else list(paths or [])
    requests = []
    for one in wanted:
        own = one if isinstance(one, PathRange) else PathRange(path=one)
        ranged = own.start_line is not None or own.end_line is not None
        first, last = (own.start_line, own.end_line) if ranged else (start_line, end_line)
        requests.append(ReadRequest(own.path, first, last))
    return requests
