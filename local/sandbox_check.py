"""``workbench sandbox-check``: what a sandbox can and cannot do, proved here or in a deployment."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from workbench.selfcheck.facts import Fact

if TYPE_CHECKING:
    from workbench.runtime import Runtime

FUNCTION = "sandbox_check"
# A cold task may take a minute and a half to start; the function ends after two.
ANSWER_SECONDS = 150


class CheckUnavailable(Exception):
    """The check could not be asked; the message says why."""


def add_sandbox_check(subparsers: Any) -> None:
    parser = subparsers.add_parser("sandbox-check", help="prove what a sandbox can and cannot do, here or deployed")
    parser.add_argument(
        "--deployed",
        metavar="NAME",
        help="check the deployment of this name (the setting `name`, usually workbench) with your AWS credentials",
    )
    parser.add_argument("--json", action="store_true", help="print the facts as JSON")
    parser.set_defaults(run=sandbox_check)


def sandbox_check(options: argparse.Namespace) -> int:
    """0 when every fact is as it must be, 1 when one is not, 2 when the check could not be made."""
    try:
        answer, failed = deployed(options.deployed) if options.deployed else here()
    except CheckUnavailable as unavailable:
        print(f"workbench sandbox-check: {unavailable}", file=sys.stderr)
        return 2
    if failed:
        print(answer.get("errorMessage", json.dumps(answer)), file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(answer, indent=2, ensure_ascii=False))
    else:
        show([Fact(**fact) for fact in answer["facts"]])
    return 0


def here() -> tuple[dict[str, Any], bool]:
    """The function's answer on this machine, and whether it is a failure."""
    from local.system import LocalSystem

    with LocalSystem().start() as system:
        return checked(system.runtime)


def checked(runtime: Runtime) -> tuple[dict[str, Any], bool]:
    """The same of a local system that runs, once the check's conversation is deleted: it may be stopped then."""
    answered = _invoke(runtime.clients.lambda_, FUNCTION)
    machine = runtime.settings.delete_state_machine
    while runtime.clients.stepfunctions.list_executions(stateMachineArn=machine, statusFilter="RUNNING")["executions"]:
        runtime.clock.sleep(0.05)
    return answered


def deployed(name: str) -> tuple[dict[str, Any], bool]:
    """The same of a deployment, asked with the credentials that AWS's own tools would use."""
    import botocore.session
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    # Asking twice would check twice.
    config = Config(read_timeout=ANSWER_SECONDS, retries={"max_attempts": 0})
    try:
        client = botocore.session.get_session().create_client("lambda", config=config)
        return _invoke(client, f"{name}-{FUNCTION}")
    except (BotoCoreError, ClientError) as error:
        raise CheckUnavailable(str(error)) from error


def _invoke(client: Any, function: str) -> tuple[dict[str, Any], bool]:
    answer = client.invoke(FunctionName=function, Payload=b"{}")
    made: dict[str, Any] = json.loads(answer["Payload"].read())
    return made, "FunctionError" in answer


def show(facts: list[Fact]) -> None:
    """One line a fact, and why those that are accepted on this machine only are."""
    for fact in facts:
        if fact.note:
            print(f"here     {fact.fact}: expected {fact.expected}, found {fact.found}\n         {fact.note}")
        else:
            print(f"ok       {fact.fact}: {fact.expected}")
    here_only = sum(bool(fact.note) for fact in facts)
    print(f"{len(facts)} facts hold" + (f", {here_only} of them (`here`) on this machine only" if here_only else ""))
