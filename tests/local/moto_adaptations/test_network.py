"""The network: nothing but loopback is reached."""

from __future__ import annotations

from typing import Any

import botocore.handlers
import botocore.session
import pytest
from botocore.awsrequest import AWSResponse
from botocore.handlers import BUILTIN_HANDLERS
from moto.core.botocore_stubber import MockRawResponse

from local import moto_adaptations
from local.functions import REGION
from tests.local.moto_adaptations.lab import Lab, code_of


def test_nothing_leaves_this_machine(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint that is no mocked service: its request would be sent; the guard refuses it before that."""

    def probe() -> tuple[str | None, int]:
        session = botocore.session.get_session()
        session.set_credentials("test", "test")
        # A name that no resolver knows, and a handler that stands where the network would be.
        client = session.create_client("dynamodb", region_name=REGION, endpoint_url="http://outside.invalid:9")
        sent: list[str] = []

        def network(request: Any, **_more: Any) -> AWSResponse:
            sent.append(request.url)
            return AWSResponse(request.url, 200, {}, MockRawResponse("{}"))

        client.meta.events.register_last("before-send", network)
        return code_of(client.list_tables), len(sent)

    handlers = [entry for entry in BUILTIN_HANDLERS if entry[1] is not moto_adaptations.refuse_outside]
    monkeypatch.setattr(botocore.handlers, "BUILTIN_HANDLERS", handlers)
    before = len(handlers)
    assert probe() == (None, 1)
    moto_adaptations.stay_on_this_machine()
    moto_adaptations.stay_on_this_machine()
    assert len(botocore.handlers.BUILTIN_HANDLERS) == before + 1
    assert probe() == ("OutsideLoopback", 0)
