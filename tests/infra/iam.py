"""What a request to AWS needs, and whether the synthesised policies of a function allow it.

Requests are taken from botocore before they are sent; policies from the templates, with every reference replaced by the
name that the local system uses. Only what our policies use is understood: anything else raises.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.infra.templates import Deployment, as_list

PLACE = "eu-central-1:123456789012"
EXECUTION_ROLE = "arn:aws:iam::123456789012:role/execution"
_TRANSACTED = {"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheckItem"}


@dataclass(frozen=True)
class Need:
    """One action on one resource; ``keys`` are the partitions that it touches."""

    action: str
    resource: str
    keys: frozenset[str] = field(default=frozenset())
    cluster: str = ""

    def __str__(self) -> str:
        return f"{self.action} on {self.resource}" + (f" {sorted(self.keys)}" if self.keys else "")


# ---------------------------------------------------------------- what a request needs


def needs(service: str, operation: str, request: Mapping[str, Any]) -> Iterator[Need]:
    """The permissions that one request uses."""
    reader = {"dynamodb": _dynamodb, "s3": _s3, "stepfunctions": _stepfunctions, "ecs": _ecs, "lambda": _lambda}[
        service
    ]
    yield from reader(operation, request)


def _dynamodb(operation: str, request: Mapping[str, Any]) -> Iterator[Need]:
    if operation == "TransactWriteItems":
        for item in request["TransactItems"]:
            ((kind, one),) = item.items()
            yield _item_need(_TRANSACTED[kind], one["TableName"], one.get("Key") or one["Item"])
    elif operation == "BatchGetItem":
        for table, wanted in request["RequestItems"].items():
            yield Need("dynamodb:BatchGetItem", _table(table), frozenset(key["PK"]["S"] for key in wanted["Keys"]))
    elif operation == "BatchWriteItem":
        for table, writes in request["RequestItems"].items():
            keys = [write["DeleteRequest"]["Key"] for write in writes]
            yield Need("dynamodb:BatchWriteItem", _table(table), frozenset(key["PK"]["S"] for key in keys))
    elif operation == "Scan":
        yield Need("dynamodb:Scan", f"{_table(request['TableName'])}/index/{request['IndexName']}")
    elif operation == "Query":
        index = f"/index/{request['IndexName']}" if "IndexName" in request else ""
        keys = frozenset({request["ExpressionAttributeValues"][":pk"]["S"]})
        yield Need("dynamodb:Query", _table(request["TableName"]) + index, keys)
    else:
        yield _item_need(operation, request["TableName"], request.get("Key") or request["Item"])


def _item_need(action: str, table: str, key: Mapping[str, Any]) -> Need:
    return Need(f"dynamodb:{action}", _table(table), frozenset({key["PK"]["S"]}))


def _s3(operation: str, request: Mapping[str, Any]) -> Iterator[Need]:
    bucket = f"arn:aws:s3:::{request['Bucket']}"
    if operation in ("ListObjectsV2", "ListObjects"):
        yield Need("s3:ListBucket", bucket)
    elif operation == "ListObjectVersions":
        yield Need("s3:ListBucketVersions", bucket)
    elif operation == "DeleteObjects":
        for entry in request["Delete"]["Objects"]:
            yield Need(
                "s3:DeleteObjectVersion" if "VersionId" in entry else "s3:DeleteObject", f"{bucket}/{entry['Key']}"
            )
    else:
        resource = f"{bucket}/{request['Key']}"
        if operation in ("GetObject", "HeadObject"):
            yield Need("s3:GetObject", resource)
            if not request["Key"].startswith("results/"):
                # Without it S3 answers 403 for what is not there, and the code tells "gone" by 404. Results are never
                # gone while something names them.
                yield Need("s3:ListBucket", bucket)
        elif operation == "PutObject":
            yield Need("s3:PutObject", resource)
            if "Tagging" in request:
                yield Need("s3:PutObjectTagging", resource)
        elif operation in ("PutObjectTagging", "GetObjectTagging", "DeleteObject"):
            yield Need(f"s3:{operation}", resource)
        else:
            raise NotImplementedError(operation)


def _stepfunctions(operation: str, request: Mapping[str, Any]) -> Iterator[Need]:
    if operation == "StartExecution":
        yield Need("states:StartExecution", request["stateMachineArn"])
    elif operation == "DescribeExecution":
        yield Need("states:DescribeExecution", request["executionArn"])
    elif operation in ("SendTaskSuccess", "SendTaskFailure", "SendTaskHeartbeat"):
        # The token says which machine; in this product only runs have tokens.
        yield Need(f"states:{operation}", f"arn:aws:states:{PLACE}:stateMachine:workbench-run_code")
    else:
        raise NotImplementedError(operation)


def _ecs(operation: str, request: Mapping[str, Any]) -> Iterator[Need]:
    cluster = request["cluster"]
    if operation == "RunTask":
        family = request["taskDefinition"].split("/")[-1].split(":")[0]
        yield Need("ecs:RunTask", f"arn:aws:ecs:{PLACE}:task-definition/{family}:1", cluster=cluster)
        # ECS checks that whoever starts a task may pass the roles of its definition.
        yield Need("iam:PassRole", EXECUTION_ROLE)
    elif operation == "StopTask":
        yield Need("ecs:StopTask", request["task"], cluster=cluster)
    else:
        raise NotImplementedError(operation)


def _lambda(operation: str, request: Mapping[str, Any]) -> Iterator[Need]:
    if operation != "Invoke":
        raise NotImplementedError(operation)
    yield Need("lambda:InvokeFunction", f"arn:aws:lambda:{PLACE}:function:{request['FunctionName']}")


def _table(name: str) -> str:
    return f"arn:aws:dynamodb:{PLACE}:table/{name.split('/')[-1]}"


# ---------------------------------------------------------------- what a policy allows


class Policies:
    """The deployment's policies, with the deployed names replaced by ``names`` (readable text -> ARN)."""

    def __init__(self, deployment: Deployment, names: Mapping[str, str]) -> None:
        self._deployment = deployment
        self._names = names
        self._statements: dict[str, list[dict[str, Any]]] = {}

    def allow(self, function: str, need: Need) -> bool:
        """Some statement of the function's role allows it. Deny statements do not occur in roles."""
        if function not in self._statements:
            self._statements[function] = self._deployment.statements_of(function)
        return any(self.allows(statement, need) for statement in self._statements[function])

    def allows(self, statement: Mapping[str, Any], need: Need) -> bool:
        """This statement allows it."""
        assert statement["Effect"] == "Allow"
        if need.action not in as_list(statement["Action"]):
            return False
        resources = [self._plain(resource) for resource in as_list(statement["Resource"])]
        if not any(fnmatch.fnmatchcase(need.resource, resource) for resource in resources):
            return False
        return all(
            self._holds(operator, key, value, need)
            for operator, tests in statement.get("Condition", {}).items()
            for key, value in tests.items()
        )

    def _holds(self, operator: str, key: str, value: Any, need: Need) -> bool:
        match operator, key:
            case "ForAllValues:StringLike", "dynamodb:LeadingKeys":
                return all(any(fnmatch.fnmatchcase(found, kind) for kind in value) for found in need.keys)
            case "ArnEquals", "ecs:cluster":
                return need.cluster == self._plain(value)
            case "StringEquals", "iam:PassedToService":
                return bool(value == "ecs-tasks.amazonaws.com")
            case _:
                raise NotImplementedError(f"{operator} {key}")

    def _plain(self, value: Any) -> str:
        """A resource as text with local names."""
        plain = self._deployment.resolved(value)
        for deployed, local in self._names.items():
            plain = plain.replace(deployed, local)
        return plain
