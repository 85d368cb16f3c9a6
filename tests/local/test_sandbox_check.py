"""The self-check on a whole system: it passes with the real sandbox, and fails loudly with a guard taken out."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from local import cli
from local import sandbox_check as check
from local.launcher import SandboxProcess
from local.payload import payload_environment
from local.system import LocalSystem
from local.tasks import Process
from workbench.javascript import evaluator
from workbench.keys import head_key
from workbench.selfcheck.facts import Fact
from workbench.selfcheck.facts import failed as failed_facts
from workbench.selfcheck.function import Check

MUTANT = Path(__file__).resolve().parents[1] / "sandbox" / "mutant.py"
UID = 310_000


def mutant(*guards: str) -> Callable[[str, str, str, Mapping[str, str]], Process]:
    """A launcher of supervisors that lack these guards."""

    def start(sandbox: str, secret: str, route: str, environment: Mapping[str, str]) -> Process:
        payload = payload_environment()
        told = {
            **environment,
            "PATH": "/usr/bin:/bin",
            "WORKBENCH_SANDBOX": sandbox,
            "WORKBENCH_SECRET": secret,
            "WORKBENCH_ROUTE": route,
            "WORKBENCH_ROOT": "/sandbox",
            "WORKBENCH_UID": str(UID),
            "WORKBENCH_INTERPRETER": str(payload.interpreter),
            "WORKBENCH_NODE": str(payload.node),
            "WORKBENCH_VISIBLE": str(payload.folder),
        }
        command = [str(payload.base), "-I", "-S", str(MUTANT), *guards]
        return SandboxProcess(subprocess.Popen(command, env=told, stderr=subprocess.PIPE), None)

    return start


def test_the_real_sandbox_passes_and_no_fact_is_left_out(system: LocalSystem) -> None:
    answer, failed = check.checked(system.runtime)
    assert not failed, answer
    found = [Fact(**fact) for fact in answer["facts"]]
    assert len(found) > 40 and all(fact.ok for fact in found)
    # What is excused says why.
    assert {fact.fact for fact in found if fact.note} <= {
        "the program is one ordinary user",
        "it has no other group",
        "Python is the image's",
        "the machine is the one that the filter is tested on",
        "it reaches no address but its own, and no other name",
    }


def test_the_check_s_conversation_is_removed(system: LocalSystem) -> None:
    made = Check(system.runtime)
    assert failed_facts(made.carry_out()) == []
    head = system.runtime.table.get(head_key(made.conversation))
    assert head is not None and head["status"] == "deleted"


def test_where_javascript_is_evaluated_a_missing_limit_fails_the_check(
    system: LocalSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Check(system.runtime)
    assert [fact.ok for fact in made._javascript()] == [True] * 6
    start = evaluator._start
    monkeypatch.setattr(evaluator, "_start", lambda *command: start(*command, "RLIMIT_NOFILE"))
    (wrong,) = failed_facts(made._javascript())
    assert "no file, socket" in wrong.fact and '"socket": "ok"' in wrong.found


@pytest.mark.parametrize(
    ("guards", "facts"),
    [
        (["step:filter_calls"], ["its system calls are filtered", "no socket of any family opens", "no io_uring"]),
        (["call:keyctl"], ["no namespace, mount, tracing, key or other odd corner of the kernel"]),
        (["step:gain_nothing", "step:restrict_files", "step:filter_calls"], ["it can gain no right"]),
        (["step:limit_resources"], ["every limit is set"]),
        (
            ["step:change_user", "step:restrict_files"],
            ["it is never root", "nothing outside its folders is written", "both name the same user"],
        ),
    ],
    ids=lambda value: value[0] if value[0].startswith(("step", "call")) else "",
)
def test_without_a_guard_the_check_fails_and_names_it(alone: None, guards: list[str], facts: list[str]) -> None:
    with LocalSystem().start(start_sandbox=mutant("probe", *guards)) as system:
        answer, failed = check.checked(system.runtime)
    assert failed
    assert answer["errorType"] == "SandboxCheckFailed"
    for fact in facts:
        assert f"\n- {fact}: expected " in answer["errorMessage"], answer["errorMessage"]


def test_the_same_supervisor_with_its_guards_passes(alone: None) -> None:
    """Or the mutants' failures would prove nothing. Its self-report is the only thing that it lacks."""
    with LocalSystem().start(start_sandbox=mutant()) as system:
        answer, failed = check.checked(system.runtime)
    assert not failed, answer


def test_a_sandbox_that_does_not_start_fails_the_check_and_says_why(alone: None) -> None:
    with LocalSystem().start(sandbox="off") as system:
        answer, failed = check.checked(system.runtime)
    assert failed
    assert "- a program runs in a sandbox: expected exit status 0, found SANDBOX_UNAVAILABLE" in answer["errorMessage"]
    assert "started without sandboxes" in answer["errorMessage"]


def test_a_supervisor_that_lacks_its_probe_s_report_fails_the_check(alone: None) -> None:
    with LocalSystem().start(start_sandbox=mutant("probe")) as system:
        answer, failed = check.checked(system.runtime)
    assert failed
    assert "it holds no credentials: the task has no role: expected none, found nothing" in answer["errorMessage"]


@pytest.fixture
def command(alone: None) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        program = "import sys; from local.cli import main; sys.exit(main(sys.argv[1:]))"
        return subprocess.run(
            [sys.executable, "-c", program, "sandbox-check", *arguments],
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path), **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_the_command_shows_every_fact(command: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    ran = command()
    assert ran.returncode == 0, ran.stderr
    assert "ok       no socket of any family opens: none\n" in ran.stdout
    lines = ran.stdout.splitlines()
    here = sum(line.startswith("here     ") for line in lines)
    assert (
        f" facts hold, {here} of them (`here`) on this machine only" in lines[-1] if here else "only" not in lines[-1]
    )
    assert "differs" not in ran.stdout
    listed = json.loads(command("--json").stdout)["facts"]
    assert {"fact", "expected", "found", "ok", "note"} == set(listed[0])


def test_the_command_fails_when_the_check_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = {
        "errorType": "SandboxCheckFailed",
        "errorMessage": "1 of 39 facts are not as they must be:\n- it is never root",
    }
    monkeypatch.setattr(check, "here", lambda: (said, True))
    assert cli.main(["sandbox-check"]) == 1
    assert "- it is never root" in capsys.readouterr().err


def test_a_deployment_that_cannot_be_asked_is_another_failure(
    command: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    ran = command("--deployed", "workbench", AWS_CONFIG_FILE="/dev/null", AWS_EC2_METADATA_DISABLED="true")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "region" in ran.stderr
