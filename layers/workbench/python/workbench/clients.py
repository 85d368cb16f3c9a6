"""botocore clients, made lazily, with one hook that every AWS request passes.

The hook counts requests (the cost that tests hold to the table in docs/architecture.md) and may raise before a
request is sent, which is how tests crash an operation between any two requests.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import botocore.session
from botocore.config import Config

RequestHook = Callable[[str, str], None]


@dataclass
class RequestCount:
    """AWS requests made inside one ``counting()`` block, retries included."""

    total: int = 0
    operations: list[str] = field(default_factory=list)


_counter: contextvars.ContextVar[RequestCount | None] = contextvars.ContextVar("requests", default=None)
_counter_lock = threading.Lock()


class Clients:
    """The AWS clients of one process. A client is made at its first use: S3's alone costs 30 ms."""

    def __init__(self, region: str | None = None, hook: RequestHook | None = None) -> None:
        self._session = botocore.session.get_session()
        self._region = region
        self._making = threading.Lock()
        self._pool = ThreadPoolExecutor(max_workers=8, thread_name_prefix="aws")
        self.hook = hook

    @cached_property
    def dynamodb(self) -> Any:
        return self._make("dynamodb")

    @cached_property
    def s3(self) -> Any:
        # Links that are signed here must name the region's own endpoint: the global one redirects, and a redirected
        # PUT does not arrive.
        return self._make("s3", s3={"addressing_style": "virtual"})

    @cached_property
    def stepfunctions(self) -> Any:
        return self._make("stepfunctions")

    @cached_property
    def ecs(self) -> Any:
        return self._make("ecs")

    @cached_property
    def lambda_(self) -> Any:
        return self._make("lambda")

    @cached_property
    def bedrock(self) -> Any:
        # Whoever asks a model can do without its answer, and somebody is waiting.
        return self._make("bedrock-runtime", attempts=1, read_timeout=5)

    def _make(self, service: str, *, attempts: int = 3, read_timeout: int = 20, **more: Any) -> Any:
        # botocore's client factory is not thread-safe; one session is shared by all threads.
        with self._making:
            client = self._session.create_client(
                service,
                region_name=self._region,
                config=Config(
                    retries={"mode": "standard", "max_attempts": attempts},
                    connect_timeout=3,
                    read_timeout=read_timeout,
                    max_pool_connections=16,
                    parameter_validation=False,
                    **more,
                ),
            )
        client.meta.events.register_first("before-send.*.*", self._before_send)
        return client

    def _before_send(self, event_name: str, **_ignored: Any) -> None:
        _event, service, operation = event_name.split(".")
        count = _counter.get()
        if count is not None:
            with _counter_lock:
                count.total += 1
                count.operations.append(f"{service}:{operation}")
        if self.hook is not None:
            self.hook(service, operation)

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Run ``work`` on the client's threads; its requests count where this was called."""
        return self._pool.submit(contextvars.copy_context().run, work, *arguments)

    def together(self, *works: Callable[[], Any]) -> list[Any]:
        """Run ``works`` in parallel and return their results in order; the first failure is raised after all ended."""
        if len(works) == 1:
            return [works[0]()]
        futures = [self.submit(work) for work in works]
        failures = [future.exception() for future in futures]
        for failure in failures:
            if failure is not None:
                raise failure
        return [future.result() for future in futures]


@contextmanager
def counting() -> Iterator[RequestCount]:
    """Count the AWS requests made inside the block, on this thread and on the client's threads; blocks may nest."""
    count, outer = RequestCount(), _counter.get()
    token = _counter.set(count)
    try:
        yield count
    finally:
        _counter.reset(token)
        if outer is not None:
            outer.total += count.total
            outer.operations += count.operations
