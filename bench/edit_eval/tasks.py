"""The recorded tasks: a file, one line of it to change, and the very bytes that must come of it.

Two sets, counted apart so that each stays comparable from one measurement to the next: changes of text
(``edit_file.replace``) and changes of nothing but white space (``edit_file.whitespace``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Kind = Literal["edit_file.replace", "edit_file.whitespace"]
REPLACE: Kind = "edit_file.replace"
WHITESPACE: Kind = "edit_file.whitespace"
TRIES = 3


@dataclass(frozen=True)
class Task:
    """Line ``number`` (from 1) of ``path`` shall read ``new``; ``lines`` are the file's, joined by ``ending``."""

    name: str
    kind: Kind
    path: str
    ask: str
    lines: tuple[str, ...]
    number: int
    new: str
    ending: str = "\n"
    final_newline: bool = True
    mark: bytes = b""

    @property
    def old(self) -> str:
        return self.lines[self.number - 1]

    @property
    def before(self) -> bytes:
        return self._bytes(self.lines)

    @property
    def after(self) -> bytes:
        return self._bytes((*self.lines[: self.number - 1], self.new, *self.lines[self.number :]))

    def _bytes(self, lines: tuple[str, ...]) -> bytes:
        text = self.ending.join(lines) + (self.ending if self.final_newline else "")
        return self.mark + text.encode()

    def pushed_down(self, above: tuple[str, ...]) -> Task:
        """The task as it stands once somebody else has put ``above`` at the top of the file."""
        return replace(self, lines=(*above, *self.lines), number=self.number + len(above))


def _task(
    name: str, kind: Kind, path: str, ask: str, text: str, number: int, new: str, ending: str = "\n", **more: object
) -> Task:
    return Task(name, kind, path, ask, tuple(text.strip("\n").split("\n")), number, new, ending, **more)  # type: ignore[arg-type]


TASKS: tuple[Task, ...] = (
    _task(
        "nested return",
        REPLACE,
        "geometry.py",
        "Make `area` return 10 for a unit square instead of 1.",
        '''
import math


class Square:
    """A unit square."""

    def area(self):
        # sides of  length one
        return 1

    def perimeter(self):
        return 4
''',
        9,
        "        return 10",
    ),
    _task(
        "the second of two equal lines",
        REPLACE,
        "deploy.yaml",
        "Let the worker run 5 replicas. The web service keeps its 2.",
        """
services:
  web:
    image: "portal:1.4"
    replicas: 2
  worker:
    image: "worker:1.4"
    replicas: 2
    # nightly
volumes: []
""",
        7,
        "    replicas: 5",
    ),
    _task(
        "a value in JSON",
        REPLACE,
        "config.json",
        "Change the port to 9090.",
        """
{
  "host": "localhost",
  "port": 8080,
  "tags": ["a",  "b"]
}
""",
        3,
        '  "port": 9090,',
    ),
    _task(
        "a row of a table",
        REPLACE,
        "prices.md",
        "The pear now costs 1.20.",
        """
# Prices

| fruit | price |
|-------|-------|
| apple |  0.80 |
| pear  |  1.10 |
| plum  |  0.30 |
""",
        6,
        "| pear  |  1.20 |",
    ),
    _task(
        "a recipe with a tab",
        REPLACE,
        "Makefile",
        "Let `all` print bye instead of hi.",
        "all:\n\techo hi\n\ttouch  done\nclean:\n\trm -f done\n",
        2,
        "\techo bye",
    ),
    _task(
        "a setting in a CRLF file",
        REPLACE,
        "server.ini",
        "Set the timeout to 60.",
        """
[server]
name = portal
timeout = 30
retries  = 3

[client]
timeout = 10
""",
        3,
        "timeout = 60",
        "\r\n",
    ),
    _task(
        "an indented line in a CRLF file",
        REPLACE,
        "jobs.py",
        "Allow 5 retries instead of 3.",
        """
class Job:
    name = "import"
    retries = 3
    queue   = "slow"

    def run(self):
        return self.retries
""",
        3,
        "    retries = 5",
        "\r\n",
    ),
    _task(
        "the last line, which has no newline",
        REPLACE,
        "totals.csv",
        "The total of c is 4.",
        "name,total\na,1\nb, 2\nc,3",
        4,
        "c,4",
        final_newline=False,
    ),
    _task(
        "a sentence with curly quotes",
        REPLACE,
        "notes.txt",
        "Write “keep calm” instead of “don’t panic” in the note on travel.",
        """
Notes
=====
On towels:  bring one.
On travel: don’t panic.
On tea: as  ever.
""",
        4,
        "On travel: keep calm.",
        mark=b"\xef\xbb\xbf",
    ),
    _task(
        "deep inside a callback",
        REPLACE,
        "app.js",
        'Log "ready" instead of "start" when the server listens.',
        """
export function boot(server) {
  server.on("error", (error) => {
    console.error(error);
  });
  server.on("listening", () => {
    if (server.verbose) {
      console.log("start");
      console.log( "port", server.port );
    }
  });
}
""",
        7,
        '      console.log("ready");',
    ),
    _task(
        "one level deeper",
        WHITESPACE,
        "loop.py",
        "Line 4 belongs into the loop: indent it one level deeper. Change nothing else.",
        """
def total(rows):
    sum = 0
    for row in rows:
    sum += row.value
    return sum
""",
        4,
        "        sum += row.value",
    ),
    _task(
        "one level up",
        WHITESPACE,
        "search.py",
        "The last return is one level too deep: move it out of the loop. Change nothing else.",
        """
def first(rows, wanted):
    for row in rows:
        if row.name == wanted:
            return row
        return None
""",
        5,
        "    return None",
        "\r\n",
    ),
    _task(
        "a tab for spaces",
        WHITESPACE,
        "Makefile",
        "Line 5 is indented with spaces; make needs one tab there. Change nothing else.",
        "all: build\n\techo done\n\nbuild:\n    cc -o app app.c\n\tstrip app\n",
        5,
        "\tcc -o app app.c",
    ),
    _task(
        "blanks at the end",
        WHITESPACE,
        "list.ini",
        "Remove the blanks at the end of line 2. Change nothing else.",
        "[list]\nfirst = yes   \nsecond = no\n",
        2,
        "first = yes",
        "\r\n",
    ),
)  # fmt: skip
