"""Edits of a real kind: the changes of a git history, made here from real source text, replayed through the engine."""

import argparse
import os
import random
import re
import subprocess
import textwrap
from itertools import pairwise
from pathlib import Path

import pytest

from workbench.workspace.text.edit import EDITS, FindEdit, LineEdit, apply_edits
from workbench.workspace.text.lines import parse
from workbench.workspace.text.seen import Sight, shift

COMMITS = 25
HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", re.MULTILINE)
SOURCES = {
    "lf": (argparse, "\n", True),
    "crlf": (argparse, "\r\n", True),
    "unterminated": (textwrap, "\n", False),
    "unterminated crlf": (textwrap, "\r\n", False),
}


def git(folder, *arguments):
    identity = {f"GIT_{who}_{what}": "test@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    isolated = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    command = ["git", "-C", str(folder), "-c", "core.autocrlf=false", *arguments]
    return subprocess.run(command, check=True, capture_output=True, env={**os.environ, **identity, **isolated}).stdout


def worked_on(lines, chance):
    """What a day's work does to a file: lines changed, moved, deleted, added, indented, in a few places."""
    lines = list(lines)
    for _ in range(chance.randint(1, 8)):
        at, length = chance.randrange(1, len(lines) - 12), chance.randint(1, 10)
        kind = chance.choice(["change", "delete", "add", "move", "indent", "repeat"])
        block = lines[at : at + length]
        if kind == "change":
            lines[at] = re.sub(r"\w+", lambda word: chance.choice([word[0], "naïve", "x", "→"]), lines[at]) + "!"
        elif kind == "delete":
            del lines[at : at + length]
        elif kind == "add":
            lines[at:at] = [f"    # {number} {chance.choice(block)}" for number in range(length)]
        elif kind == "move":
            del lines[at : at + length]
            to = chance.randrange(1, len(lines) - 1)
            lines[to:to] = block
        elif kind == "indent":
            lines[at : at + length] = [f"\t{line}" for line in block]
        else:
            lines[at:at] = block
    return lines


@pytest.fixture(scope="module", params=SOURCES)
def history(request, tmp_path_factory):
    """[(old bytes, new bytes, diff without context)] of a file's commits."""
    module, ending, terminated = SOURCES[request.param]
    folder = tmp_path_factory.mktemp("history")
    chance = random.Random(request.param)
    lines = Path(module.__file__).read_text(encoding="utf-8").split("\n")[:-1]
    git(folder, "init", "-q")
    for _ in range(COMMITS + 1):
        (folder / "file").write_bytes((ending.join(lines) + ending * terminated).encode())
        git(folder, "add", "file")
        git(folder, "commit", "-q", "--allow-empty", "-m", "work")
        lines = worked_on(lines, chance)
    commits = git(folder, "rev-list", "--reverse", "HEAD").decode().split()
    files = [git(folder, "show", f"{commit}:file") for commit in commits]
    diffs = [git(folder, "diff", "-U0", one, other, "--", "file") for one, other in pairwise(commits)]
    return [(*pair, diff) for pair, diff in zip(pairwise(files), diffs, strict=True) if diff]


def changes(diff):
    """[(first old line, how many, first new line, how many)]; an insertion stands after its first old line."""
    for found in HUNK.finditer(diff):
        old, old_count, new, new_count = (int(part) if part else 1 for part in found.groups())
        yield old, old_count, new, new_count


def text_of(document, first, count):
    return "".join(f"{text}\n" for text in document.lines(first, first + count - 1))


def test_a_history_replayed_by_line_gives_the_same_bytes(history):
    for old, new, diff in history:
        before, after = parse(old), parse(new)
        edits = []
        for first, count, new_first, new_count in changes(diff):
            content = text_of(after, new_first, new_count)
            if count == 0:  # an insertion replaces the line before it by itself and the new lines
                content, count = text_of(before, first, 1) + content, 1
            anchor, end_anchor = before.text(first), before.text(first + count - 1)
            edits.append(LineEdit(first, first + count - 1, anchor, end_anchor, content))
        assert 0 < len(edits) <= EDITS
        sight = Sight("now", ((1, len(before)),))
        result = apply_edits("file", old, edits[::-1], sight, "now", lambda blob: None)
        assert result.data == new
        assert result.moved == len(after) - len(before)
        assert shift(sight.ranges, result.spans) == ((1, len(after)),)


def test_a_history_replayed_by_text_gives_the_same_bytes(history):
    for old, new, diff in history:
        before, after = parse(old), parse(new)
        edits = []
        for first, count, new_first, new_count in changes(diff):
            if count == 0:
                new_first, new_count, count = new_first - 1, new_count + 1, 1
            elif new_count == 0:  # what follows tells apart the many places where a deleted text could stand
                new_first, first, count, new_count = new_first, first - 1, count + 1, 1
            # Without the last break: a last line may have none.
            find, replace = text_of(before, first, count)[:-1], text_of(after, new_first, new_count)[:-1]
            if first > 1:  # whole lines, so that a line that holds more than this text does not count
                find, replace, first = f"\n{find}", f"\n{replace}", first - 1
            edits.append(FindEdit(find, replace, first))
        result = apply_edits("file", old, edits, None, "now", lambda blob: None)
        assert result.data == new
        assert result.moved == len(after) - len(before)


def test_a_history_is_worth_replaying(history):
    assert len(history) > COMMITS // 2
    assert sum(len(list(changes(diff))) for _, _, diff in history) > COMMITS
