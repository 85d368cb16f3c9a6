"""What the self-check makes of what was found: every fact can fail, and only those of another machine are excused."""

from __future__ import annotations

import ast
import copy
import sys
from pathlib import Path
from typing import Any

import pytest

from workbench.selfcheck import facts, program
from workbench.selfcheck.reach import CHECKED_CONVERSATION, REACH, reach_of

# As a deployed sandbox answers when everything is as it must be.
PROGRAM: dict[str, Any] = {
    "identity": {
        "users": [20000],
        "groups": [20000],
        "capabilities": {"CapInh": 0, "CapPrm": 0, "CapEff": 0, "CapAmb": 0},
        "noNewPrivileges": "1",
        "seccomp": "2",
        "becomeRoot": ["EPERM", "EPERM", "EPERM"],
    },
    "network": {
        "families": ["EAFNOSUPPORT"],
        "opened": [],
        "addresses": {f"{host}:{port}": "EAFNOSUPPORT" for host, port in program.ADDRESSES},
        "names": dict.fromkeys(program.NAMES, "no answer"),
        "pairs": ["EAFNOSUPPORT", "EAFNOSUPPORT"],
        "ownPair": "ok",
        "connect": "EPERM",
        "ring": "EPERM",
    },
    "environment": {"suspicious": [], "names": ["HOME", "PATH"]},
    "files": {
        "outside": [],
        "inside": list(program.INSIDE),
        "readOnlyRoot": True,
        "mounts": {"/sandbox": ["tmpfs", "nosuid", "nodev"], "/tmp": ["tmpfs", "nosuid", "nodev"]},
        "device": "EPERM",
        "descriptors": [],
    },
    "others": {"read": [], "signalled": [], "traced": []},
    "kernel": {"unshare": "EPERM", "mount": "EPERM", "clone3": "ENOSYS"},
    "limits": {"core": 0, "processes": 128, "files": 1024, "memory": 2**31, "fileBytes": 2**27, "seconds": 130},
    "working": {"missing": [], "node": "42", "shell": "42", "python": "3.13", "machine": "x86_64"},
}
SUPERVISOR: dict[str, Any] = {
    "uid": 20000,
    "boundary": "user",
    "seccomp": 2,
    "credentials": [],
    "reach": {
        **dict.fromkeys(REACH["addresses"], "no answer"),
        **dict.fromkeys(REACH["names"], "not found"),
    },
}
# Where, and what is found there instead. Those of the second list are excused on a developer's machine.
BROKEN: list[tuple[str, Any]] = [
    ("identity.users", [0]),
    ("identity.users", [20000, 0]),
    ("identity.capabilities", {"CapInh": 0, "CapPrm": 0, "CapEff": 32, "CapAmb": 0}),
    ("identity.capabilities", {}),
    ("identity.noNewPrivileges", "0"),
    ("identity.seccomp", "0"),
    ("identity.becomeRoot", ["EPERM", "ok", "EPERM"]),
    ("network.families", ["EAFNOSUPPORT", "EPERM"]),
    ("network.opened", ["1/1"]),
    ("network.addresses", {"169.254.170.2:80": "ok"}),
    ("network.addresses", {"169.254.170.2:80": "ETIMEDOUT"}),
    ("network.addresses", {}),
    ("network.names", {"example.com": "ok"}),
    ("network.pairs", ["ok", "EAFNOSUPPORT"]),
    ("network.ownPair", "EPERM"),
    ("network.connect", "EBADF"),
    ("network.ring", "ok"),
    ("environment.suspicious", ["AWS_SESSION_TOKEN"]),
    ("files.outside", ["/usr"]),
    ("files.inside", ["workspace"]),
    ("files.device", "ok"),
    ("files.descriptors", [7]),
    ("others.read", [1]),
    ("others.signalled", [1]),
    ("others.traced", [1]),
    ("kernel", {"unshare": "ok"}),
    ("kernel", {}),
    ("limits.memory", -1),
    ("limits.core", 1024),
    ("working.missing", ["pandas"]),
    ("working.node", "FileNotFoundError"),
    ("working.shell", ""),
    ("supervisor.seccomp", 0),
    ("supervisor.credentials", ["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"]),
    ("supervisor.uid", 20001),
]
EXCUSED: list[tuple[str, Any]] = [
    ("identity.users", [200000]),
    ("identity.groups", [200000]),
    ("files.readOnlyRoot", False),
    ("files.mounts", {"/sandbox": ["ext4"], "/tmp": []}),
    ("working.python", "3.11"),
    ("working.machine", "aarch64"),
    ("supervisor.boundary", "namespace"),
    ("supervisor.reach", {**SUPERVISOR["reach"], "1.1.1.1:443": "connected"}),
    ("supervisor.reach", {**SUPERVISOR["reach"], "169.254.169.254:80": "ECONNREFUSED"}),
    ("supervisor.reach", {**SUPERVISOR["reach"], "example.com": "found"}),
    ("supervisor.reach", {"1.1.1.1:443": "no answer"}),
]


def wrong(where: str, value: Any, *, local: bool = False) -> list[str]:
    """The facts that fail when one thing is found otherwise."""
    found = copy.deepcopy({**PROGRAM, "supervisor": SUPERVISOR})
    *path, last = where.split(".")
    holder = found
    for key in path:
        holder = holder[key]
    if value is None:
        del holder[last]
    else:
        holder[last] = value
    judged = facts.judge(found, found.pop("supervisor"), local=local)
    return [fact.fact for fact in facts.failed(judged)]


def test_a_sandbox_as_it_must_be_passes() -> None:
    judged = facts.judge(PROGRAM, SUPERVISOR, local=False)
    assert facts.failed(judged) == []
    assert not any(fact.note for fact in judged)
    assert len({fact.fact for fact in judged}) == len(judged)


@pytest.mark.parametrize(("where", "value"), BROKEN + EXCUSED)
def test_whatever_is_otherwise_fails(where: str, value: Any) -> None:
    assert wrong(where, value)


@pytest.mark.parametrize(("where", "value"), BROKEN)
def test_a_guard_is_excused_nowhere(where: str, value: Any) -> None:
    assert wrong(where, value, local=True)


def test_what_is_another_machine_s_is_excused_there_and_says_so() -> None:
    for where, value in EXCUSED[2:]:
        assert wrong(where, value, local=True) == []
    user = {**PROGRAM, "identity": {**PROGRAM["identity"], "users": [200000], "groups": [200000]}}
    judged = facts.judge(user, {**SUPERVISOR, "uid": 200000}, local=True)
    assert facts.failed(judged) == []
    assert [fact.note != "" for fact in judged].count(True) == 2


# Kernel calls and limits are judged together; those of the environment are for reading.
JUDGED_WHOLE = ("kernel", "limits", "environment")
PLACES = [
    *PROGRAM,
    "environment.suspicious",
    "limits.core",
    *(f"{part}.{name}" for part in PROGRAM if part not in JUDGED_WHOLE for name in PROGRAM[part]),
]


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("local", [True, False])
def test_what_was_not_found_at_all_is_no_pass(where: str, local: bool) -> None:
    assert wrong(where, None, local=local)


@pytest.mark.parametrize("where", list(SUPERVISOR))
def test_a_self_report_without_something_is_no_pass(where: str) -> None:
    assert wrong(f"supervisor.{where}", None, local=True)


@pytest.mark.parametrize("said", [{}, {"identity": []}, {"network": "text", "files": None, "kernel": "EPERM"}])
def test_a_program_that_says_something_else_fails_every_fact(said: dict[str, Any]) -> None:
    assert [fact.fact for fact in facts.judge(said, {}, local=True) if fact.ok] == []


# As the function that evaluates JavaScript answers.
ATTEMPTS: dict[str, Any] = {
    "user": 993,
    "groups": [],
    "open": "EMFILE",
    "socket": "EMFILE",
    "datagram": "EMFILE",
    "pipe": "EMFILE",
    "copy": "EINVAL",
    "fork": "EAGAIN",
    "thread": "RuntimeError",
    "memory": "ENOMEM",
    "write": "EFBIG",
    "root": "EPERM",
    "signal": "ok",
    "trace": "EPERM",
    "read": "EPERM",
    "raise": ["ValueError"] * 3,
    "core": 0,
    "seconds": 4,
    "environment": ["LC_CTYPE", "TZ"],
    "reuse": "EMFILE",
}


def test_where_javascript_is_evaluated_everything_is_refused() -> None:
    assert facts.failed(facts.judge_javascript(ATTEMPTS)) == []


@pytest.mark.parametrize(
    ("what", "found"),
    [
        *((name, "ok") for name in facts._NOT_HAD),
        *((name, None) for name in facts._NOT_HAD),
        *[
            ("trace", "ok"),
            ("trace", None),
            ("read", "ok"),
            ("raise", ["ValueError", "ok", "ValueError"]),
            ("raise", []),
        ],
        *[("user", 0), ("user", None), ("environment", ["AWS_SESSION_TOKEN", "TZ"]), ("environment", None)],
    ],
)
def test_whatever_can_be_had_there_fails(what: str, found: Any) -> None:
    assert facts.failed(facts.judge_javascript({**ATTEMPTS, what: found}))


def test_a_function_that_answers_nothing_fails_every_fact() -> None:
    assert [fact.fact for fact in facts.judge_javascript({}) if fact.ok] == []


def test_the_program_needs_nothing_but_the_standard_library() -> None:
    tree = ast.parse(Path(program.__file__).read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names


def test_only_the_check_s_own_runs_look_around() -> None:
    assert reach_of(f"{CHECKED_CONVERSATION}abc") == dict(REACH)
    assert reach_of("c1") == {} == reach_of(f"my-{CHECKED_CONVERSATION}")
