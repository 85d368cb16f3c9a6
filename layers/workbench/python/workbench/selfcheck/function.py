"""The function ``sandbox_check``: proves in a deployment, through the deployment's own functions, what the tests prove.

It opens a conversation and a turn, runs the program with run_code, and deletes the conversation again, each by invoking
the function that serves the route, so that everything on the way works with its own role. Of the table it may read the
records of runs, where the supervisor's self-report stands.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workbench import ids, runtime
from workbench.keys import run_key
from workbench.logs import logger
from workbench.runtime import Runtime
from workbench.selfcheck import facts
from workbench.selfcheck.facts import Fact
from workbench.selfcheck.reach import CHECKED_CONVERSATION

PROGRAM = Path(__file__).with_name("program.py")
PROGRAM_SECONDS = 60
# A cold task takes 45 to 90 s to start; what is left is for saying that it took too long, and for the deletion.
WAIT_SECONDS = 100.0
# Less than a client waits for an invoked function.
ONE_WAIT_SECONDS = 12
OWNER = "workbench-sandbox-check"


class SandboxCheckFailed(Exception):
    """Facts are not as they must be; the message names each."""


def handler(_event: Mapping[str, Any], _context: Any) -> dict[str, Any]:
    """``{"facts": [{fact, expected, found, ok, note}]}`` where all hold; otherwise :class:`SandboxCheckFailed`."""
    found = Check(runtime.current()).carry_out()
    listed = [fact.as_dict() for fact in found]
    wrong = facts.failed(found)
    if wrong:
        logger.error("the sandbox is not as it must be", extra={"facts": listed})
        lines = [f"- {fact.fact}: expected {fact.expected}, found {fact.found}" for fact in wrong]
        raise SandboxCheckFailed("\n".join([f"{len(wrong)} of {len(found)} facts are not as they must be:", *lines]))
    return {"facts": listed}


class Check:
    """One self-check, in a conversation of its own."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.conversation = ids.random_part(CHECKED_CONVERSATION, bits=72)
        # Functions of a deployment carry its name; those of one machine carry none.
        self._local = not runtime.settings.function_prefix

    def carry_out(self) -> list[Fact]:
        """Every fact; of a run that gave none, why."""
        return [*self._sandbox(), *self._javascript()]

    def _sandbox(self) -> list[Fact]:
        try:
            self._ask("conversations", "POST /v1/conversations", body=self._owned(id=self.conversation))
            answer = self._run()
        except _Refused as refused:
            return [Fact("a program runs in a sandbox", "exit status 0", str(refused), ok=False)]
        finally:
            self._remove()
        return self._judge(answer)

    def _run(self) -> dict[str, Any]:
        """The tool answer of the program's run, whatever came of it."""
        opened = self._ask(
            "turns",
            "POST /v1/conversations/{conversation}/turns",
            {"conversation": self.conversation},
            body={"caller": {"user": OWNER, "department": OWNER}, "tools": ["run_code"]},
        )
        body = {
            "callId": "check",
            "arguments": {"code": PROGRAM.read_text(), "timeoutSeconds": PROGRAM_SECONDS},
            "wait": ONE_WAIT_SECONDS,
        }
        deadline = time.monotonic() + WAIT_SECONDS
        turn, token = opened["turn"]["id"], opened["token"]
        route = "POST /v1/turns/{turn}/tools/run_code"
        while True:
            answer = self._ask("run_code", route, {"turn": turn}, body=body, headers={"x-turn-token": token})
            if answer["outcome"] != "running":
                return answer
            if time.monotonic() + ONE_WAIT_SECONDS > deadline:
                raise _Refused(
                    f"the run is still {answer['structured']['status']} after {WAIT_SECONDS:.0f} s; check again, and "
                    "look for the reason in the log of the function workflow and in the stopped tasks"
                )

    def _javascript(self) -> list[Fact]:
        """What could be done where run_javascript evaluates, by whoever broke out of its engine."""
        try:
            answer = self._invoke("javascript", {"attempts": True})
        except _Refused as refused:
            return [Fact("JavaScript is evaluated", "an answer", str(refused), ok=False)]
        return facts.judge_javascript(answer.get("attempts") or {})

    def _judge(self, answer: Mapping[str, Any]) -> list[Fact]:
        structured = answer["structured"]
        if answer["error"] is not None:
            said = f"{answer['error']['code']}: {answer['error']['message']} {structured.get('stderr', '')[-600:]}"
            return [Fact("a program runs in a sandbox", "exit status 0", said, ok=False)]
        ran = Fact(
            "a program runs in a sandbox", "exit status 0", f"exit status 0 in {structured['seconds']} s", ok=True
        )
        record = self._runtime.table.get(run_key(structured["run"])) or {}
        try:
            printed, verified = json.loads(structured["stdout"]), json.loads(record["verdict"]["report"]["verified"])
        except (KeyError, TypeError, ValueError) as error:
            return [ran, Fact("it says what it found", "JSON", f"{error!r}", ok=False)]
        return [ran, *facts.judge(printed, verified, local=self._local)]

    def _remove(self) -> None:
        path = {"conversation": self.conversation}
        try:
            self._ask("conversations", "DELETE /v1/conversations/{conversation}", path)
        except _Refused as refused:
            logger.warning("the check's conversation is left", extra={"reason": str(refused), **path})

    def _owned(self, **more: Any) -> dict[str, Any]:
        return {"owner": OWNER, "department": OWNER, **more}

    def _ask(
        self,
        function: str,
        route: str,
        parameters: Mapping[str, str] | None = None,
        *,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """The JSON that the function behind a route of the API answers; raises :class:`_Refused` for anything else."""
        event = _event(route, parameters or {}, body, headers or {})
        payload = self._invoke(function, event)
        if payload.get("statusCode", 500) >= 300:
            raise _Refused(f"{route} of the function {function} answered {json.dumps(payload)[:600]}")
        made: dict[str, Any] = json.loads(payload["body"])
        return made

    def _invoke(self, function: str, event: Mapping[str, Any]) -> dict[str, Any]:
        name = self._runtime.settings.function_prefix + function
        answer = self._runtime.clients.lambda_.invoke(FunctionName=name, Payload=json.dumps(event).encode())
        payload = json.loads(answer["Payload"].read())
        if "FunctionError" in answer or not isinstance(payload, dict):
            raise _Refused(f"the function {name} failed: {json.dumps(payload)[:600]}")
        return payload


class _Refused(Exception):
    """A function did not do what it was asked."""


def _event(
    route: str, parameters: Mapping[str, str], body: Mapping[str, Any] | None, headers: Mapping[str, str]
) -> dict[str, Any]:
    """What API Gateway would send for this request (HTTP API, payload 2.0), as far as the functions read it."""
    method, template = route.split(" ", 1)
    path = template.format(**parameters)
    return {
        "version": "2.0",
        "routeKey": route,
        "rawPath": path,
        "rawQueryString": "",
        "headers": {"content-type": "application/json", **headers},
        "requestContext": {"http": {"method": method, "path": path}},
        "pathParameters": dict(parameters),
        "body": json.dumps(body) if body is not None else "",
        "isBase64Encoded": False,
    }
