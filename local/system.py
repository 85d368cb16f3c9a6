"""The whole system on one machine: moto's AWS, the deployed handlers and state machines, the gateway, real sandboxes.

One per process, because moto's mocks are global. ``workbench serve``, the demo and the tests run this same class.
"""

from __future__ import annotations

import logging
import math
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from moto import mock_aws

from local import executions, moto_adaptations, resources, signed_links
from local.events import HttpAnswer, HttpRequest
from local.functions import REGION, LocalFunctions, is_of_interest
from local.gateway import SANDBOX_PATH, Gateway, Special
from local.schedule import Schedule
from local.signed_links import SignedLinks
from local.tasks import CLUSTER, TASK_DEFINITION, LocalTasks, Process, Start
from workbench import runtime
from workbench.clients import Clients
from workbench.clock import SystemClock
from workbench.logs import logger
from workbench.routes import FALLBACK, ROUTES
from workbench.runs import keeper, pool
from workbench.runtime import Runtime
from workbench.settings import PREFIX, Settings
from workbench.tools import catalogue

Sandbox = Literal["real", "unsafe", "off"]

# As in AWS. In between, each run that asks for a sandbox calls the keeper.
KEEP_SECONDS = 60.0
# What is at work when the system stops has these to end; nearly all of it ends at once.
STOP_SECONDS = 2.5

# Short enough that a run whose sandbox has died is given up while somebody still watches.
LOCAL_SETTINGS: Mapping[str, Any] = {
    "lease_seconds": 20.0,
    "heartbeat_seconds": 2.0,
    "skew_seconds": 1.0,
    "longest_function_seconds": 60,
    # Nobody writes late here that a second listing right away would not find.
    "deletion_wait_seconds": 0,
    # Whoever wants sandboxes to wait for work says so: most of what one starts here runs no code, or one program.
    "warm_sandboxes": 0,
    "sandbox_cluster": CLUSTER,
    "sandbox_task_definition": TASK_DEFINITION,
    "sandbox_subnets": "subnet-local",
    "sandbox_security_group": "sg-local",
}

# What a developer's shell may hold and a botocore session would follow to a real account or another endpoint.
_AWS_PREFIXES = ("AWS_", "BOTO_")
_LOCAL_AWS: Mapping[str, str] = {
    "AWS_ACCESS_KEY_ID": "local",
    "AWS_SECRET_ACCESS_KEY": "local",
    "AWS_REGION": REGION,
    "AWS_DEFAULT_REGION": REGION,
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true",
}

log = logging.getLogger("workbench.local")
_running = threading.Lock()


class AlreadyRunning(Exception):
    """Another local system runs in this process."""


class _Clock(SystemClock):
    """The machine's clock. When the system stops, all waiting is over and every deadline has passed."""

    def __init__(self) -> None:
        self._stopped = threading.Event()

    def monotonic(self) -> float:
        return math.inf if self._stopped.is_set() else super().monotonic()

    def sleep(self, seconds: float) -> None:
        self._stopped.wait(seconds)

    def stop(self) -> None:
        self._stopped.set()


class _Stderr:
    """Standard error as it is when something is written: tests replace it."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


class LocalSystem:
    """Start with :meth:`start`, stop with :meth:`stop`, or use as a context manager: ``with LocalSystem().start():``.

    ``functions`` and ``state_machines`` are the folders of the handlers and of the ``*.asl.json`` files.
    """

    def __init__(self, functions: Path = resources.FUNCTIONS, state_machines: Path = resources.STATE_MACHINES) -> None:
        self._function_folder = functions
        self._state_machine_folder = state_machines
        self._undo: list[Callable[[], object]] = []
        self._gateway: Gateway | None = None
        self._runtime: Runtime | None = None
        self._schedule: Schedule | None = None
        self._stop_by = 0.0

    def start(
        self,
        port: int = 0,
        settings: Mapping[str, Any] | None = None,
        sandbox: Sandbox = "real",
        *,
        start_sandbox: Start | None = None,
        special: Special | None = None,
        verbose: bool = False,
    ) -> Self:
        """Create everything and listen on 127.0.0.1:``port`` (0: any free port).

        ``settings`` override fields of :class:`~workbench.settings.Settings`. ``sandbox``: ``real`` isolates as the
        launcher can, ``unsafe`` runs programs without a boundary, ``off`` refuses to run any. ``start_sandbox``
        replaces the launcher, ``special`` answers requests before the API does. The handlers' logs go to stderr, only
        errors unless ``verbose``.

        Raises :class:`AlreadyRunning`, OSError when the port is taken, pydantic's ValidationError.
        """
        if not _running.acquire(blocking=False):
            raise AlreadyRunning("A local system runs in this process already; stop it first.")
        self._undo.append(_running.release)
        try:
            self._send_logs_to_stderr(logging.INFO if verbose else logging.ERROR)
            self._start(port, settings or {}, start_sandbox or _starter(sandbox), special)
            if start_sandbox is not None:
                self._keep_the_pool()
            elif sandbox != "off":
                threading.Thread(target=self._prepare, args=(sandbox,), name="prepare", daemon=True).start()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Take no more work, end what is at work, close the connections, forget all data. Harmless when not running."""
        self._stop_by = time.monotonic() + STOP_SECONDS
        while self._undo:
            undo = self._undo.pop()
            try:
                undo()
            except Exception:
                log.exception("the local system did not stop cleanly")
        self._gateway = self._runtime = None

    def __enter__(self) -> Self:
        if self._gateway is None:
            self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """``http://127.0.0.1:N``"""
        if self._gateway is None:
            raise RuntimeError("the local system is not running")
        return self._gateway.url

    @property
    def runtime(self) -> Runtime:
        """The runtime that the handlers use."""
        if self._runtime is None:
            raise RuntimeError("the local system is not running")
        return self._runtime

    def has_warm_sandbox(self, within: float) -> bool:
        """True as soon as a sandbox waits for work, False after ``within`` seconds without one."""
        runtime = self.runtime
        deadline = runtime.clock.monotonic() + within
        while True:
            now = runtime.clock.now()
            slots = keeper.known(runtime, runtime.table.query(pool.POOL, pool.SLOT_PREFIX))
            if any(slot.may_serve(now, 0) for slot in slots):
                return True
            if runtime.clock.monotonic() >= deadline:
                return False
            runtime.clock.sleep(0.02)

    def _start(self, port: int, overrides: Mapping[str, Any], starter: Start, special: Special | None) -> None:
        self._replace_environment(lambda name: name.startswith((*_AWS_PREFIXES, PREFIX)), _LOCAL_AWS)
        moto_adaptations.stay_on_this_machine()
        mocks = mock_aws(config=moto_adaptations.MOTO_CONFIG)
        mocks.start()
        self._undo.append(mocks.stop)
        # mock_aws sets credentials of its own; links are signed with ours.
        os.environ.update(_LOCAL_AWS)

        cache = tempfile.mkdtemp(prefix="workbench-cache-")
        self._undo.append(lambda: shutil.rmtree(cache, ignore_errors=True))
        values = {**LOCAL_SETTINGS, "cache_directory": cache, **overrides}
        settings = Settings.model_validate(values)

        functions = LocalFunctions(self._function_folder, settings.longest_function_seconds)
        tasks = LocalTasks(starter, functions.invoke_later)
        self._undo.append(moto_adaptations.adapt(functions, tasks))

        clients = Clients(REGION)
        resources.create_table(clients.dynamodb, settings.table)
        resources.create_bucket(clients.s3, settings.workspace_bucket, versioning=False)
        resources.create_bucket(clients.s3, settings.artifact_bucket, versioning=True)
        machines = resources.create_state_machines(clients.stepfunctions, self._state_machine_folder)

        links = SignedLinks(clients.s3, lambda: self.url)
        uploads = {signed_links.PREFIX: signed_links.UPLOAD_BYTES}
        clock = _Clock()
        gateway = Gateway(functions.call, list(_routes()), FALLBACK, _first_of(links.answer, special), uploads)
        schedule = Schedule(functions.invoke_later)
        # From the last to the first: nothing begins any more, nobody waits any more, and what is at work ends while
        # all that it works with is still there.
        self._undo += [
            lambda: runtime.install(None),
            lambda: gateway.stop(self._left()),
            lambda: executions.end(self._left()),
            lambda: functions.finish(self._left()),
            tasks.close,
            clock.stop,
            functions.close,
            gateway.close,
            schedule.close,
            partial(logging.getLogger("moto").setLevel, logging.CRITICAL),
        ]
        gateway.start(port)
        self._gateway, self._schedule = gateway, schedule

        found = {
            "sandbox_route_url": gateway.url + SANDBOX_PATH,
            "run_state_machine": machines.get("run_code", ""),
            "delete_state_machine": machines.get("delete_conversation", ""),
            "reconcile_state_machine": machines.get("reconcile", ""),
        }
        settings = Settings.model_validate({**found, **values})
        # What was there before comes back with the rest of the environment.
        os.environ.update(settings.to_environment())
        self._runtime = Runtime(settings, clients, clock)
        runtime.install(self._runtime)

    def _left(self) -> float:
        """Seconds until stopping waits no longer."""
        return max(0.0, self._stop_by - time.monotonic())

    def _prepare(self, sandbox: Sandbox) -> None:
        if _prepare(sandbox):
            self._keep_the_pool()

    def _keep_the_pool(self) -> None:
        runtime, schedule = self._runtime, self._schedule
        if runtime is not None and schedule is not None and runtime.settings.warm_sandboxes:
            schedule.every(KEEP_SECONDS, keeper.FUNCTION)

    def _send_logs_to_stderr(self, level: int) -> None:
        # It stays when the system has stopped: a function may outlast the waiting for it.
        logger.addFilter(is_of_interest)
        # Lambda takes its log from standard output; here that belongs to whoever started the system.
        for handler in logger.handlers:
            if isinstance(handler, logging.StreamHandler):
                before = handler.setStream(_Stderr()) or handler.stream
                self._undo.append(partial(handler.setStream, before))
                self._undo.append(partial(handler.setLevel, handler.level))
                handler.setLevel(level)
        # moto calls every failed state an error, also those that a definition catches or means.
        moto_log = logging.getLogger("moto")
        self._undo.append(partial(moto_log.setLevel, moto_log.level))
        moto_log.setLevel(logging.CRITICAL if level > logging.INFO else logging.WARNING)

    def _replace_environment(self, remove: Callable[[str], bool], values: Mapping[str, str]) -> None:
        before = dict(os.environ)

        def restore() -> None:
            for name in set(os.environ) - set(before):
                del os.environ[name]
            os.environ.update(before)

        self._undo.append(restore)
        for name in [name for name in os.environ if remove(name)]:
            del os.environ[name]
        os.environ.update(values)


def _first_of(*answerers: Special | None) -> Special:
    chosen = [answerer for answerer in answerers if answerer is not None]

    def special(request: HttpRequest) -> HttpAnswer | None:
        return next((answer for answerer in chosen if (answer := answerer(request)) is not None), None)

    return special


def _routes() -> Iterator[tuple[str, str]]:
    for route in ROUTES:
        yield route.key, route.function
    for tool in catalogue.names():
        yield f"POST /v1/turns/{{turn}}/tools/{tool}", tool


def _starter(sandbox: Sandbox) -> Start:
    def refuse(_sandbox: str, _secret: str, _route: str, _environment: Mapping[str, str]) -> Process:
        raise RuntimeError("This local system was started without sandboxes.")

    def launch(sandbox_id: str, secret: str, route: str, environment: Mapping[str, str]) -> Process:
        # Imported at the first run: most of what one does locally starts no sandbox.
        from local.launcher import start_sandbox

        return start_sandbox(sandbox_id, secret, route, environment=environment, unsafe=sandbox == "unsafe")

    return refuse if sandbox == "off" else launch


def _prepare(sandbox: Sandbox) -> bool:
    """Have ready what the first run needs; where this machine lacks something, that run will say what."""
    from local.launcher import SandboxUnavailable, prepare

    try:
        prepare(unsafe=sandbox == "unsafe")
    except SandboxUnavailable as error:
        log.info("code cannot be run: %s", error)
        return False
    return True
