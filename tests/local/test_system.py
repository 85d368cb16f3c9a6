"""The local system as a whole: its command, its life, its state machines, tasks and links. Functions are tiny ones."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import os
import queue
import random
import secrets
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import botocore.session
import pytest
from botocore.exceptions import ClientError
from pydantic import ValidationError

import local.system
from local import resources
from local.cli import main
from local.functions import function_arn
from local.gateway import IDLE_SECONDS
from local.moto_adaptations import OutsideLoopback
from local.signed_links import SignedLinks
from local.system import AlreadyRunning, LocalSystem
from local.tasks import STOPPED_FUNCTION
from tests.local.conftest import Api
from tests.local.talk import Talk
from workbench import runtime
from workbench.logs import logger
from workbench.operations import Update
from workbench.settings import Settings

FIXTURES = Path(__file__).parent / "fixtures"
WAIT_SECONDS = 60
# What ends at once, however busy the machine is; whatever keeps it from ending lasts longer.
END_SECONDS = 30

# Functions of the product's names, so that the product's routes reach them.
HANDLERS = {
    # Adds one to a counter of the table: GET /v1/catalogue.
    "catalogue": """
from pydantic import ValidationError
from workbench import runtime
from workbench.logs import logger
from workbench.table import Update

def handler(event, context):
    item = runtime.current().table.update(("counters", "gateway"), Update().add("n", 1))
    return {"statusCode": 200, "body": str(item["n"])}
""",
    # Puts what it is given on the queue named by the test process.
    "task_stopped": """
import local_test_inbox

def handler(event, context):
    local_test_inbox.put(event)
""",
    "two_words": """
import local_test_inbox

def handler(event, context):
    local_test_inbox.put(event)
    return {"doubled": event["number"] * 2}
""",
    "conversations": """
def handler(event, context):
    print("a print is a log line")
    return {"statusCode": 201, "body": "{}"}
""",
}
MACHINE = {
    "StartAt": "Double",
    "States": {
        "Double": {
            "Type": "Task",
            "Resource": "arn:aws:states:::lambda:invoke",
            "Parameters": {"FunctionName": "${TwoWordsFunctionArn}", "Payload": {"number.$": "$.number"}},
            "ResultSelector": {"doubled.$": "$.Payload.doubled"},
            "Next": "Again",
        },
        "Again": {
            "Type": "Task",
            "Resource": "arn:aws:states:::lambda:invoke",
            "Parameters": {"FunctionName": "${TwoWordsFunctionArn}", "Payload": {"number.$": "$.doubled"}},
            "End": True,
        },
    },
}


class Inbox:
    """What the tiny functions received, as a module that they can import."""

    def __init__(self) -> None:
        self.events: queue.Queue[Any] = queue.Queue()

    def put(self, event: Any) -> None:
        self.events.put(event)

    def get(self, matches: Callable[[Any], bool]) -> Any:
        """The next event that ``matches``; earlier tests' sandboxes may still send theirs."""
        while not matches(event := self.events.get(timeout=WAIT_SECONDS)):
            pass
        return event

    def stopped(self, sandbox: str) -> Any:
        """The event of a sandbox's end."""
        return self.get(lambda event: event.get("detail", {}).get("startedBy") == sandbox)


class Launcher:
    """Starts a real, harmless process in the place of a sandbox."""

    def __init__(self) -> None:
        self.started: list[tuple[str, str, str, dict[str, str]]] = []
        self.refuses: Exception | None = None

    def __call__(self, sandbox: str, secret: str, route: str, environment: Mapping[str, str]) -> Child:
        if self.refuses is not None:
            raise self.refuses
        self.started.append((sandbox, secret, route, dict(environment)))
        return Child()


class Child:
    """A process that ends with status 3 when its standard input does."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-c", "import sys; sys.stdin.read(); sys.exit(3)"], stdin=subprocess.PIPE
        )

    def wait(self) -> int:
        return self.process.wait()

    def stop(self) -> None:
        self.process.kill()

    def finish(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The folders of the functions and of the state machines."""
    functions, machines = tmp_path_factory.mktemp("functions"), tmp_path_factory.mktemp("machines")
    for name, program in HANDLERS.items():
        (functions / name).mkdir()
        (functions / name / "handler.py").write_text(program)
    (machines / "run_code.asl.json").write_text(json.dumps(MACHINE))
    return functions, machines


@pytest.fixture(scope="module")
def inbox() -> Iterator[Inbox]:
    box = Inbox()
    sys.modules["local_test_inbox"] = box  # type: ignore[assignment]
    yield box
    del sys.modules["local_test_inbox"]


@pytest.fixture(scope="module")
def launcher() -> Launcher:
    return Launcher()


@pytest.fixture(scope="module")
def small(alone: None, folders: tuple[Path, Path], inbox: Inbox, launcher: Launcher) -> Iterator[LocalSystem]:
    """A local system with the tiny functions and harmless sandboxes."""
    with LocalSystem(*folders).start(start_sandbox=launcher) as system:
        yield system


def get(url: str, method: str = "GET", body: bytes | None = None, headers: Mapping[str, str] | None = None) -> Any:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=WAIT_SECONDS)
    try:
        connection.request(method, parts.path + ("?" + parts.query if parts.query else ""), body, dict(headers or {}))
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()


def in_threads(count: int, work: Callable[[], Any]) -> None:
    failures: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_SECONDS)
    assert failures == []


# ---------------------------------------------------------------- its life


def test_the_handlers_runtime_has_what_was_created(small: LocalSystem) -> None:
    settings = small.runtime.settings
    assert runtime.current() is small.runtime
    assert Settings.from_environment(os.environ) == settings
    assert settings.sandbox_route_url == f"{small.url}/v1/sandbox"
    assert settings.run_state_machine.endswith(":stateMachine:workbench-run_code")
    assert settings.heartbeat_seconds < settings.lease_seconds / 3
    described = small.runtime.clients.dynamodb.describe_table(TableName=settings.table)["Table"]
    assert described["GlobalSecondaryIndexes"][0]["Projection"] == {"ProjectionType": "KEYS_ONLY"}
    versioning = small.runtime.clients.s3.get_bucket_versioning
    assert versioning(Bucket=settings.artifact_bucket)["Status"] == "Enabled"
    assert "Status" not in versioning(Bucket=settings.workspace_bucket)


def test_only_one_runs_in_a_process(small: LocalSystem) -> None:
    with pytest.raises(AlreadyRunning):
        LocalSystem().start()
    assert runtime.current() is small.runtime


@pytest.fixture
def stopped(small: LocalSystem, launcher: Launcher) -> Iterator[None]:
    """The module's system is stopped while a test starts its own."""
    small.stop()
    yield
    small.start(start_sandbox=launcher)


def test_it_starts_again_and_leaves_the_environment_as_it_was(stopped: None, folders: tuple[Path, Path]) -> None:
    before = dict(os.environ)
    system = LocalSystem(*folders)
    for settings in ({}, {"workspace_files": 7}):
        with system.start(settings=settings, sandbox="off") as running:
            assert running.runtime.settings.workspace_files == settings.get("workspace_files", 2000)
            assert os.environ.get("WORKBENCH_WORKSPACE_FILES") == ("7" if settings else None)
            cache = Path(running.runtime.settings.cache_directory)
            assert cache.is_dir()
            assert running.runtime.table.get(("left", "over")) is None
            running.runtime.table.put({"PK": "left", "SK": "over"})
        assert not cache.exists()
        assert dict(os.environ) == before
        with pytest.raises(RuntimeError):
            _ = system.url


def test_a_start_that_fails_undoes_what_it_did(stopped: None, folders: tuple[Path, Path]) -> None:
    before = dict(os.environ)
    system = LocalSystem(*folders)
    with pytest.raises(ValidationError, match="no_such_setting"):
        system.start(settings={"no_such_setting": 1})
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken, pytest.raises(OSError, match="in use"):
        system.start(port=taken.getsockname()[1])
    assert dict(os.environ) == before
    with system.start(sandbox="off"):
        pass
    system.stop()


def test_it_never_follows_the_developers_aws_settings(
    stopped: None, folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text("[profile work]\nregion = us-west-2\nendpoint_url = http://192.0.2.1\n")
    hostile = {
        "AWS_PROFILE": "work",
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
        "AWS_ENDPOINT_URL": "http://192.0.2.1",
        "AWS_ENDPOINT_URL_S3": "http://192.0.2.1",
        "AWS_ACCESS_KEY_ID": "AKIAREAL",
        "AWS_SECRET_ACCESS_KEY": "real",
        "AWS_SESSION_TOKEN": "real",
        "AWS_REGION": "us-west-2",
        "WORKBENCH_TABLE": "production",
    }
    for name, value in hostile.items():
        monkeypatch.setenv(name, value)
    with LocalSystem(*folders).start(sandbox="off") as system:
        clients = system.runtime.clients
        assert clients.s3.meta.region_name == "eu-central-1"
        assert clients.s3.meta.endpoint_url == "https://s3.eu-central-1.amazonaws.com"
        assert clients.dynamodb._request_signer._credentials.access_key == "local"
        assert system.runtime.settings.table == "workbench"
        assert not {"AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"} & set(os.environ)
    assert {name: os.environ[name] for name in hostile} == hostile
    # Once it has stopped its clients reach nothing, least of all the developer's account.
    with pytest.raises(OutsideLoopback):
        clients.s3.list_buckets()


def test_logs_stay_off_standard_output(small: LocalSystem, capsys: pytest.CaptureFixture[str]) -> None:
    logger.info("of interest to the verbose")
    logger.error("of interest to all")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "of interest to all" in captured.err and "verbose" not in captured.err


# ---------------------------------------------------------------- many at once


def test_sixteen_threads_lose_no_update(small: LocalSystem) -> None:
    table = small.runtime.table

    def work() -> None:
        for _ in range(10):
            table.update(("counters", "direct"), Update().add("n", 1))

    in_threads(16, work)
    assert (table.get(("counters", "direct")) or {})["n"] == 160


def test_sixteen_clients_lose_no_update(small: LocalSystem) -> None:
    seen: list[int] = []

    def work() -> None:
        for _ in range(10):
            status, _headers, body = get(small.url + "/v1/catalogue")
            assert status == 200
            seen.append(int(body))

    in_threads(16, work)
    assert sorted(seen) == list(range(1, 161))


# ---------------------------------------------------------------- state machines and tasks


def test_state_machines_are_those_of_the_files(small: LocalSystem, inbox: Inbox) -> None:
    machine = small.runtime.settings.run_state_machine
    described = small.runtime.clients.stepfunctions.describe_state_machine(stateMachineArn=machine)
    assert function_arn("two_words") in described["definition"]
    small.runtime.clients.stepfunctions.start_execution(
        stateMachineArn=machine, name=secrets.token_hex(8), input=json.dumps({"number": 21})
    )
    received = [inbox.get(lambda event: "number" in event) for _ in range(2)]
    assert received == [{"number": 21}, {"number": 42}]


def test_the_products_definitions_are_complete_after_substitution() -> None:
    for path in resources.STATE_MACHINES.glob("*.asl.json"):
        text = resources.definition(path.read_text(encoding="utf-8"))
        assert "${" not in text, path
        assert any(function_arn(name) in text for name in ("workflow", "lifecycle", "reconciler")), path


def run_task(system: LocalSystem, sandbox: str, **more: Any) -> Any:
    environment = {
        "WORKBENCH_SANDBOX": sandbox,
        "WORKBENCH_SECRET": "s3cret",
        "WORKBENCH_ROUTE": "http://127.0.0.1:1/v1/sandbox",
        "LANG": "C.UTF-8",
        **more.pop("environment", {}),
    }
    return system.runtime.clients.ecs.run_task(
        cluster=system.runtime.settings.sandbox_cluster,
        taskDefinition=system.runtime.settings.sandbox_task_definition,
        startedBy=sandbox,
        overrides={
            "containerOverrides": [
                {
                    "name": "sandbox",
                    "environment": [{"name": name, "value": value} for name, value in environment.items()],
                }
            ]
        },
        **more,
    )


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Child]]:
    """The processes that a test's tasks started."""
    made: list[Child] = []
    stock = Child.__init__

    def remember(self: Child) -> None:
        stock(self)
        made.append(self)

    monkeypatch.setattr(Child, "__init__", remember)
    yield made
    for child in made:
        child.stop()
        child.wait()


def shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: shape(part) for key, part in value.items()}
    if isinstance(value, list):
        return [shape(part) for part in value[:1]]
    return type(value).__name__


def test_a_task_is_a_process_and_its_end_an_event(
    small: LocalSystem, inbox: Inbox, launcher: Launcher, children: list[Child]
) -> None:
    answer = run_task(small, "sbx_1")
    (task,) = answer["tasks"]
    assert (task["lastStatus"], task["startedBy"], answer["failures"]) == ("RUNNING", "sbx_1", [])
    assert launcher.started[-1] == ("sbx_1", "s3cret", "http://127.0.0.1:1/v1/sandbox", {"LANG": "C.UTF-8"})
    described = small.runtime.clients.ecs.describe_tasks(cluster="workbench-local", tasks=[task["taskArn"], "absent"])
    assert [found["taskArn"] for found in described["tasks"]] == [task["taskArn"]]
    assert described["failures"] == [{"arn": "absent", "reason": "MISSING"}]

    children[-1].finish()
    event = inbox.stopped("sbx_1")
    fixture = json.loads((FIXTURES / "ecs_task_stopped.json").read_text(encoding="utf-8"))
    assert shape(event) == shape(fixture)
    detail = event["detail"]
    assert detail["startedBy"] == "sbx_1"
    assert detail["taskArn"] == task["taskArn"] == event["resources"][0]
    assert (detail["lastStatus"], detail["containers"][0]["exitCode"]) == ("STOPPED", 3)


def test_stop_task_ends_the_process(small: LocalSystem, inbox: Inbox, children: list[Child]) -> None:
    task = run_task(small, "sbx_2")["tasks"][0]["taskArn"]
    small.runtime.clients.ecs.stop_task(cluster="workbench-local", task=task, reason="its run is over")
    event = inbox.stopped("sbx_2")
    assert (event["detail"]["startedBy"], event["detail"]["stoppedReason"]) == ("sbx_2", "its run is over")
    assert event["detail"]["containers"][0]["exitCode"] == -signal.SIGKILL
    small.runtime.clients.ecs.stop_task(cluster="workbench-local", task=task.rpartition("/")[2])
    with pytest.raises(ClientError, match="InvalidParameterException"):
        small.runtime.clients.ecs.stop_task(cluster="workbench-local", task="absent")


def test_a_client_token_starts_one_task(small: LocalSystem, children: list[Child]) -> None:
    first, second = (run_task(small, "sbx_3", clientToken="token-1") for _ in range(2))
    assert first["tasks"][0]["taskArn"] == second["tasks"][0]["taskArn"]
    assert len(children) == 1


def test_a_task_that_cannot_start_is_a_failure_with_its_reason(small: LocalSystem, launcher: Launcher) -> None:
    launcher.refuses = RuntimeError("user namespaces are switched off; run as root")
    try:
        answer = run_task(small, "sbx_4")
    finally:
        launcher.refuses = None
    assert answer["tasks"] == []
    assert answer["failures"][0]["reason"] == "user namespaces are switched off; run as root"


def test_overrides_are_as_short_as_ecs_takes(small: LocalSystem) -> None:
    answer = run_task(small, "sbx_5", environment={"FILLER": "x" * 9000})
    assert "8192" in answer["failures"][0]["reason"]
    assert run_task(small, "sbx_6", environment={"WORKBENCH_SECRET": ""})["failures"]


def test_stopping_the_system_ends_the_sandboxes(
    stopped: None, folders: tuple[Path, Path], inbox: Inbox, children: list[Child]
) -> None:
    with LocalSystem(*folders).start(start_sandbox=lambda *_request: Child()) as system:
        run_task(system, "sbx_7")
        assert children[0].process.poll() is None
    assert children[0].process.wait(WAIT_SECONDS) == -signal.SIGKILL
    # Nobody is left to be told.
    assert not [event for event in list(inbox.events.queue) if event.get("detail", {}).get("startedBy") == "sbx_7"]


def test_what_is_at_work_when_it_stops_ends_without_a_word(
    stopped: None,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Nothing is given up here: it has to end by itself.
    monkeypatch.setattr(local.system, "STOP_SECONDS", WAIT_SECONDS)
    before = set(threading.enumerate())
    held: set[str] = set()
    both_held = threading.Event()

    def hold(_service: str, operation: str) -> None:
        # A deletion that removes objects and a heartbeat of a run: until nobody waits any more.
        if operation in ("DeleteObjects", "SendTaskHeartbeat"):
            held.add(operation)
            if len(held) == 2:
                both_held.set()
            system.runtime.clock.sleep(WAIT_SECONDS)

    with LocalSystem().start(sandbox="unsafe") as system:
        api = Api(system.url)
        deleted, running = (Talk.open(api, name, ["write_file", "run_code"]) for name in ("deleted", "running"))
        deleted.ok("write_file", path="a.txt", content="x")
        system.runtime.clients.hook = hold
        assert running.send("run_code", {"code": "while True: pass"}, wait=0).json["outcome"] == "running"
        assert api("DELETE", "/v1/conversations/deleted").status == 202
        assert both_held.wait(WAIT_SECONDS)
        began = time.monotonic()
    assert time.monotonic() - began < END_SECONDS < WAIT_SECONDS
    for thread in set(threading.enumerate()) - before:
        # Those of executors wait for work as long as their executor is there.
        if not thread.name.startswith(("aws", "tool")):
            thread.join(WAIT_SECONDS)
            assert not thread.is_alive(), thread
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert capfd.readouterr().err == ""


def test_without_sandboxes_a_task_says_so(stopped: None, folders: tuple[Path, Path]) -> None:
    with LocalSystem(*folders).start(sandbox="off") as system:
        assert "without sandboxes" in run_task(system, "sbx_8")["failures"][0]["reason"]


# ---------------------------------------------------------------- signed links


@pytest.fixture
def stored(small: LocalSystem) -> tuple[str, str]:
    """Bucket and key of an object."""
    bucket, key = small.runtime.settings.artifact_bucket, f"artifacts/{secrets.token_hex(4)}/ü 1"
    small.runtime.clients.s3.put_object(Bucket=bucket, Key=key, Body=b"0123456789", ContentType="text/html")
    return bucket, key


def sign(system: LocalSystem, method: str, stored: tuple[str, str], seconds: float = 60, **more: Any) -> str:
    parameters = {"Bucket": stored[0], "Key": stored[1], **more}
    url: str = system.runtime.clients.s3.generate_presigned_url(method, Params=parameters, ExpiresIn=seconds)
    return url


def test_a_signed_link_gives_the_object_and_the_headers_it_names(small: LocalSystem, stored: tuple[str, str]) -> None:
    url = sign(
        small,
        "get_object",
        stored,
        ResponseContentType="application/octet-stream",
        ResponseContentDisposition='attachment; filename="a.txt"',
    )
    assert url.startswith(small.url)
    status, headers, body = get(url)
    assert (status, body) == (200, b"0123456789")
    assert headers["content-type"] == "application/octet-stream"
    assert headers["content-disposition"] == 'attachment; filename="a.txt"'
    status, headers, body = get(url, headers={"Range": "bytes=2-4"})
    assert (status, body, headers["content-range"]) == (206, b"234", "bytes 2-4/10")


def test_expired_altered_and_misused_links_are_refused(small: LocalSystem, stored: tuple[str, str]) -> None:
    good = sign(small, "get_object", stored)
    stem, _dot, signature = good.rpartition(".")
    other = sign(small, "get_object", (stored[0], "artifacts/other")).rpartition(".")[0]
    for url, method in (
        (sign(small, "get_object", stored, seconds=-1), "GET"),
        (good[:-2] + ("AA" if good[-2:] != "AA" else "BB"), "GET"),
        (f"{other}.{signature}", "GET"),
        (stem, "GET"),
        (f"{stem}.%ff", "GET"),
        (good, "PUT"),
        (good, "DELETE"),
    ):
        status, _headers, body = get(url, method)
        assert (status, json.loads(body)["error"]["code"]) == (403, "forbidden"), url
    assert get(good)[0] == 200
    missing = sign(small, "get_object", (stored[0], "artifacts/none"))
    assert get(missing)[0] == 404


def test_a_signed_upload_stores_what_was_agreed(small: LocalSystem, stored: tuple[str, str]) -> None:
    url = sign(small, "put_object", stored, ContentType="text/plain")
    assert get(url, "PUT", b"new", {"content-type": "text/html"})[0] == 403
    status, headers, _body = get(url, "PUT", b"new", {"content-type": "text/plain"})
    assert status == 200 and headers["etag"]
    assert small.runtime.clients.s3.get_object(Bucket=stored[0], Key=stored[1])["Body"].read() == b"new"
    with pytest.raises(ValueError, match="cannot be signed"):
        sign(small, "delete_object", stored)


def test_why_links_are_made_here() -> None:
    """moto serves a link whatever its signature says; once it checks, the gateway need not."""
    from moto import mock_aws

    with mock_aws():
        session = botocore.session.get_session()
        session.set_credentials("test", "test")
        s3 = session.create_client("s3", region_name="eu-central-1")
        resources.create_bucket(s3, "links", versioning=False)
        s3.put_object(Bucket="links", Key="k", Body=b"x")
        stock: str = s3.generate_presigned_url("get_object", Params={"Bucket": "links", "Key": "k"}, ExpiresIn=-100)
        import requests

        assert requests.get(stock + "0", timeout=WAIT_SECONDS).content == b"x"
        SignedLinks(s3, lambda: "http://127.0.0.1:1")
        assert s3.generate_presigned_url("get_object", Params={}, ExpiresIn=1).startswith("http://127.0.0.1:1/signed/")


# ---------------------------------------------------------------- the command


class Serving:
    """``workbench serve`` as a process."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "local.cli", "serve", *arguments]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )

    def ready(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        prefix = "workbench ready on http://127.0.0.1:"
        assert line.startswith(prefix) and line.endswith("\n") and line[len(prefix) : -1].isdigit(), line
        return line.removeprefix("workbench ready on ").strip()

    def end(self, number: int) -> tuple[int, str, str]:
        """Exit status, and what else was written on stdout and stderr; fails when the end does not come."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=END_SECONDS)
        return self.process.returncode, out, err


@pytest.fixture
def serving() -> Iterator[Callable[..., Serving]]:
    started: list[Serving] = []

    def serve(*arguments: str) -> Serving:
        started.append(Serving(*arguments))
        return started[-1]

    yield serve
    for server in started:
        if server.process.poll() is None:
            server.process.kill()
            server.process.communicate()


def test_serve_says_when_it_answers_and_ends_when_told(serving: Callable[..., Serving]) -> None:
    server = serving("--port", "0")
    url = server.ready()
    created = get(url + "/v1/conversations", "POST", b'{"owner": "u", "department": "d"}')
    assert created[0] == 201, created
    missing = get(url + "/v1/nothing")
    assert (missing[0], json.loads(missing[2])["error"]["code"]) == (404, "not_found")
    # A client that keeps its connection open must not hold the end up; the gateway would for a while.
    assert IDLE_SECONDS > END_SECONDS
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port)):
        assert server.end(signal.SIGTERM) == (0, "", "")


def free_port() -> int:
    """A port that nobody listens on, and that is given to nobody who asks for any: those come from above."""
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(lowest // 2, lowest)
        with contextlib.suppress(OSError), contextlib.closing(socket.create_server(("127.0.0.1", port))):
            return port


def test_serve_takes_the_port_it_is_given_or_says_why_not(serving: Callable[..., Serving]) -> None:
    port = free_port()
    server = serving("--port", str(port), "--unsafe-sandbox", "--verbose")
    assert server.ready() == f"http://127.0.0.1:{port}"
    second = serving("--port", str(port))
    out, err = second.process.communicate(timeout=120)
    assert (second.process.returncode, out) == (1, "")
    assert f"cannot listen on port {port}" in err
    get(f"http://127.0.0.1:{port}/v1/conversations", "POST", b'{"owner": "u", "department": "d"}')
    status, out, err = server.end(signal.SIGINT)
    assert (status, out) == (0, "")
    assert "conversation.create" in err


def descendants(pid: int) -> list[int]:
    """The processes that ``pid`` has started, and theirs."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for ancestor in found:
        found += [child for child, parent in parents.items() if parent == ancestor]
    return found[1:]


def test_serve_takes_its_sandboxes_with_it(serving: Callable[..., Serving]) -> None:
    server = serving("--unsafe-sandbox")
    url = server.ready()

    def post(path: str, body: Any, **headers: str) -> Any:
        status, _headers, answer = get(url + path, "POST", json.dumps(body).encode(), headers)
        assert status < 300, answer
        return json.loads(answer)

    post("/v1/conversations", {"id": "c", "owner": "u", "department": "d"})
    caller = {"user": "u", "department": "d"}
    opened = post("/v1/conversations/c/turns", {"caller": caller, "tools": ["run_code"], "model": {"name": "m"}})
    call = {
        "callId": "r",
        "arguments": {"code": "print('here', flush=True)\nimport time\ntime.sleep(600)", "timeoutSeconds": 600},
        "wait": 0,
    }
    path = f"/v1/turns/{opened['turn']['id']}/tools/run_code"
    run = post(path, call, **{"X-Turn-Token": opened["token"]})["structured"]["run"]
    deadline = time.monotonic() + 60
    while "here" not in (shown := json.loads(get(f"{url}/v1/runs/{run}?wait=1")[2])["run"])["output"]["stdout"]:
        assert shown["answer"] is None and time.monotonic() < deadline, shown

    handles = []
    for pid in descendants(server.process.pid):
        with contextlib.suppress(ProcessLookupError):
            handles.append(os.pidfd_open(pid))
    assert len(handles) >= 2
    assert server.end(signal.SIGTERM)[0] == 0
    for handle in handles:
        ready, _, _ = select.select([handle], [], [], END_SECONDS)
        os.close(handle)
        assert ready, "a process of the sandbox is still there"


@pytest.mark.parametrize(
    "arguments", [["serve", "--port", "70000"], ["serve", "--port", "x"], ["nonsense"], [], ["serve", "extra"]]
)
def test_the_command_refuses_what_it_cannot_do(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(arguments)
    assert refused.value.code == 2
    assert "usage: workbench" in capsys.readouterr().err


def test_the_stopped_function_is_the_products() -> None:
    assert (resources.FUNCTIONS / STOPPED_FUNCTION / "handler.py").is_file()
