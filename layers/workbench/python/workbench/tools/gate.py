"""How risky a call is, and whether it may go on, must be approved first, or is refused.

Pure rules. A call is rated as the commands it amounts to (``edit_file replace notes/plan.md``); approvals are kept as
patterns of such commands (``edit_file replace notes/*``). Workspace paths hold no backslash and no control character,
so ``\\*`` stands for a star of the name itself, and lines separate the patterns of a call that touches several files.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from workbench.tools.contract import Risk, Tool

Decision = Literal["proceed", "ask", "refuse"]
LEVELS = ("low", "moderate", "high", "dangerous", "never")

_CREDENTIAL_NAMES = re.compile(
    r"""
    \.env | \.env\.(?!example\Z).* | .*\.pem | .*\.key | .*\.p12 | .*\.pfx | .*\.jks | .*\.keystore
    | id_rsa | id_dsa | id_ecdsa | id_ed25519 | \.netrc | _netrc | \.pgpass | \.npmrc | \.pypirc | \.htpasswd
    | \.git-credentials
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_CREDENTIAL_FILES = re.compile(r"(?:.*/)?(?:\.aws/credentials|\.docker/config\.json|\.kube/config)", re.I | re.S)
# The folder itself counts too: deleting it deletes what it holds.
_CREDENTIAL_FOLDERS = frozenset({".ssh", ".gnupg"})

_NEVER_IN_A_PATH = re.compile(r"[\x00-\x1f\x7f\\]")

Below = Callable[[str], Iterable[str]]


@dataclass(frozen=True, slots=True)
class Rating:
    """``level`` of the worst command, the ``pattern`` that approving the call would grant, and why.

    ``commands`` are the call's commands with a level each; a grant has to cover every one that is asked about.
    """

    level: Risk
    pattern: str
    reason: str
    commands: tuple[tuple[Risk, str], ...] = ()


# What may raise a rating; see :func:`raised`.
Judge = Callable[[Tool, Rating], Rating]


def unjudged(_tool: Tool, rating: Rating) -> Rating:
    """The rules alone decide."""
    return rating


def holds_credentials(path: str) -> bool:
    """True when a file of this path usually holds keys or passwords, wherever it lies and however it is cased."""
    clean = _clean(path)
    *folders, name = clean.split("/")
    return bool(
        _CREDENTIAL_NAMES.fullmatch(name)
        or _CREDENTIAL_FILES.fullmatch(clean)
        or _CREDENTIAL_FOLDERS & {part.lower() for part in (*folders, name)}
    )


def rate(tool: Tool, values: Mapping[str, Any], below: Below | None = None) -> Rating:
    """Rate a call by its bound arguments; ``below(folder)`` names the files that deleting a folder would delete."""
    if tool.name not in ("write_file", "edit_file", "delete_file", "export_artifact"):
        command = " ".join(filter(None, (tool.name, values.get("language"))))
        reason = "It runs a program." if tool.step == "run" else "By its kind."
        return Rating(tool.risk, _escape(command), reason, ((tool.risk, command),))
    ordinary: Risk = tool.risk if tool.name == "export_artifact" else _higher(tool.risk, "moderate")
    commands: list[tuple[Risk, str]] = []
    patterns: list[tuple[Risk, str]] = []
    secret = ""
    # Looking below a folder costs requests; only a deletion reaches further than the path that it names.
    inside: Below = below if below and values.get("recursive") else lambda _: ()
    for path in _paths(values):
        clean = _clean(path)
        start = f"{tool.name} {_mode(tool, values)} "
        found = clean if holds_credentials(clean) else _first_credential(inside(clean))
        secret = secret or found
        level: Risk = "dangerous" if found else ordinary
        commands.append((level, start + clean))
        patterns.append((level, start + _pattern(clean, exact=bool(found))))
    if not commands:
        return Rating(ordinary, tool.name, "By its kind.", ((ordinary, tool.name),))
    level = max((level for level, _ in commands), key=LEVELS.index)
    pattern = "\n".join(dict.fromkeys(text for rated, text in patterns if rated == level))
    reason = f"{secret} usually holds credentials." if secret else "It changes files of the workspace."
    return Rating(level, pattern, reason if secret or tool.step == "write" else "By its kind.", tuple(commands))


def decide(rating: Rating, ask: str, deny: str, grants: Iterable[str] = ()) -> Decision:
    """Below ``ask`` a call proceeds, from ``deny`` up it is refused, between them a grant or a person decides.

    ``ask`` and ``deny`` are levels or ``never``; ``grants`` are patterns that were approved.
    """
    level = LEVELS.index(rating.level)
    if level >= LEVELS.index(deny):
        return "refuse"
    if level < LEVELS.index(ask):
        return "proceed"
    given = list(grants)
    covered = all(any(_covers(grant, rated, command) for grant in given) for rated, command in _asked(rating, ask))
    return "proceed" if covered else "ask"


def helps(grant: str, rating: Rating, ask: str) -> bool:
    """True when the granted pattern covers a command of the call that is asked about."""
    return any(_covers(grant, rated, command) for rated, command in _asked(rating, ask))


def raised(rating: Rating, level: Risk, reason: str) -> Rating:
    """The call rated ``level`` where that is more than the rules say; never less.

    What is granted then are the very commands: nobody judged the others of their folder.
    """
    if LEVELS.index(level) <= LEVELS.index(rating.level):
        return rating
    commands = tuple((_higher(rated, level), command) for rated, command in rating.commands)
    pattern = "\n".join(dict.fromkeys(_escape(command) for _rated, command in commands))
    return Rating(level, pattern, reason, commands)


def matches(pattern: str, command: str, level: Risk = "low") -> bool:
    """True when ``pattern`` covers ``command``. A star covers the names of one folder, never a dangerous command."""
    parts = re.split(r"(\\\*|\*)", pattern)
    if level == "dangerous" and "*" in parts:
        return False
    expression = "".join("[^/]+" if part == "*" else re.escape(part.replace("\\*", "*")) for part in parts)
    return re.fullmatch(expression, command, re.DOTALL) is not None


def _asked(rating: Rating, ask: str) -> list[tuple[Risk, str]]:
    return [(rated, command) for rated, command in rating.commands if LEVELS.index(rated) >= LEVELS.index(ask)]


def _covers(grant: str, level: Risk, command: str) -> bool:
    return any(matches(pattern, command, level) for pattern in grant.split("\n"))


def _paths(values: Mapping[str, Any]) -> list[str]:
    files = values.get("files") or ()
    return [path for path in (values.get("path"), *(file.path for file in files)) if path]


def _mode(tool: Tool, values: Mapping[str, Any]) -> str:
    if tool.name == "edit_file":
        return "append" if values.get("append") is not None else "replace"
    return tool.name.split("_")[0]


def _clean(path: str) -> str:
    """The path as the workspace will resolve it, so that ``a/../.env`` is rated as ``.env``."""
    # The workspace refuses these characters later; here they must not forge a second line or a star.
    harmless = _NEVER_IN_A_PATH.sub("\N{REPLACEMENT CHARACTER}", unicodedata.normalize("NFC", path))
    return posixpath.normpath(harmless).removeprefix("workspace/")


def _pattern(path: str, exact: bool) -> str:
    folder, slash, _name = path.rpartition("/")
    # At the root a star would cover every file there; the file alone is what the person saw.
    return _escape(path) if exact or not slash else f"{_escape(folder)}/*"


def _escape(text: str) -> str:
    return text.replace("*", "\\*")


def _first_credential(paths: Iterable[str]) -> str:
    return next((path for path in paths if holds_credentials(path)), "")


def _higher(one: Risk, other: Risk) -> Risk:
    return max(one, other, key=LEVELS.index)
