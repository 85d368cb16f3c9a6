"""Skills that a deployment brings along, from CloudFormation's request to its answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import botocore.session
import pytest
from botocore.exceptions import ClientError

from local.functions import REGION
from local.system import LocalSystem
from tests.local.cloudformation import Waiting, waiting
from tests.skill_zips import skill_md, zipped
from workbench.skills import deployment

BUCKET = "assets-of-a-stack"


@pytest.fixture
def stack() -> Iterator[Waiting]:
    with waiting() as made:
        yield made


@pytest.fixture
def deploy(system: LocalSystem, stack: Waiting, unique: str) -> Any:
    """Send a bundle as CloudFormation does; the function's answer to it."""
    s3 = system.runtime.clients.s3
    if BUCKET not in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]:
        s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    functions = botocore.session.get_session().create_client("lambda", region_name=REGION)

    def send(kind: str, data: bytes | None = None, *, failing: bool = False) -> dict[str, Any]:
        if data is not None:
            s3.put_object(Bucket=BUCKET, Key=f"{unique}.zip", Body=data)
        event = stack.event(kind, Name=unique, Digest="x", Bucket=BUCKET, Key=f"{unique}.zip")
        answer = functions.invoke(FunctionName="deployed_skills", Payload=json.dumps(event).encode())
        assert ("FunctionError" in answer) is failing
        return stack.answers.pop() if stack.answers else {}

    return send


def bundle(name: str, **head: str) -> bytes:
    return zipped({"SKILL.md": skill_md(name, **head)})


def test_a_bundle_is_kept_and_cloudformation_told(api: Any, unique: str, deploy: Any) -> None:
    answer = deploy("Create", bundle(unique, version="1.0.0"))
    assert answer == {
        "Status": "SUCCESS",
        "Reason": "",
        "PhysicalResourceId": f"skill-{unique}",
        "StackId": "arn:aws:cloudformation:eu-central-1:123456789012:stack/workbench-api/1",
        "RequestId": "request",
        "LogicalResourceId": "SkillDemo",
    }
    assert api("GET", f"/v1/skills/{unique}").json["skill"]["version"] == "1.0.0"
    # CloudFormation may ask twice, and asks again for a new version.
    assert deploy("Create")["Status"] == "SUCCESS"
    assert deploy("Update", bundle(unique, version="1.1.0"))["Status"] == "SUCCESS"
    assert api("GET", f"/v1/skills/{unique}").json["skill"]["versions"] == ["1.1.0", "1.0.0"]


def test_a_changed_skill_without_a_higher_version_fails_the_deployment(api: Any, unique: str, deploy: Any) -> None:
    deploy("Create", bundle(unique, version="1.0.0"))
    answer = deploy("Update", bundle(unique, version="1.0.0", license="MIT"))
    assert answer["Status"] == "FAILED" and "Raise the version, for example to 1.0.1" in answer["Reason"]
    assert answer["Reason"].startswith(f"The skill {unique} was not deployed.")


@pytest.mark.parametrize(("data", "said"), [(b"no zip", "no zip"), (b"\0" * 6_000_000, "allowed")])
def test_a_bad_bundle_fails_the_deployment_with_its_reason(deploy: Any, data: bytes, said: str) -> None:
    answer = deploy("Create", data)
    assert answer["Status"] == "FAILED" and said in answer["Reason"]
    assert len(json.dumps(answer)) < 4_096


def test_a_missing_bundle_and_a_fault_of_ours_are_answered_too(
    deploy: Any, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "not among the assets" in deploy("Create")["Reason"]

    def fail(*_arguments: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(deployment, "_push", fail)
    assert "on our side" in deploy("Create", bundle(unique))["Reason"]


def test_permissions_may_take_a_while(deploy: Any, unique: str, monkeypatch: pytest.MonkeyPatch) -> None:
    push, denied = deployment._push, iter(["AccessDenied", "AccessDeniedException"])

    def push_later(*arguments: Any) -> None:
        code = next(denied, None)
        if code is not None:
            raise ClientError({"Error": {"Code": code}}, "GetObject")
        push(*arguments)

    monkeypatch.setattr(deployment, "_push", push_later)
    monkeypatch.setattr(deployment, "PERMISSION_SECONDS", 0)
    assert deploy("Create", bundle(unique))["Status"] == "SUCCESS"
    denied = iter(["AccessDenied"] * deployment.TRIES)
    assert deploy("Create")["Status"] == "FAILED"


def test_a_resource_that_goes_withdraws_nothing(api: Any, unique: str, deploy: Any) -> None:
    deploy("Create", bundle(unique))
    assert deploy("Delete")["Status"] == "SUCCESS"
    assert api("GET", f"/v1/skills/{unique}").status == 200


def test_an_answer_that_is_not_taken_is_sent_again(unique: str, deploy: Any, stack: Waiting) -> None:
    stack.deaf = 2
    assert deploy("Create", bundle(unique))["Status"] == "SUCCESS"
    stack.deaf = 3
    assert deploy("Create", failing=True) == {}
