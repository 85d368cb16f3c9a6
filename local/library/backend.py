"""The backend itself: the file tools and execute over one directory, for Python code, for frameworks and for models."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from local.library import finding
from local.library.applying import writing
from local.library.commands import Options, execute
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

    from workbench.tools.contract import Tool

DEFAULT_TIMEOUT_MS = 30_000
DEFAULT_MAX_BUFFER = 4 * MIB
DEFAULT_MAX_OUTPUT_CHARS = 12_000
# What the sandbox's tail and this process keep in memory of a command's output.
LARGEST_BUFFER = 64 * MIB
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
    Path(root).mkdir(parents=True, exist_ok=True)
    options = Options(
        timeout_ms / 1000,
        max_buffer,
        max_output_chars,
        environment,
        settings or Settings.from_environment({}),
        unsafe=unsafe,
    )
    return SandboxBackend(Directory(root, SystemClock()), options, vision=vision)


class SandboxBackend:
    """Made by :func:`create_sandbox_backend`; may be shared by threads.

    Every method gives an :class:`~workbench.tools.answer.Answer` (``text`` for a model, ``structured`` for programs) or
    raises :class:`~workbench.errors.ToolError` with a ``code``, whose message says what to do; nothing has changed
    then, unless the message says so. What a backend's reader has seen of a file is remembered: an edit by line number
    is checked against it.
    """

    def __init__(self, directory: Directory, options: Options, *, vision: bool) -> None:
        self._directory, self._options, self._vision = directory, options, vision
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
            if path is None:
                raise ToolError("path is missing: say where to write. Nothing was written.", code="invalid_args")
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

    # ------------------------------------------------------------ for models

    def tools(self, names: Sequence[str] | None = None) -> list[Callable[..., str]]:
        """The tools as plain typed functions with docstrings, for frameworks that publish those. They give text.

        A refusal comes back as its text too, so that the model can act on it.
        """
        from local.library.tools import functions_of

        return functions_of(self, self._offered(names))

    def schemas(self, format: str = "openai", names: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """The tools as a model's API takes them: ``openai``, ``anthropic``, ``bedrock``, ``mcp`` or ``workbench``.

        Raises KeyError for another format.
        """
        from local.library.tools import published

        return published(format, self._offered(names), self._options.settings, vision=self._vision)

    def call(self, name: str, arguments: object) -> dict[str, Any]:
        """A model's call: ``{"outcome", "content", "structured", "error", "conversions"}``, and never an exception.

        ``arguments`` is an object or a JSON string of one; what a model writes almost right is converted, and reported.
        """
        from local.library.tools import called

        return called(self, name, arguments)

    def _offered(self, names: Sequence[str] | None) -> list[Tool]:
        from local.library.tools import TOOLS

        unknown = [name for name in names or () if name not in TOOLS]
        _refuse_unless(not unknown, f"there is no tool {', '.join(unknown)}; there are {', '.join(TOOLS)}")
        return [tool for name, tool in TOOLS.items() if names is None or name in names]

    # ------------------------------------------------------------ one call

    def _looking(self, work: Callable[[Top], Answer]) -> Answer:
        with _faults_in_words(), self._guard, self._directory.opened() as top:
            return work(top)

    def _changing(self, work: Callable[[DirectoryDesk], Answer]) -> Answer:
        with _faults_in_words(), self._guard, writing(self._directory) as top:
            return change(self._desk(top), work, self._memory)

    def _desk(self, top: Top) -> DirectoryDesk:
        from local.library.tools import TOOLS

        return DirectoryDesk(
            top, self._memory, self._options.settings, self._clock, frozenset(TOOLS), vision=self._vision
        )


@contextmanager
def _faults_in_words() -> Iterator[None]:
    """What the machine refuses, as a refusal that a model can read."""
    try:
        yield
    except OSError as error:
        name = printable(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else "the directory"
        denied = isinstance(error, PermissionError)
        raise ToolError(
            f"The machine refused it at `{name}`: {error.strerror or error}. Nothing was changed.",
            code="not_allowed" if denied else "internal",
        ) from error


def _edits(given: Sequence[Edit | Mapping[str, Any]]) -> list[Edit]:
    plain = [one.model_dump(by_alias=True, exclude_none=True) if isinstance(one, Edit) else dict(one) for one in given]
    from local.library.tools import TOOLS

    checked: list[Edit] = TOOLS["edit_file"].bind({"path": "x", "edits": plain}).values["edits"]
    return checked


def _refuse_unless(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
