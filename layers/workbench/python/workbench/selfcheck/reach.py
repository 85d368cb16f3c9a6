"""What the supervisor of a checked sandbox tries to reach. The sandbox's route asks it to, for the check's own runs.

Pure, and small: the route that serves every sandbox imports it.
"""

from __future__ import annotations

from collections.abc import Mapping

# The check's conversations begin with this. Whoever else names one so gets runs whose sandboxes look around, no more.
CHECKED_CONVERSATION = "sandbox-check-"
# What the deployment's network must not let even a supervisor reach. 169.254.170.2 is not among it: there Fargate tells
# every task about itself, and hands out credentials to those that have a role.
REACH: Mapping[str, list[str]] = {
    "addresses": ["169.254.169.254:80", "1.1.1.1:443", "1.0.0.1:53"],
    "names": ["example.com", "sts.amazonaws.com", "dynamodb.us-east-1.amazonaws.com"],
}


def reach_of(conversation: str) -> dict[str, list[str]]:
    """The targets for a run of this conversation; empty for everybody's but the check's."""
    return dict(REACH) if conversation.startswith(CHECKED_CONVERSATION) else {}
