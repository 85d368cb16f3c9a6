"""The tool run_code: checks what is asked, admits the run, and waits for as long as the caller does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from workbench.errors import ToolError
from workbench.keys import call_key, run_key, run_output_key
from workbench.operations import Item
from workbench.runs import inputs, wording
from workbench.runs.beginning import Order, begin, end_if_stale, start
from workbench.runs.items import shown_output, shown_status
from workbench.runs.waiting import look_until
from workbench.tools.answer import Answer
from workbench.tools.arguments import ArgumentObject
from workbench.tools.contract import tool
from workbench.tools.recording import load_answer

if TYPE_CHECKING:
    from workbench.tools.turn import Turn

CODE_CHARACTERS = 200_000

Names = Annotated[list[Annotated[str, Field(min_length=1, max_length=300)]], Field(max_length=20)]
Refs = Annotated[list[Annotated[str, Field(min_length=1, max_length=300)]], Field(max_length=3)]


class ArtifactInput(ArgumentObject):
    """An artifact to mount."""

    id: Annotated[str, Field(min_length=1, max_length=100, description="The artifact's id.")]
    version: Annotated[int, Field(ge=1, description="Its version; the latest when left out.")] | None = None


Artifacts = Annotated[list[ArtifactInput], Field(max_length=20)]


# The budget is for what happens around the waiting; path.py adds the caller's own wait.
@tool(step="run", tags={"run", "code"}, budget=20.0, risk="high", breaker=8)
def run_code(
    turn: Turn,
    code: Annotated[str, Field(min_length=1, max_length=CODE_CHARACTERS)],
    language: Literal["python", "javascript", "shell"] = "python",
    files: Names = [],  # noqa: B006 - never changed, and published as the default
    passages: Names = [],  # noqa: B006
    artifacts: Artifacts = [],  # noqa: B006
    tool_results: Refs = [],  # noqa: B006
    skills: Names = [],  # noqa: B006
    timeout_seconds: Annotated[int, Field(ge=1, le=900)] = 30,
) -> Answer:
    """Run a program in a sandbox without network, on the files of the workspace.

    The workspace is the folder workspace/, writable; what the program creates, changes or deletes there is kept, also
    when it fails. Inputs that you name lie under inputs/, read-only. Print a figure or a small table, not the data;
    write data to a file under workspace/. Nothing else lasts: no variables, no installed packages. Python has numpy,
    pandas, openpyxl, xlsxwriter, python-docx, python-pptx, matplotlib, pillow, pypdf, reportlab, lxml, beautifulsoup4
    and pyyaml; there are Node.js and a POSIX shell.

    Args:
        code: The whole program.
        language: What it is written in.
        files: Ids of uploaded documents that this turn may use, to mount as they were under inputs/files/.
        passages: Ids of such documents whose passages to mount, as inputs/passages/<id>.json: {"document", "name", "passages": [{"number", "place", "text"}]} in order.
        artifacts: Artifacts to mount under inputs/artifacts/, by id and optional version.
        tool_results: Up to 3 refs of earlier answers, to transform data without reading it: mounted in order as inputs/tool-results/1.json and so on, each with ref, toolName, isError and output.
        skills: Names of skills that this turn may load, to mount their files under skills/<name>/.
        timeout_seconds: The program is killed after this many seconds.
    """  # noqa: E501 - a parameter's description is one line
    wishes = [inputs.Wish(wanted.id, wanted.version) for wanted in artifacts]
    mounted = inputs.resolve(turn, wishes, tool_results, skills, files, passages)
    order = Order(code.encode(), language, timeout_seconds, mounted)
    begin(turn, order)
    return _wait(turn)


def resume(turn: Turn, item: Item) -> Answer:
    """Wait on for a call whose record says that its run is at work; a run that a crash left unstarted is started."""
    record = turn.runtime.table.get(run_key(item["run"]))
    if record is not None:
        end_if_stale(turn.runtime, record)
        if record["status"] == "queued":
            start(turn.runtime, record)
    return _wait(turn)


def _wait(turn: Turn) -> Answer:
    table, run = turn.runtime.table, turn.call.run
    key = call_key(turn.id, turn.call.call)
    item = look_until(turn.clock, turn.wait_seconds, lambda: table.get(key), _is_over)
    if item is None or item["digest"] != turn.digest:
        # A twin with other arguments took the id, or the conversation is being deleted: the call path looks again.
        raise ToolError("The call's record changed while it was answered. Send it again.", code="internal")
    if _is_over(item):
        return Answer([], wire=load_answer(turn.runtime, item))
    found = table.get_many([run_key(run), run_output_key(run)])
    record = found.get(run_key(run))
    printed = shown_output(record, found.get(run_output_key(run)))
    return wording.at_work(run, shown_status(record) if record else "queued", printed)


def _is_over(item: Item | None) -> bool:
    return item is None or item["state"] != "running"
