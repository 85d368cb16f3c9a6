"""Exceptions from the AwsSolutions rules, each at the construct it concerns and with the reason a reviewer needs."""

from __future__ import annotations

from typing import Any

from aws_cdk import Acknowledgment, Stack, Validations
from constructs import IConstruct


def acknowledge(construct: IConstruct, reason: str, *findings: str) -> None:
    """Accept ``findings`` (rule ids, with the finding in brackets where the rule reports several) on ``construct``."""
    for finding in findings:
        Validations.of(construct).acknowledge(Acknowledgment(id=finding, reason=reason))


def wildcard(scope: IConstruct, resource: str) -> str:
    """The finding that rule IAM5 reports for a statement on ``resource``."""
    return f"AwsSolutions-IAM5[Resource::{_flat(Stack.of(scope).resolve(resource))}]"


def _flat(value: Any) -> str:
    """A resolved CloudFormation value as the rules print it."""
    if isinstance(value, str):
        return value
    ((function, argument),) = value.items()
    match function:
        case "Ref":
            return f"<{argument}>"
        case "Fn::GetAtt":
            return f"<{'.'.join(argument)}>"
        case "Fn::ImportValue":
            return _flat(argument)
        case "Fn::Join":
            separator, parts = argument
            return str(separator).join(_flat(part) for part in parts)
        case _:
            raise ValueError(f"no known spelling for {function}")
