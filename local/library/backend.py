"""The backend itself: the file tools and execute over one directory, for Python code, for frameworks and for models."""

from __future__ import annotations

import errno
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from local.library import finding
from local.library.applying import writing
from local.library.commands import Options, execute, prepare
from local.library.desk import DirectoryDesk, Memory, change, look
from local.library.directory import Directory, Top
from sandbox_container.job import LONGEST_SECONDS
from workbench.clock import SystemClock
from workbench.errors import ToolError
from workbench.settings import MIB, Settings
from workbench.tools.answer import Answer
from workbench.workspace import changing, editing, looking
from workbench.workspace.file_arguments import Edit, FileToWrite, PathRange, read_requests
from workbench.workspace.paths import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_TIMEOUT_MS = 30_000
DEFAULT_MAX_BUFFER = 4 * MIB
DEFAULT_MAX_OUTPUT_CHARS = 12_000
TOOL_NAMES = ("ls", "read_file", "write_file", "edit_file", "delete_file", "glob", "grep", "execute")
# What the sandbox's tail and this process keep in memory of a command's output.
LARGEST_BUFFER = 64 * MIB
# Faults of the machine that may be over a little later.
_PASSING = {errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR, errno.EAGAIN}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

T = TypeVar("T")


def create_sandbox_backend(
    root: str | os.PathLike[str],
    timeout_ms: int = DEFAULT_TIMEOUT_MS,
    max_buffer: int = DEFAULT_MAX_BUFFER,
    max_output_chars: int = DEFAULT_MAX_OUTPUT_CHARS,
    env: Mapping[str, str] | None = None,
    *,
    settings: Settings | None = None,
    tools: Sequence[str] | None = None,
    vision: bool = False,
    unsafe: bool = False,
) -> SandboxBackend:
    """File tools and a sandboxed shell over the directory ``root``, which is made when it is missing.

    Args:
        root: The directory. Nothing outside of it can be read or changed.
        timeout_ms: Milliseconds after which a command and all that it started are killed; at most 900,000.
        max_buffer: Bytes that a command may print before it is killed; at most 64 MiB.
        max_output_chars: Characters of output that an answer shows; longer output goes to a spill file in the root.
        env: Variables for commands, beside PATH, HOME, LANG, LC_ALL, TZ, TERM and NO_COLOR. Nothing is inherited.
        settings: Limits other than the product's: files and bytes in all, bytes of a written file, memory, …
        tools: Names of the tools that the model is offered, which answers may name; all when left out.
        vision: The model can look at pictures, so read_file gives them.
        unsafe: Run commands without a boundary where this machine cannot give one. Never for code you do not trust.

    Raises ValueError for values that cannot be meant, and FileExistsError where a file stands at ``root``.
    """
    _refuse_unless(0 < timeout_ms <= LONGEST_SECONDS * 1000, f"timeout_ms must be 1 to {LONGEST_SECONDS * 1000}")
    _refuse_unless(0 < max_buffer <= LARGEST_BUFFER, f"max_buffer must be 1 to {LARGEST_BUFFER}")
    _refuse_unless(0 < max_output_chars <= LARGEST_BUFFER, f"max_output_chars must be 1 to {LARGEST_BUFFER}")
    environment = dict(env or {})
    for name, value in environment.items():
        _refuse_unless(isinstance(name, str) and _NAME.match(name) is not None, f"env: {name!r} is no variable's name")
        _refuse_unless(isinstance(value, str) and "\0" not in value, f"env: the value of {name} must be text")
    offered = tuple(TOOL_NAMES if tools is None else tools)
    unknown = [name for name in offered if name not in TOOL_NAMES]
    _refuse_unless(not unknown, f"tools: there is no {', '.join(unknown)}; there are {', '.join(TOOL_NAMES)}")
    Path(root).mkdir(parents=True, exist_ok=True)
    options = Options(
        timeout_ms / 1000,
        max_buffer,
        max_output_chars,
        environment,
        settings or Settings.from_environment({}),
        unsafe=unsafe,
    )
    return SandboxBackend(Directory(root, SystemClock()), options, offered, vision=vision)


class SandboxBackend:
    """Made by :func:`create_sandbox_backend`; may be shared by threads.

    Every method gives an :class:`~workbench.tools.answer.Answer` (``text`` for a model, ``structured`` for programs) or
    raises :class:`~workbench.errors.ToolError` with a ``code``, whose message says what to do; nothing has changed
    then, unless the message says so. What a backend's reader has seen of a file is remembered: an edit by line number
    is checked against it.
    """

    def __init__(self, directory: Directory, options: Options, offered: Sequence[str], *, vision: bool) -> None:
        self._directory, self._options, self._vision = directory, options, vision
        self._offered = frozenset(offered)
        self._clock = SystemClock()
        self._memory = Memory()
        self._guard = threading.RLock()
        with _faults_in_words(), writing(directory):
            pass  # what a crash left is put right now, not at the first write

    @property
    def root(self) -> str:
        """The directory's resolved path."""
        return str(self._directory.path)

    # ------------------------------------------------------------ the tools

    def ls(self, path: str | None = None, depth: int = 1, after: str | None = None) -> Answer:
        """What a folder holds, ``depth`` levels down."""
        return self._looking(lambda top: finding.ls(top, path, depth, after))

    def read_file(
        self,
        path: str | None = None,
        start_line: int | None = None,
        end_line: int | None = None,
        *,
        paths: Sequence[str | PathRange] | None = None,
    ) -> Answer:
        """Numbered lines of a file, or of up to 10 with ``paths``."""
        requests = read_requests(path, None if paths is None else list(paths), start_line, end_line)
        return self._looking(lambda top: look(self._desk(top), lambda desk: looking.read(desk, requests)))

    def write_file(
        self, path: str | None = None, content: str | None = None, *, files: Sequence[FileToWrite] | None = None
    ) -> Answer:
        """Create a file, or replace a short one; up to three with ``files``, all or none."""
        if (path is None and content is None) == (files is None):
            raise ToolError("Give either path and content, or files. Nothing was written.", code="invalid_args")
        if files is None:
            if path is None or content is None:
                missing = "path is missing: say where" if path is None else "content is missing: say what"
                raise ToolError(f"{missing} to write. Nothing was written.", code="invalid_args")
            files = [FileToWrite(path=path, content=content)]
        batch = list(files)
        return self._changing(lambda desk: changing.write(desk, batch))

    def edit_file(
        self, path: str, edits: Sequence[Edit | Mapping[str, Any]] | None = None, append: str | None = None
    ) -> Answer:
        """Change part of a text file, by exact text or by line, or append to it.

        An edit may be given as its object: ``{"find": …, "replace": …}`` or ``{"startLine": …, "content": …}``.
        """
        wanted = None if edits is None else _edits(edits)
        return self._changing(lambda desk: editing.edit(desk, path, wanted, append))

    def delete_file(self, path: str, *, recursive: bool = False) -> Answer:
        """Delete a file or, with ``recursive``, a folder and everything in it."""
        return self._changing(lambda desk: changing.delete(desk, path, recursive=recursive))

    def glob(self, pattern: str, path: str | None = None, after: str | None = None) -> Answer:
        """Files whose paths match ``*``, ``?`` and ``**``."""
        return self._looking(lambda top: finding.glob(top, pattern, path, after))

    def grep(
        self, query: str, glob: str | None = None, path: str | None = None, *, ignore_case: bool = False
    ) -> Answer:
        """Lines that hold the literal text ``query``, as ``path:line: text``; at most 50."""
        memory, settings, clock = self._memory, self._options.settings, self._clock
        return self._looking(
            lambda top: finding.grep(top, query, glob, path, memory, settings, clock, ignore_case=ignore_case)
        )

    def execute(self, command: str) -> Answer:
        """Run ``sh -c command`` in the root, in a sandbox; see :func:`local.library.commands.execute`."""
        with _faults_in_words():
            return execute(self._directory, command, self._options)

    def prepare(self) -> None:
        """Do ahead what the first command waits for. Raises ToolError ``SANDBOX_UNAVAILABLE`` where none can run."""
        prepare(self._options)

    # ------------------------------------------------------------ for models

    def tools(self) -> list[Callable[..., str]]:
        """The offered tools as plain typed functions with docstrings, for frameworks that publish those.

        They give text. A refusal comes back as its text too, so that the model can act on it.
        """
        from local.library.tools import functions_of

        return functions_of(self, self._offered, self._options.settings)

    def schemas(self, format: str = "openai") -> list[dict[str, Any]]:
        """The offered tools as a model's API takes them.

        ``format`` is ``openai``, ``anthropic``, ``bedrock``, ``mcp`` or ``workbench``; raises KeyError for another.
        """
        from local.library.tools import published

        return published(format, self._offered, self._options.settings, vision=self._vision)

    def call(self, name: str, arguments: object) -> dict[str, Any]:
        """A model's call: ``{"outcome", "content", "structured", "error", "conversions"}``, and never an exception.

        ``arguments`` is an object or a JSON string of one; what a model writes almost right is converted, and reported.
        """
        from local.library.tools import called

        return called(self, self._offered, name, arguments)

    # ------------------------------------------------------------ one call

    def _looking(self, work: Callable[[Top], Answer]) -> Answer:
        with _faults_in_words(), self._guard, self._directory.opened() as top:
            return work(top)

    def _changing(self, work: Callable[[DirectoryDesk], Answer]) -> Answer:
        with _faults_in_words(), self._guard, writing(self._directory) as top:
            return change(self._desk(top), work, self._memory)

    def _desk(self, top: Top) -> DirectoryDesk:
        settings, clock = self._options.settings, self._clock
        return DirectoryDesk(top, self._memory, settings, clock, self._offered, vision=self._vision)


@contextmanager
def _faults_in_words() -> Iterator[None]:
    """What the machine refuses, as a refusal that a model can read."""
    try:
        yield
    except OSError as error:
        name = printable(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else "the directory"
        why = error.strerror or str(error)
        if error.errno == errno.ENOTEMPTY:
            why += ": what it holds besides, such as a link, is not for these tools"
        raise ToolError(
            f"The machine refused it at `{name}`: {why}. Nothing was changed.",
            code="internal" if error.errno in _PASSING else "not_allowed",
        ) from error


def _edits(given: Sequence[Edit | Mapping[str, Any]]) -> list[Edit]:
    plain = [one.model_dump(by_alias=True, exclude_none=True) if isinstance(one, Edit) else dict(one) for one in given]
    from local.library.tools import TOOLS

    checked: list[Edit] = TOOLS["edit_file"].bind({"path": "x", "edits": plain}).values["edits"]
    return checked


def _refuse_unless(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
