"""Patterns over paths: what each wildcard fits, against a naive reference, and hostile ones in bounded time."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.workspace.views.globs import GLOB_CHARACTERS, InvalidGlob, compile_glob


def naive(pattern: list[str], path: list[str]) -> bool:
    if not pattern:
        return not path
    if pattern[0] == "**":
        if len(pattern) == 1:
            return bool(path)
        return any(naive(pattern[1:], path[skip:]) for skip in range(len(path) + 1))
    return bool(path) and naive_name(pattern[0], path[0]) and naive(pattern[1:], path[1:])


def naive_name(pattern: str, name: str) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(naive_name(pattern[1:], name[skip:]) for skip in range(len(name) + 1))
    return bool(name) and pattern[0] in ("?", name[0]) and naive_name(pattern[1:], name[1:])


names = st.text("ab.", min_size=1, max_size=5).filter(lambda name: name not in (".", ".."))
name_patterns = st.text("ab.*?", min_size=1, max_size=6).filter(
    lambda pattern: "**" not in pattern and pattern not in (".", "..")
)
patterns = st.lists(name_patterns | st.just("**"), min_size=1, max_size=5)


@settings(deadline=None)
@given(patterns, st.lists(names, min_size=1, max_size=5))
def test_a_pattern_fits_what_the_naive_reading_of_it_fits(pattern, path):
    assert compile_glob("/".join(pattern)).matches("/".join(path)) == naive(pattern, path)


@pytest.mark.parametrize(
    ("pattern", "fits", "fits_not"),
    [
        ("*.md", ["a.md", ".md"], ["d/a.md", "a.md.txt", "A.MD"]),
        ("**/*.md", ["a.md", "d/a.md", "d/e/a.md"], ["d/a.mdx"]),
        ("docs/**", ["docs/a", "docs/b/c"], ["docs", "docs2/a"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["a/xb", "b"]),
        ("?.txt", ["ü.txt", "🦊.txt"], ["ab.txt", "/.txt"]),
        ("**", ["a", "a/b"], []),
        ("./src/*.py", ["src/a.py"], ["a.py"]),
        ("a[1].{x,y}", ["a[1].{x,y}"], ["a1.x", "a[1].x"]),
        ("%2e%2e/*", ["%2e%2e/a"], ["../a"]),
        ("*", ["one\u2028name"], ["a/b"]),
    ],
)
def test_each_wildcard_fits_what_it_says(pattern, fits, fits_not):
    glob = compile_glob(pattern)
    assert [path for path in fits if not glob.matches(path)] == []
    assert [path for path in fits_not if glob.matches(path)] == []


def test_a_decomposed_pattern_fits_the_composed_name():
    assert compile_glob("U\u0308*.txt").matches("Übersicht.txt")


@pytest.mark.parametrize(
    ("pattern", "suggestion"),
    [
        ("/a/*.md", "a/*.md"),
        ("a\\*.md", "a/*.md"),
        ("docs/", "docs/**"),
        ("a//b", "a/b"),
        ("**.md", "**/*.md"),
        ("src/a**/b", "src/**/a*/b"),
        ("", "**"),
        (".", "**"),
    ],
)
def test_a_bad_pattern_is_refused_with_the_right_one(pattern, suggestion):
    with pytest.raises(InvalidGlob) as refusal:
        compile_glob(pattern)
    assert refusal.value.code == "invalid_path"
    assert refusal.value.details["suggestion"] == suggestion
    assert f"`{suggestion}`" in refusal.value.message
    compile_glob(suggestion)


@pytest.mark.parametrize("pattern", ["../*", "a/../b", "a\0b", "a\nb", "\ud800", "a" * (GLOB_CHARACTERS + 1), 7, None])
def test_a_pattern_nothing_can_fit_is_refused(pattern):
    with pytest.raises(InvalidGlob, match="`pattern`") as refusal:
        compile_glob(pattern, what="pattern")
    refusal.value.message.encode()


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 255 + "b", "a" * 255),
        ("**/a/" * 100 + "b", "a/" * 510 + "c"),
        ("**/*a*a*a*a*b/" * 30 + "c", ("a" * 250 + "/") * 4 + "d"),
        ("?*" * 256, "a" * 255 + "/b"),
    ],
)
def test_a_hostile_pattern_costs_no_more_than_a_long_one(pattern, path):
    # Backtracking over these takes longer than the universe has; the bound is generous to a busy machine.
    started = time.process_time()
    assert not compile_glob(pattern).matches(path)
    assert time.process_time() - started < 2
