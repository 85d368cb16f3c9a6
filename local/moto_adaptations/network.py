"""The network: nothing but loopback is reached. This is not undone, so it is no adaptation."""

from __future__ import annotations

import re
from typing import Any

import botocore.handlers
from botocore.awsrequest import AWSPreparedRequest
from moto.core.models import botocore_stubber

# While its mocks are on, moto answers everything under this name, if only with a 404.
_AWS_HOST = re.compile(r"https?://[^/@]+\.amazonaws\.com/")
_LOOPBACK_HOST = re.compile(r"https?://(127\.0\.0\.1|localhost|\[::1\])(:\d+)?(/|$)")


class OutsideLoopback(Exception):
    """Something in a process that runs the local system tried to reach a host that is not this one."""


def stay_on_this_machine() -> None:
    """moto lets requests pass that no mocked service claims (an endpoint of one's own), and all of them once its mocks
    are stopped. From now on, for the life of the process, botocore sessions made later reach loopback or nothing.
    """
    if all(entry[1] is not refuse_outside for entry in botocore.handlers.BUILTIN_HANDLERS):
        botocore.handlers.BUILTIN_HANDLERS.append(("before-send", refuse_outside))


def refuse_outside(request: AWSPreparedRequest, **_ignored: Any) -> None:
    """The handler that does it: raises :class:`OutsideLoopback` before anything is sent."""
    mocked = botocore_stubber.enabled and _AWS_HOST.match(request.url)
    if not mocked and not _LOOPBACK_HOST.match(request.url):
        raise OutsideLoopback(f"refused to send a request to {request.url.partition('?')[0]}")
