"""The main job, end to end: a conversation's whole life on the real code, against the embedded local system.

Files are written, edited and searched, a document is looked up and a skill followed, code runs in the sandbox over a
real data file, the report is exported and attached to the reply, the conversation is deleted. Each step shows its
outcome, milliseconds and AWS requests. Any surprise makes the command fail. The files land in ``out/``.
"""

from __future__ import annotations

import base64
import io
import json
import sys
import textwrap
import time
import zipfile
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rich.console import Console
from rich.markup import escape

from local.system import LocalSystem
from workbench.runs import idling

FILES = Path(__file__).parent / "demo_files"
OUT = Path("out")
SHOWN_CHARACTERS = 110
WIDE_COLUMNS = 150
SANDBOX_SECONDS = 10.0


class Surprise(Exception):
    """Something went otherwise than it must."""


class Portal:
    """The portal's side: an HTTP client that shows each step as it goes.

    A step's AWS requests are those of the whole system while it ran, the workflow's and the sandbox's route included.
    """

    def __init__(self, system: LocalSystem, console: Console) -> None:
        self._host = system.url.removeprefix("http://")
        self._console = console
        self.calls = 0
        self.token = ""
        self.turn = ""
        self._sent: list[str] = []
        self._shown = 0
        system.runtime.clients.hook = self._note

    def _note(self, service: str, operation: str) -> None:
        # A sandbox that waits for work asks again and again; no step has to do with it.
        if not idling.at_rest.get():
            self._sent.append(f"{service}:{operation}")

    @property
    def requests(self) -> int:
        """AWS requests so far."""
        return len(self._sent)

    def step(
        self,
        title: str,
        method: str,
        path: str,
        body: Any = None,
        *,
        expect: int = 200,
        headers: dict[str, str] | None = None,
    ) -> tuple[Any, float]:
        """One HTTP request; raises Surprise unless it is answered with the status ``expect``."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else None
        connection = HTTPConnection(self._host, timeout=120)
        started = time.perf_counter()
        connection.request(method, path, data, headers or {})
        answer = connection.getresponse()
        raw = answer.read()
        milliseconds = (time.perf_counter() - started) * 1000
        connection.close()
        is_json = "json" in (answer.getheader("content-type") or "")
        parsed = json.loads(raw) if is_json else raw
        if answer.status != expect:
            raise Surprise(f"{title}: HTTP {answer.status} instead of {expect}: {str(parsed)[:600]}")
        return parsed, milliseconds

    def show(self, title: str, outcome: str, milliseconds: float, detail: str = "") -> None:
        """One line of progress."""
        requests, self._shown = self.requests - self._shown, self.requests
        colour = "green" if outcome in ("ok", "200", "201", "202") else "yellow"
        # A narrow terminal gets what was said on a line of its own.
        between = "  " if self._console.width >= WIDE_COLUMNS else "\n    "
        shown = detail if len(detail) <= SHOWN_CHARACTERS else detail[: SHOWN_CHARACTERS - 1] + "…"
        said = f"{between}[dim]{escape(shown)}[/]" if detail else ""
        cost = f"{milliseconds:>8.1f} ms {requests:>3} {'request' if requests == 1 else 'requests':<8}"
        self._console.print(
            f"[bold]{escape(title):<36}[/] [{colour}]{outcome:<5}[/] {cost}{said}",
            highlight=False,
            no_wrap=True,
            overflow="ellipsis",
        )

    def route(
        self, title: str, method: str, path: str, body: Any = None, *, expect: int = 200, detail: str = ""
    ) -> Any:
        """A route that is no tool."""
        parsed, milliseconds = self.step(title, method, path, body, expect=expect)
        self.show(title, str(expect), milliseconds, detail)
        return parsed

    def tool(self, tool: str, *, title: str = "", outcome: str = "ok", **arguments: Any) -> Any:
        """A tool call of the model; raises Surprise unless it ends with ``outcome``."""
        self.calls += 1
        name = title or tool
        answer, milliseconds = self.step(
            name,
            "POST",
            f"/v1/turns/{self.turn}/tools/{tool}",
            {"callId": f"call_{self.calls}", "arguments": arguments, "wait": 60},
            headers={"X-Turn-Token": self.token},
        )
        if answer["outcome"] != outcome:
            raise Surprise(f"{name}: outcome {answer['outcome']} instead of {outcome}: {answer['line']}")
        code = f"{answer['error']['code']}: " if answer["error"] else ""
        self.show(
            f"{tool}  {title}" if title else tool,
            outcome,
            milliseconds,
            code + answer["line"],
        )
        return answer


def main() -> int:
    """Run the demo; 0 when everything went as it must."""
    console = Console(width=200 if not sys.stdout.isatty() else None)
    started = time.perf_counter()
    console.print("[bold]Workbench[/]: one conversation, from its first file to its deletion", highlight=False)
    try:
        with LocalSystem().start(settings={"warm_sandboxes": 1}) as system:
            console.print(f"local system on {system.url} in {time.perf_counter() - started:.1f} s", highlight=False)
            if system.has_warm_sandbox(within=SANDBOX_SECONDS):
                console.print(f"a sandbox waits for work after {time.perf_counter() - started:.1f} s", highlight=False)
            console.print()
            portal = Portal(system, console)
            _live(portal, console)
            _check_gone(system, console)
    except Surprise as surprise:
        console.print(f"\n[bold red]The demo failed.[/] {escape(str(surprise))}", highlight=False)
        return 1
    console.print(
        f"\n[bold green]Everything went as it must.[/] {portal.requests} AWS requests, "
        f"{time.perf_counter() - started:.1f} s in all.\n"
        f"Look at {OUT}/report.html; {OUT}/chart.png and {OUT}/summary.md came with it.",
        highlight=False,
    )
    return 0


def _live(portal: Portal, console: Console) -> None:
    conversation = "demo"
    portal.route(
        "create the conversation",
        "POST",
        "/v1/conversations",
        {"owner": "ada", "department": "research", "id": conversation},
        expect=201,
    )
    uploaded = portal.route(
        "upload field_notes.md",
        "POST",
        "/v1/documents",
        {
            "collection": "expedition",
            "name": "field_notes.md",
            "mediaType": "text/markdown",
            "data": base64.b64encode((FILES / "field_notes.md").read_bytes()).decode(),
            "owner": "ada",
            "department": "research",
        },
        expect=201,
    )
    portal.route("push the skill house-style", "PUT", "/v1/skills/house-style", _zipped(FILES / "house-style"))
    opened = portal.route(
        "open a turn with all tools",
        "POST",
        f"/v1/conversations/{conversation}/turns",
        {
            "caller": {"user": "ada", "department": "research"},
            "tools": "all",
            "model": {"name": "demo", "vision": True},
            "knowledge": ["expedition"],
            "skills": ["house-style"],
        },
        expect=201,
    )
    portal.turn, portal.token = opened["turn"]["id"], opened["token"]
    portal.route(
        "put penguins.csv (344 birds, CC0)",
        "PUT",
        f"/v1/conversations/{conversation}/file?path=penguins.csv",
        (FILES / "penguins.csv").read_bytes(),
    )
    console.print("\n[dim]The model looks around, and tries what it must not.[/]")
    portal.tool("list_files")
    portal.tool("read_file", path="penguins.csv", startLine=1, endLine=5)
    portal.tool("search_files", queries=["Torgersen", "Dream"], path="penguins.csv")
    portal.tool("write_file", path="analysis.py", content=(FILES / "analysis.py").read_text())
    portal.tool("write_file", title="../outside.txt", outcome="error", path="../outside.txt", content="no")
    portal.tool(
        "edit_file",
        title="text that is not there",
        outcome="error",
        path="analysis.py",
        edits=[{"find": "Longer flipers", "replace": "Long flippers"}],
    )
    portal.tool(
        "edit_file",
        title="the chart's title",
        path="analysis.py",
        edits=[{"find": "Longer flippers, heavier birds", "replace": "Flipper length and body mass"}],
    )

    console.print("\n[dim]It asks the documents and follows a skill.[/]")
    hits = portal.tool("search_docs", query="how were flippers measured?")["structured"]["passages"]
    _expect("ruler" in hits[0]["excerpt"], f"found {hits}")
    portal.tool("load_skill", name="house-style")
    styled = portal.tool(
        "run_code",
        title="the skill's script",
        language="shell",
        code="python3 skills/house-style/scripts/numbers.py 1388475; ls inputs/passages",
        skills=["house-style"],
        passages=[uploaded["document"]["id"]],
    )
    _expect("1\u202f388\u202f475" in styled["content"][0]["text"], f"printed {styled['content'][0]['text'][:200]}")
    portal.tool("run_javascript", code="[5076, 3700.7].map(Math.round).join(' and ')")

    console.print("\n[dim]Code in the sandbox: no network, no credentials, the workspace and nothing else.[/]")
    ran = portal.tool("run_code", code="import runpy; runpy.run_path('workspace/analysis.py')", timeoutSeconds=60)
    _expect(ran["structured"]["created"] == ["chart.png", "report.html"], f"created {ran['structured']['created']}")
    printed = textwrap.indent(ran["structured"]["stdout"], "    ").rstrip()
    console.print(f"[dim]{escape(printed)}[/]", highlight=False, no_wrap=True, overflow="ellipsis")
    portal.tool(
        "run_code",
        title="a way out",
        outcome="error",
        code="import urllib.request; urllib.request.urlopen('http://169.254.169.254/', timeout=3)",
    )
    picture = portal.tool("read_file", title="chart.png", path="chart.png")
    _expect(any(part["type"] == "image" for part in picture["content"]), "read_file sent no picture")

    console.print("\n[dim]The report is edited, not written again, and handed over.[/]")
    found = portal.tool("search_files", queries=["<h1>Draft</h1>"], path="report.html")
    line = found["structured"]["matches"][0]["line"]
    portal.tool(
        "edit_file",
        title="one line of report.html",
        path="report.html",
        edits=[
            {"startLine": line, "anchor": "<h1>Draft</h1>", "content": "<h1>Penguins of the Palmer Archipelago</h1>"}
        ],
    )
    portal.tool("calculate", expressions=["5076.0 / 3700.7", "round(123 + 151 + 68, 0)"])
    portal.tool("export_artifact", path="report.html")
    portal.tool("export_artifact", path="chart.png")
    portal.tool(
        "export_artifact",
        title="text of its own",
        name="summary.md",
        mediaType="text/markdown",
        content="Gentoo penguins are the heaviest of the three species.\n",
    )
    finished = portal.route(
        "finish the turn",
        "POST",
        f"/v1/turns/{portal.turn}/finish",
        {"outcome": "completed", "text": "Here is your report on the penguins."},
    )
    files = [part for part in finished["reply"]["parts"] if part["type"] == "file"]
    _expect([part["name"] for part in files] == ["report.html", "chart.png", "summary.md"], f"attached {files}")
    OUT.mkdir(exist_ok=True)
    for part in files:
        content = portal.route(
            f"download {part['name']}",
            "GET",
            f"/v1/artifacts/{quote(part['artifact'])}/versions/{part['version']}/content",
        )
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        _expect(len(data) == part["bytes"], f"{part['name']} has {len(data)} bytes, not {part['bytes']}")
        (OUT / part["name"]).write_bytes(data)
    _expect(b"Palmer Archipelago" in (OUT / "report.html").read_bytes(), "the edit is missing from the report")
    trace = portal.route("the turn's trace", "GET", f"/v1/turns/{portal.turn}/trace")
    _expect(len(trace["steps"]) == portal.calls, f"{len(trace['steps'])} steps, {portal.calls} calls")
    versions = portal.route("the workspace's history", "GET", f"/v1/conversations/{conversation}/versions")
    _expect(versions["versions"][0]["tool"] == "edit_file", str(versions["versions"][0]))

    console.print("\n[dim]The conversation ends.[/]")
    portal.route("delete the conversation", "DELETE", f"/v1/conversations/{conversation}", expect=202)
    portal.route("its files are refused", "GET", f"/v1/conversations/{conversation}/files", expect=409)


def _zipped(folder: Path) -> bytes:
    """A skill's folder as the bundle that is pushed."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as bundle:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                bundle.write(file, file.relative_to(folder))
    return stream.getvalue()


def _check_gone(system: LocalSystem, console: Console) -> None:
    """The workspace's objects must all be gone once the deletion workflow has ended."""
    deadline = time.monotonic() + 30
    settings, clients = system.runtime.settings, system.runtime.clients
    running = {"stateMachineArn": settings.delete_state_machine, "statusFilter": "RUNNING"}
    while clients.stepfunctions.list_executions(**running)["executions"]:
        _expect(time.monotonic() < deadline, "the deletion does not end")
        time.sleep(0.05)
    listed = clients.s3.list_objects_v2(Bucket=settings.workspace_bucket, Prefix="conversations/demo/")
    _expect(not listed.get("KeyCount"), f"{listed.get('KeyCount')} objects of the workspace are still there")
    console.print("[green]the workspace is gone[/]: no object is left under it", highlight=False)


def _expect(condition: bool, otherwise: str) -> None:
    if not condition:
        raise Surprise(otherwise)


if __name__ == "__main__":
    sys.exit(main())
