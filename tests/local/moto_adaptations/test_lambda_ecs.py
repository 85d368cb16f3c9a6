"""Lambda and ECS: functions and tasks run where the test wants them."""

from __future__ import annotations

import json
from typing import Any

from botocore.exceptions import ClientError

from local.functions import function_arn
from tests.local.moto_adaptations.lab import Both, Lab, code_of


def test_functions_run_here(lab: Lab, both: Both) -> None:
    def fail(_event: Any) -> None:
        raise ValueError("broken")

    lab.functions.handlers = {"double": lambda event: event * 2, "fail": fail}

    def probe() -> list[Any]:
        lab.functions.later.clear()

        def invoke(name: str, kind: str = "RequestResponse") -> Any:
            try:
                answer = lab.lambda_.invoke(FunctionName=name, Payload=b"21", InvocationType=kind)
            except ClientError as error:
                return error.response["Error"]["Code"]
            text = answer["Payload"].read()
            return answer["StatusCode"], answer.get("FunctionError"), json.loads(text) if text else None

        return [
            invoke("double"),
            invoke(function_arn("double")),
            invoke("fail"),
            invoke("double", "Event"),
            list(lab.functions.later),
            invoke("absent"),
        ]

    stock, cured = both("functions_run_here", probe)
    assert stock[0] == (200, None, 21)
    assert cured == [
        (200, None, 42),
        (200, None, 42),
        (200, "Unhandled", {"errorType": "ValueError", "errorMessage": "broken"}),
        (202, None, None),
        [("double", b"21")],
        "ResourceNotFoundException",
    ]


def test_tasks_run_here(lab: Lab, both: Both) -> None:
    def probe() -> tuple[str | None, int, str | None]:
        lab.tasks.requests.clear()
        failed = code_of(lambda: lab.ecs.run_task(cluster="c", taskDefinition="t", startedBy="s", clientToken="k"))
        stopped = code_of(lambda: lab.ecs.stop_task(cluster="c", task="absent"))
        return failed, len(lab.tasks.requests), stopped

    stock, cured = both("tasks_run_here", probe)
    assert stock[:2] == ("ClusterNotFoundException", 0)
    assert cured == (None, 1, "InvalidParameterException")
