"""Creates what the deployed stacks create: the table, the two buckets and the state machines of ``infra/``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from local.functions import ACCOUNT, REGION, function_arn

PROJECT = Path(__file__).resolve().parent.parent
STATE_MACHINES = PROJECT / "infra" / "state_machines"
FUNCTIONS = PROJECT / "functions"

TASK_ROLE = f"arn:aws:iam::{ACCOUNT}:role/workbench-local"
_FUNCTION = re.compile(r"\$\{([A-Z][A-Za-z0-9]*)FunctionArn\}")
_SUFFIX = ".asl.json"


def create_table(dynamodb: Any, name: str) -> None:
    """The one table: string keys PK and SK, the sparse index gsi1 (keys only), ``ttl``, point-in-time recovery."""
    dynamodb.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[
            {"AttributeName": attribute, "AttributeType": "S"} for attribute in ("PK", "SK", "gsi1pk", "gsi1sk")
        ],
        KeySchema=_key_schema("PK", "SK"),
        GlobalSecondaryIndexes=[
            {
                "IndexName": "gsi1",
                "KeySchema": _key_schema("gsi1pk", "gsi1sk"),
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            }
        ],
    )
    dynamodb.update_time_to_live(TableName=name, TimeToLiveSpecification={"Enabled": True, "AttributeName": "ttl"})
    dynamodb.update_continuous_backups(
        TableName=name, PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True}
    )


def create_bucket(s3: Any, name: str, *, versioning: bool) -> None:
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    if versioning:
        s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})


def create_state_machines(stepfunctions: Any, folder: Path = STATE_MACHINES) -> dict[str, str]:
    """One state machine per ``<name>.asl.json`` in ``folder``; returns name -> ARN."""
    arns: dict[str, str] = {}
    for path in sorted(folder.glob("*" + _SUFFIX)):
        name = path.name.removesuffix(_SUFFIX)
        answer = stepfunctions.create_state_machine(
            name=f"workbench-{name}", definition=definition(path.read_text(encoding="utf-8")), roleArn=TASK_ROLE
        )
        arns[name] = answer["stateMachineArn"]
    return arns


def definition(text: str) -> str:
    """The definition with ``${RunCodeFunctionArn}`` replaced by the ARN of the function ``run_code``, and so on."""
    return _FUNCTION.sub(lambda match: function_arn(_snake_case(match.group(1))), text)


def _key_schema(partition: str, sort: str) -> list[dict[str, str]]:
    return [
        {"AttributeName": partition, "KeyType": "HASH"},
        {"AttributeName": sort, "KeyType": "RANGE"},
    ]


def _snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
