"""Step Functions: how executions start, what becomes of a task's token, how retries wait."""

from __future__ import annotations

import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from types import ModuleType, SimpleNamespace
from typing import Any
from weakref import WeakSet

from moto.core.responses import ActionResult, EmptyResult

from local.moto_adaptations.registry import Patches, adaptation
from local.moto_adaptations.remembering import remember_in


@contextmanager
def _batch_without_ec2() -> Iterator[None]:
    """moto's Step Functions imports its Batch, and with it all of EC2 (a second of every start), for one enumeration.
    While it is imported, that enumeration is all there is of Batch. This cannot be undone, so it is no adaptation.
    """
    names = ("moto.batch", "moto.batch.utils")
    if names[0] in sys.modules:
        yield
        return
    package, utils = map(ModuleType, names)
    vars(package)["__path__"] = []
    vars(utils)["JobStatus"] = Enum("JobStatus", {status: status for status in ("SUCCEEDED", "FAILED")}, type=str)
    sys.modules.update(zip(names, (package, utils), strict=True))
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]


with _batch_without_ec2():
    from moto.stepfunctions.parser.api import InvalidToken, TaskTimedOut
    from moto.stepfunctions.parser.asl.component.common.retry import retrier_decl
    from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import (
        state_task_service_callback,
    )
    from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.resource import ResourceCondition
    from moto.stepfunctions.parser.asl.eval.callback.callback import (
        CallbackConsumerTimeout,
        CallbackEndpoint,
        CallbackNotifyConsumerError,
        CallbackOutcomeFailure,
        CallbackOutcomeSuccess,
        CallbackPoolManager,
    )
    from moto.stepfunctions.parser.asl.parse import asl_parser
    from moto.stepfunctions.parser.asl.parse.preprocessor import Preprocessor
    from moto.stepfunctions.parser.asl.utils import boto_client
    from moto.stepfunctions.parser.models import StepFunctionsParserBackend
    from moto.stepfunctions.responses import StepFunctionResponse


# How often one who waits looks whether its execution still runs.
LOOK_SECONDS = 0.5

_TASK_OVER = "Task Timed Out: 'Provided task does not exist anymore'"


@adaptation
def step_clients_are_kept(patches: Patches) -> None:
    """moto makes a boto client for each step of each execution (30 ms, and boto's factory is not thread-safe). One per
    service and region is kept.
    """
    clients: dict[tuple[str, str], Any] = {}
    making = threading.Lock()

    def wrapper(stock: Callable[..., Any]) -> Callable[..., Any]:
        def boto_client_for(region: str, service: str, **_credentials: Any) -> Any:
            with making:
                if (region, service) not in clients:
                    clients[region, service] = stock(region=region, service=service)
                return clients[region, service]

        return boto_client_for

    kept = wrapper(boto_client.boto_client_for)
    for name, module in list(sys.modules.items()):
        if name.startswith("moto.stepfunctions.") and "boto_client_for" in vars(module):
            patches.replace(module, "boto_client_for", kept)


@adaptation
def definitions_are_parsed_once(patches: Patches) -> None:
    """moto parses the definition anew for every execution. The parse tree is kept; the components made of it are not,
    for executions run at the same time.
    """
    trees: dict[str, Any] = {}

    def wrapper(stock: Callable[..., Any]) -> Callable[..., Any]:
        def parse(definition: str) -> Any:
            if definition in trees:
                return Preprocessor().visit(trees[definition]), trees[definition]
            program, tree = stock(definition)
            trees[definition] = tree
            return program, tree

        return staticmethod(parse)

    patches.wrap(asl_parser.AmazonStateLanguageParser, "parse", wrapper)


@adaptation
def names_start_one_execution(patches: Patches) -> None:
    """moto looks for an execution of the name and starts one in two steps. In AWS a name starts one execution, however
    many requests arrive at once; a run is started under a name made of its call id for that very reason.
    """
    lock = threading.Lock()

    def wrapper(stock: Callable[..., Any]) -> Callable[..., Any]:
        def start_execution(self: StepFunctionsParserBackend, *arguments: Any, **named: Any) -> Any:
            with lock:
                return stock(self, *arguments, **named)

        return start_execution

    patches.wrap(StepFunctionsParserBackend, "start_execution", wrapper)


@adaptation
def task_tokens_are_found_anywhere(patches: Patches) -> None:
    """moto searches the running executions for a token: one that has only just started breaks the search for all
    others, and the token of an ended execution is called invalid. AWS knows every token it issued and answers
    TaskTimedOut once its task is over, which a sandbox that reports late must get.
    """
    pools: OrderedDict[str, CallbackPoolManager] = OrderedDict()

    def wrap_add(stock: Callable[..., Any]) -> Callable[..., Any]:
        def add(self: CallbackPoolManager, callback_id: str) -> Any:
            remember_in(pools, callback_id, self)
            return stock(self, callback_id)

        return add

    def pool_of(token: str) -> CallbackPoolManager:
        if token not in pools:
            raise InvalidToken
        return pools[token]

    def notify(token: str, outcome: Any) -> None:
        try:
            pool_of(token).notify(callback_id=token, outcome=outcome)
        except CallbackNotifyConsumerError as error:
            raise TaskTimedOut(_TASK_OVER, "TaskTimedOut", 400) from error

    def send_task_success(_backend: Any, task_token: str, outcome: str) -> None:
        notify(task_token, CallbackOutcomeSuccess(callback_id=task_token, output=outcome))

    def send_task_failure(_backend: Any, task_token: str, error: str | None = None, cause: str | None = None) -> None:
        notify(task_token, CallbackOutcomeFailure(callback_id=task_token, error=error, cause=cause))

    def send_task_heartbeat(_backend: Any, task_token: str) -> None:
        try:
            if not pool_of(task_token).heartbeat(callback_id=task_token):
                raise InvalidToken
        except CallbackNotifyConsumerError as error:
            raise TaskTimedOut(_TASK_OVER, "TaskTimedOut", 400) from error

    patches.wrap(CallbackPoolManager, "add", wrap_add)
    patches.replace(StepFunctionsParserBackend, "send_task_success", send_task_success)
    patches.replace(StepFunctionsParserBackend, "send_task_failure", send_task_failure)
    patches.replace(StepFunctionsParserBackend, "send_task_heartbeat", send_task_heartbeat)


@adaptation
def failures_keep_their_cause(patches: Patches) -> None:
    """moto drops the cause of a SendTaskFailure. AWS hands it to the Catch, where Abort reads why a run was lost."""

    def send_task_failure(self: StepFunctionResponse) -> ActionResult:
        backend: Any = self.stepfunction_backend
        backend.send_task_failure(
            self._get_param("taskToken"), error=self._get_param("error"), cause=self._get_param("cause")
        )
        return EmptyResult()

    patches.replace(StepFunctionResponse, "send_task_failure", send_task_failure)


@adaptation
def tasks_complete_once(patches: Patches) -> None:
    """moto accepts a second completion of a task, and one after its time ran out; the second may even replace the
    first. AWS answers TaskTimedOut.
    """
    deciding = threading.Lock()

    def check(pool: CallbackPoolManager, token: str) -> None:
        endpoint = pool.get(token)
        if endpoint is not None and endpoint.get_outcome() is not None:
            raise CallbackNotifyConsumerError(CallbackConsumerTimeout())

    def wrap_notify(stock: Callable[..., Any]) -> Callable[..., Any]:
        def notify(self: CallbackPoolManager, callback_id: str, outcome: Any) -> Any:
            with deciding:
                check(self, callback_id)
                return stock(self, callback_id=callback_id, outcome=outcome)

        return notify

    def wrap_heartbeat(stock: Callable[..., Any]) -> Callable[..., Any]:
        def heartbeat(self: CallbackPoolManager, callback_id: str) -> Any:
            with deciding:
                check(self, callback_id)
                return stock(self, callback_id=callback_id)

        return heartbeat

    def wrap_evaluate(stock: Callable[..., Any]) -> Callable[..., Any]:
        def evaluate(self: Any, env: Any) -> None:
            if not _waits_for_token(self):
                stock(self, env)
                return
            endpoint = env.callback_pool_manager.get(_token(env))
            try:
                stock(self, env)
            finally:
                with deciding:
                    endpoint.report(CallbackConsumerTimeout())
                endpoint.interrupt_all()

        return evaluate

    patches.wrap(CallbackPoolManager, "notify", wrap_notify)
    patches.wrap(CallbackPoolManager, "heartbeat", wrap_heartbeat)
    patches.wrap(_CallbackState, "_evaluate_with_timeout", wrap_evaluate)


@adaptation
def attempts_have_their_own_token(patches: Patches) -> None:
    """moto keeps a task's token over its retries, so that a second attempt ends at once with the first one's outcome.
    AWS issues a new token for each attempt.
    """

    def wrapper(stock: Callable[..., Any]) -> Callable[..., Any]:
        def evaluate(self: Any, env: Any) -> None:
            context = env.states.context_object
            if _waits_for_token(self) and context.context_object_data["State"]["RetryCount"] > 0:
                env.callback_pool_manager.add(context.update_task_token())
            stock(self, env)

        return evaluate

    patches.wrap(_CallbackState, "_evaluate_with_timeout", wrapper)


@adaptation
def early_callbacks_count(patches: Patches) -> None:
    """moto listens for a task's heartbeats only once the function that was given the token has returned: an earlier
    SendTaskSuccess is noticed when the heartbeat time is over, as a failure, and an earlier heartbeat is refused. AWS
    honours both from the moment the token exists. A warm sandbox is faster than the function that woke it.
    """

    early: WeakSet[CallbackEndpoint] = WeakSet()

    def wrap_setup(stock: Callable[..., Any]) -> Callable[..., Any]:
        def setup_heartbeat_endpoint(self: CallbackEndpoint, heartbeat_seconds: int) -> Any:
            heartbeats = stock(self, heartbeat_seconds=heartbeat_seconds)
            if self.get_outcome() is not None or self in early:
                heartbeats.notify()
            return heartbeats

        return setup_heartbeat_endpoint

    def wrap_heartbeat(stock: Callable[..., Any]) -> Callable[..., Any]:
        def notify_heartbeat(self: CallbackEndpoint) -> bool:
            if not stock(self):
                early.add(self)
            return True

        return notify_heartbeat

    patches.wrap(CallbackEndpoint, "setup_heartbeat_endpoint", wrap_setup)
    patches.wrap(CallbackEndpoint, "notify_heartbeat", wrap_heartbeat)


@adaptation
def retries_wait_for_their_execution(patches: Patches) -> None:
    """moto sleeps before it tries a state again, whatever happens to the execution meanwhile. AWS ends one that is
    stopped at once. Stopping the local system must not wait for a retry of what it has just cut off.
    """

    def wrapper(stock: Callable[..., Any]) -> Callable[..., Any]:
        def evaluate(self: Any, env: Any) -> None:
            waiting.execution = env
            stock(self, env)

        return evaluate

    def sleep(seconds: float) -> None:
        until = time.monotonic() + seconds
        # The event is set for a moment only: who begins to wait right then misses it.
        while waiting.execution.is_running() and (left := until - time.monotonic()) > 0:
            waiting.execution.program_state_event.wait(min(left, LOOK_SECONDS))

    waiting = threading.local()
    patches.wrap(retrier_decl.RetrierDecl, "_eval_body", wrapper)
    patches.replace(retrier_decl, "time", SimpleNamespace(sleep=sleep))


_CallbackState: Any = state_task_service_callback.StateTaskServiceCallback


def _waits_for_token(state: Any) -> bool:
    return bool(state.resource.condition == ResourceCondition.WaitForTaskToken)


def _token(env: Any) -> str:
    token: str = env.states.context_object.context_object_data["Task"]["Token"]
    return token
