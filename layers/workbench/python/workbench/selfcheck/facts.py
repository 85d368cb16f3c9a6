"""What must have come of the program's attempts, and of the supervisor's look at itself: one row per fact. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from workbench.selfcheck.reach import REACH

DENIED = frozenset({"EPERM", "EACCES", "ENOENT", "ENOSYS", "ESRCH", "EROFS", "EAFNOSUPPORT"})
# Where the deployed sandbox differs from one on a developer's machine, which shows other things than the deployment's.
_OTHER_MACHINE = "here it is what this machine has; in AWS it must be as expected"
# Whom a supervisor in a container runs the program as (sandbox_container/Dockerfile).
CONTAINER_USER = 20_000


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact; ``note`` says why one that is not as expected is accepted all the same."""

    fact: str
    expected: str
    found: str
    ok: bool
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Row:
    """``at`` is a path of keys into what was found; ``local`` says why another result is accepted locally."""

    fact: str
    at: tuple[str, ...]
    expected: str
    holds: Callable[[Any], bool]
    local: str = ""


def _is(value: Any) -> Callable[[Any], bool]:
    return lambda found: bool(found == value)


def _denied(found: Any) -> bool:
    return isinstance(found, str) and found in DENIED


def _all_denied(found: Any) -> bool:
    values = found.values() if isinstance(found, Mapping) else found
    return bool(values) and all(value in DENIED for value in values)


def _no_answer(found: Any) -> bool:
    return bool(found) and all(value == "no answer" for value in found.values())


def _none(found: Any) -> bool:
    return bool(found == [])


def _sealed(found: Any) -> bool:
    return bool(found) and all(kind == ["tmpfs", "nosuid", "nodev"] for kind in found.values())


def _bounded(found: Any) -> bool:
    return isinstance(found, Mapping) and bool(found) and all(0 <= limit < 2**53 for limit in found.values())


def _zero(found: Any) -> bool:
    return isinstance(found, Mapping) and len(found) == 4 and not any(found.values())


_PROGRAM = (
    _Row("the program is one ordinary user", ("identity", "users"), f"{CONTAINER_USER}", _is([CONTAINER_USER]),
         "here every sandbox has a user of its own, or yours inside a namespace"),
    _Row("it is never root", ("identity", "users"), "no 0", lambda found: bool(found) and 0 not in found),
    _Row("it has no other group", ("identity", "groups"), f"{CONTAINER_USER}", _is([CONTAINER_USER]),
         "here the group is the sandbox's user's, or yours inside a namespace"),
    _Row("it has no capability", ("identity", "capabilities"), "0 in all sets", _zero),
    _Row("it can gain no right", ("identity", "noNewPrivileges"), "1", _is("1")),
    _Row("its system calls are filtered", ("identity", "seccomp"), "mode 2", _is("2")),
    _Row("it cannot become root", ("identity", "becomeRoot"), "refused", _all_denied),
    _Row("no socket of any family opens", ("network", "opened"), "none", _none),
    _Row("every family is refused alike", ("network", "families"), "EAFNOSUPPORT", _is(["EAFNOSUPPORT"])),
    _Row("no address is reached, metadata included", ("network", "addresses"), "refused", _all_denied),
    _Row("no name is resolved", ("network", "names"), "no answer", _no_answer),
    _Row("no pair of sockets that could be sent elsewhere", ("network", "pairs"), "refused", _all_denied),
    _Row("no connection by a raw call", ("network", "connect"), "refused", _denied),
    _Row("no io_uring", ("network", "ring"), "refused", _denied),
    _Row("its own processes may talk", ("network", "ownPair"), "ok", _is("ok")),
    _Row("nothing of AWS is in its environment", ("environment", "suspicious"), "none", _none),
    _Row("nothing outside its folders is written", ("files", "outside"), "none", _none),
    _Row("its own folders are written", ("files", "inside"), "all four", lambda found: len(found or ()) == 4),
    _Row("the root is read-only", ("files", "readOnlyRoot"), "true", _is(True), _OTHER_MACHINE),
    _Row("what is written lives in memory, without devices or setuid", ("files", "mounts"), "tmpfs, nosuid, nodev",
         _sealed, _OTHER_MACHINE),
    _Row("no device is made", ("files", "device"), "refused", _denied),
    _Row("no descriptor is inherited", ("files", "descriptors"), "none", _none),
    _Row("no other process is read, the supervisor included", ("others", "read"), "none", _none),
    _Row("no other process is signalled", ("others", "signalled"), "none", _none),
    _Row("no other process is traced", ("others", "traced"), "none", _none),
    _Row("no namespace, mount, tracing, key or other odd corner of the kernel", ("kernel",), "refused", _all_denied),
    _Row("every limit is set", ("limits",), "finite", _bounded),
    _Row("no core is left", ("limits", "core"), "0", _is(0)),
    _Row("the promised libraries are there", ("working", "missing"), "none missing", _none),
    _Row("Node.js runs", ("working", "node"), "42", _is("42")),
    _Row("the shell and its tools run", ("working", "shell"), "42", _is("42")),
    _Row("Python is the image's", ("working", "python"), "3.13", _is("3.13"), _OTHER_MACHINE),
    _Row("the machine is the one that the filter is tested on", ("working", "machine"), "x86_64", _is("x86_64"),
         _OTHER_MACHINE),
)  # fmt: skip


def _unreached(found: Any) -> bool:
    return (
        isinstance(found, Mapping)
        and set(found) == {*REACH["addresses"], *REACH["names"]}
        and not any(came in ("connected", "found", "ECONNREFUSED") for came in found.values())
    )


_SUPERVISOR = (
    _Row("the supervisor keeps the program by a user of its own", ("boundary",), "user", _is("user"),
         "here, without root, by a namespace"),
    _Row("its filter was in force before the job was taken", ("seccomp",), "2", _is(2)),
    _Row("it holds no credentials: the task has no role", ("credentials",), "none", _none),
    _Row("it reaches no address but its own, and no other name", ("reach",), "no answer, not found", _unreached,
         "here the supervisor shares this machine's network, and the program still has none"),
)  # fmt: skip


_NOT_HAD = ("open", "socket", "datagram", "pipe", "copy", "fork", "thread", "memory", "write", "root", "reuse")


def _not_had(found: Any) -> bool:
    return isinstance(found, Mapping) and all(found.get(name) not in ("ok", "is", None) for name in _NOT_HAD)


# Not judged: whether it may signal others. In Lambda all processes are one user's, and end with each other.
_JAVASCRIPT = (
    _Row("whoever broke out of the JavaScript engine gets no file, socket, process or memory", (), "refused", _not_had),
    _Row("they cannot trace the process that started it", ("trace",), "refused", _denied),
    _Row("they cannot read that process' memory", ("read",), "refused", _denied),
    _Row("they cannot raise a limit", ("raise",), "refused", lambda found: bool(found) and "ok" not in found),
    _Row("they are not root", ("user",), "not 0", lambda found: isinstance(found, int) and found != 0),
    _Row("their environment is empty but for zone, locale and library path", ("environment",), "three names at most",
         lambda found: found is not None and set(found) <= {"TZ", "LC_CTYPE", "LD_LIBRARY_PATH"}),
)  # fmt: skip


def judge_javascript(attempts: Mapping[str, Any]) -> list[Fact]:
    """The facts of where run_javascript evaluates; ``attempts`` are what its function answered. Equal everywhere."""
    return [_fact(row, attempts, local=False) for row in _JAVASCRIPT]


def judge(program: Mapping[str, Any], supervisor: Mapping[str, Any], *, local: bool) -> list[Fact]:
    """Every fact. ``program`` is what the program printed, ``supervisor`` the self-report of the run's report.

    With ``local`` those that are another machine's are accepted and say so.
    """
    facts = [_fact(row, program, local) for row in _PROGRAM] + [_fact(row, supervisor, local) for row in _SUPERVISOR]
    users = _at(program, ("identity", "users"))
    same = users == [supervisor.get("uid")]
    facts.append(Fact("both name the same user", "equal", _shown([users, supervisor.get("uid")]), same))
    return facts


def failed(facts: list[Fact]) -> list[Fact]:
    """Those that are not as they must be."""
    return [fact for fact in facts if not fact.ok]


def _fact(row: _Row, found: Mapping[str, Any], local: bool) -> Fact:
    value = _at(found, row.at)
    try:
        holds = row.holds(value)
    except (TypeError, AttributeError, ValueError):
        holds = False
    accepted = local and bool(row.local) and value is not None
    return Fact(row.fact, row.expected, _shown(value), holds or accepted, "" if holds or not accepted else row.local)


def _at(found: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _shown(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)[:400]
