"""Exceptions from the AwsSolutions rules, each at the construct it concerns and with the reason a reviewer needs."""

from __future__ import annotations

from aws_cdk import Acknowledgment, Validations
from constructs import IConstruct


def acknowledge(construct: IConstruct, reason: str, *findings: str) -> None:
    """Accept ``findings`` (rule ids, with the finding in brackets where the rule reports several) on ``construct``."""
    for finding in findings:
        Validations.of(construct).acknowledge(Acknowledgment(id=finding, reason=reason))
