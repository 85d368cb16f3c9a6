"""Every request that a function sends to AWS is one that its role allows.

The local system runs the deployed handlers through a conversation's whole life. What they send is recorded before it
leaves and held against the policies of the templates: a missing permission would only show in the cloud otherwise.
"""

from __future__ import annotations

import base64
import contextvars
import http.client
import io
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import botocore.session
import pytest
from PIL import Image

from local.functions import REGION, LocalFunctions, function_name
from local.system import LocalSystem
from tests.infra.iam import EXECUTION_ROLE, PLACE, Need, Policies, needs
from tests.infra.templates import ROOT, Deployment, as_list
from tests.local.cloudformation import waiting
from tests.local.reconciled import DAY_SECONDS, shifted, wait_for_deletions
from tests.skill_zips import skill_md, zipped
from workbench.reconciling.artifacts import DAYS_OF_A_ROUND
from workbench.retrieval.index_cache import IndexCache

FOLDERS = {path.name for path in (ROOT / "functions").iterdir() if (path / "handler.py").exists()}
# The attributes of Clients that hold a client.
SERVICES = ("dynamodb", "s3", "stepfunctions", "ecs", "lambda_")
# It asks nothing of AWS, and may not.
POWERLESS = {"javascript"}
WAIT_SECONDS = 120
# CDK's bucket; which of its objects may be read is tested where a deployment has some (test_skills.py).
ASSETS = "assets-of-a-stack"
_function: contextvars.ContextVar[str] = contextvars.ContextVar("function", default="")

Asked = set[tuple[str, Need]]
Api = Callable[..., Any]


@pytest.fixture(scope="module")
def asked(alone: None) -> Iterator[tuple[LocalSystem, Asked]]:
    """A local system, and every (function, need) of what its functions ask of AWS."""
    asked: Asked = set()

    def hear(params: Mapping[str, Any], model: Any, **_more: Any) -> None:
        # Requests made outside a function are the local system's own.
        if function := _function.get():
            needed = needs(model.service_model.service_name, model.name, params)
            asked.update((function, need) for need in needed if ASSETS not in need.resource)

    def call(self: LocalFunctions, name: str, event: Any) -> Any:
        token = _function.set(function_name(name))
        try:
            return plain_call(self, name, event)
        finally:
            _function.reset(token)

    plain_call = LocalFunctions.call
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalFunctions, "call", call)
        # Nothing is kept in memory or on disk, so that every read is a request; the first finish thins the history.
        # Runs find a warm sandbox, or none. Whoever waits for one does so until it is over, on a busy machine too.
        settings = {"cache_bytes": 1, "history_versions": 8, "warm_sandboxes": 1, "longest_wait_seconds": 55}
        with LocalSystem().start(settings=settings) as system:
            _hear_what_is_signed(system, asked)
            for service in SERVICES:
                getattr(system.runtime.clients, service).meta.events.register_first("provide-client-params.*.*", hear)
            s3 = system.runtime.clients.s3
            s3.create_bucket(Bucket=ASSETS, CreateBucketConfiguration={"LocationConstraint": REGION})
            s3.put_object(Bucket=ASSETS, Key="brought.zip", Body=zipped({"SKILL.md": skill_md("brought")}))
            _live(_api(system.url), lambda: not _deletions_at_work(system))
            _reconcile(system, _api(system.url))
            # A copy: whatever goes on in the background asks on.
            yield system, set(asked)


def test_roles_allow_everything_that_functions_ask(deployment: Deployment, asked: tuple[LocalSystem, Asked]) -> None:
    system, needed = asked
    policies = Policies(deployment, _local_names(deployment, system))
    refused = sorted(f"{function}: {need}" for function, need in needed if not policies.allow(function, need))
    assert refused == []


def test_every_function_had_its_part(asked: tuple[LocalSystem, Asked]) -> None:
    assert {function for function, _need in asked[1]} == FOLDERS - POWERLESS


def test_every_permission_on_objects_tasks_and_workflows_is_needed_by_somebody(
    deployment: Deployment, asked: tuple[LocalSystem, Asked]
) -> None:
    system, needed = asked
    policies = Policies(deployment, _local_names(deployment, system))
    given: dict[tuple[str, str], bool] = {}
    for function in FOLDERS:
        mine = [need for asker, need in needed if asker == function]
        for statement in deployment.statements_of(function):
            for action in as_list(statement["Action"]):
                used = any(need.action == action and policies.allows(statement, need) for need in mine)
                given[statement["Sid"], action] = used or given.get((statement["Sid"], action), False)
    idle = {
        key for key, used in given.items() if not used and key[0] != "OwnLog" and not key[1].startswith("dynamodb:")
    }
    assert idle == set()


# ---------------------------------------------------------------- a conversation's whole life


def _live(api: Api, deletions_over: Callable[[], bool]) -> None:
    """Call every tool and every route, and let everything happen that touches items or objects of another kind."""
    api("POST", "/v1/conversations", {"id": "life", "owner": "ada", "department": "research"}, expect=201)
    turn, token = _open(api)
    tool = _tools(api, turn, token)
    _work_with_files(api, tool, token)
    _ask_for_approval(api, tool)
    _search_documents(api, tool)
    _use_documents(api, tool)
    _use_skills(api)
    _use_prompts(api, turn)
    tool("no_such_tool", expect="unknown_tool")
    artifact = _run_and_export(api, tool)
    api("POST", f"/v1/turns/{turn}/finish", {"outcome": "completed", "text": "Here it is."})
    for part in ("trace", "receipt"):
        api("GET", f"/v1/turns/{turn}/{part}")
    api("GET", f"/v1/catalogue?turn={turn}")
    api("POST", "/v1/replay", {"turn": turn, "messages": []})
    _look_around(api, artifact)
    _cancel_a_run(api)
    # A deletion that has ended before the restore, one that a restore overtakes, one that finds a run at work.
    for wait_for in (deletions_over, lambda: True):
        api("DELETE", "/v1/conversations/life", expect=202)
        _until(wait_for)
        _until(lambda: "conversation" in api("POST", "/v1/conversations/life/restore", expect=None))
    _start_a_run(api)
    api("DELETE", "/v1/conversations/life", expect=202)
    _until(deletions_over)
    _erase_a_person(api)
    _until(deletions_over)
    api("GET", "/v1/usage?department=research")
    functions = botocore.session.get_session().create_client("lambda", region_name=REGION)
    with waiting() as stack:
        event = stack.event("Create", Name="brought", Digest="x", Bucket=ASSETS, Key="brought.zip")
        functions.invoke(FunctionName="deployed_skills", Payload=json.dumps(event).encode())
        assert stack.answers[0]["Status"] == "SUCCESS", stack.answers
    checked = functions.invoke(FunctionName="sandbox_check", Payload=b"{}")
    assert "FunctionError" not in checked, checked["Payload"].read()


def _work_with_files(api: Api, tool: Api, token: str) -> None:
    drawing = io.BytesIO()
    Image.frombytes("RGB", (800, 800), os.urandom(3 * 800 * 800)).save(drawing, "PNG")
    api("PUT", "/v1/conversations/life/file?path=picture.png", drawing.getvalue())
    tool("write_file", files=[{"path": "notes.txt", "content": "one\ntwo\n"}])
    tool("list_files")
    tool("read_file", paths=["notes.txt"])
    picture = tool("read_file", paths=["picture.png"])["ref"]
    tool("search_files", queries=["two"])
    tool("edit_file", path="notes.txt", edits=[{"find": "two", "replace": "three"}])
    tool("write_file", files=[{"path": "gone.txt", "content": "x\n"}])
    tool("delete_file", path="gone.txt")
    ref = tool("calculate", expressions=["1 + 1"])["ref"]
    tool("convert_units", value=1, **{"from": "km", "to": "m"})
    tool("current_time")
    tool("run_javascript", code="6 * 7")
    tool("read_result", ref=ref)
    tool("read_result", ref=picture)
    tool("write_file", path="result.txt", source={"ref": ref})
    for stored in (ref, picture):
        api("GET", f"/v1/results/{stored}", headers={"X-Turn-Token": token})
        api("POST", f"/v1/results/{stored}/capture", {}, headers={"X-Turn-Token": token}, expect=201)


def _ask_for_approval(api: Api, tool: Api) -> None:
    secret = {"files": [{"path": ".env", "content": "KEY=1\n"}]}
    tool("write_file", call="parked", expect="approval_required", **secret)
    (waiting,) = api("GET", "/v1/approvals?conversation=life")["approvals"]
    api("POST", f"/v1/approvals/{waiting['id']}", {"decision": "allow", "scope": "person", "by": "ada"})
    tool("write_file", call="parked", **secret)
    tool("write_file", files=[{"path": ".env", "content": "KEY=2\n"}])


def _use_skills(api: Api) -> None:
    """One that is pushed in a request, used and withdrawn; one that goes through an upload."""
    demo = zipped({"SKILL.md": skill_md("demo"), "notes.md": "x"})
    api("PUT", "/v1/skills/demo", demo)
    upload = api("POST", "/v1/uploads", {"for": "skill"}, expect=201)
    sent = urlsplit(upload["url"])
    api("PUT", f"{sent.path}?{sent.query}", zipped({"SKILL.md": skill_md("other")}), headers=upload["headers"])
    api("PUT", "/v1/skills/other", {"upload": upload["upload"]})
    turn, token = _open(api, skills=["demo", "other@0.1.0"])
    tool = _tools(api, turn, token)
    tool("load_skill", name="demo")
    tool("load_skill", name="demo", path="notes.md")
    tool("run_code", code="print(open('skills/demo/notes.md').read())", skills=["demo"])
    for body in ({"text": "$demo"}, {"text": "$demo", "turn": turn}):
        api("POST", "/v1/skills/match", body)
    api("GET", "/v1/skills")
    api("GET", "/v1/skills/demo?version=0.1.0")
    api("DELETE", "/v1/skills/demo")


def _use_prompts(api: Api, turn: str) -> None:
    for version in ("1.0.0", "2.0.0"):
        api("PUT", "/v1/prompts/hello", {"template": "Hello {{ name }}", "version": version})
    variants = [{"name": "hello", "version": "1.0.0"}, {"name": "hello"}]
    for more in ({}, {"version": "1.0.0"}, {"variants": variants}, {"variants": variants, "turn": turn}):
        api("POST", "/v1/prompts/hello/render", {"vars": {"name": "Ada"}, **more})
    api("POST", "/v1/prompts/hello/render", {"vars": {"name": "Ada"}, "variants": variants, "conversation": "life"})
    api("GET", "/v1/prompts")
    api("GET", "/v1/prompts/hello")
    api("DELETE", "/v1/prompts/hello")


def _search_documents(api: Api, tool: Api) -> None:
    """Two collections, because the one that was indexed last is still on the disk that all functions share here."""
    for collection in ("first", "second"):
        document = {"collection": collection, "name": "limits.txt", "mediaType": "text/plain", "owner": "ada"}
        api("POST", "/v1/documents", document | {"data": base64.b64encode(b"Thirty days.").decode()}, expect=201)
    assert len(tool("search_docs", query="thirty days")["structured"]["passages"]) == 2


def _use_documents(api: Api, tool: Api) -> None:
    """A person's without and with a department, one that comes through an upload, a department's; all removed."""
    upload = api("POST", "/v1/uploads", {"for": "document"}, expect=201)
    api("PUT", urlsplit(upload["url"]).path, b"uploaded", headers=upload["headers"])
    sent = {"name": "a.txt", "upload": upload["upload"], "owner": "ada"}
    document = api("POST", "/v1/documents", sent, expect=201)["document"]
    shared = {"name": "b.txt", "data": "eA==", "department": "research", "collection": "handbook"}
    api("POST", "/v1/documents", shared, expect=201)
    for path in ("", "/passages"):
        api("GET", f"/v1/documents/{document['id']}{path}")
    api("GET", f"/v1/documents?collection={document['collection']}")
    api("GET", "/v1/collections?owner=ada&department=research")
    api("GET", "/v1/collections/handbook")
    tool("run_code", code="print(open('inputs/files/a.txt').read())", files=[document["id"]], passages=[document["id"]])
    _open(api, knowledge=[document["id"], "handbook"])
    api("DELETE", f"/v1/documents/{document['id']}")
    api("DELETE", "/v1/collections/handbook")


def _run_and_export(api: Api, tool: Api) -> str:
    exported = str(tool("export_artifact", path="notes.txt")["structured"]["artifact"])
    ref = tool("calculate", expressions=["2 * 3"])["ref"]
    program = "open('workspace/new.txt', 'w').write('made')"
    ran = tool("run_code", code=program, artifacts=[{"id": exported}], toolResults=[ref])["structured"]["run"]
    api("GET", f"/v1/runs/{ran}")
    tool("export_artifact", content="a,b\n1,2\n", name="table.csv", mediaType="text/csv")
    tool("export_artifact", path="new.txt", artifact=exported)
    tool("list_artifacts")
    tool("read_artifact", id=exported)
    return exported


def _look_around(api: Api, artifact: str) -> None:
    api("GET", "/v1/conversations/life")
    api("GET", "/v1/conversations/life/files")
    api("GET", "/v1/conversations/life/file?path=notes.txt")
    upload = api("POST", "/v1/uploads", {"for": "file"}, expect=201)
    api("PUT", urlsplit(upload["url"]).path, b"sent", headers=upload["headers"])
    api("PUT", "/v1/conversations/life/file?path=sent.txt", {"upload": upload["upload"]})
    newest = api("GET", "/v1/conversations/life/versions")["versions"][0]["version"]
    api("GET", f"/v1/conversations/life/versions/{newest - 1}/diff/{newest}")
    api("POST", f"/v1/conversations/life/versions/{newest - 1}/restore")
    api("GET", "/v1/artifacts?conversation=life")
    api("GET", "/v1/artifacts", headers={"X-Workbench-User": "ada", "X-Workbench-Department": "research"})
    api("GET", f"/v1/artifacts/{artifact}")
    api("GET", f"/v1/artifacts/{artifact}?state=all")
    api("GET", "/v1/conversations?owner=ada")
    api("GET", "/v1/people/ada")
    begun = api("POST", "/v1/reconciliations", {"dryRun": True}, expect=202)["reconciliation"]
    _until(lambda: api("GET", f"/v1/reconciliations/{begun['id']}")["reconciliation"]["status"] == "done")
    api("GET", f"/v1/artifacts/{artifact}/versions/1/content")
    api("GET", f"/v1/artifacts/{artifact}/versions/1/diff/2")
    api("PUT", f"/v1/artifacts/{artifact}/sharing", {"people": ["bob"], "departments": [], "everyone": False})


def _cancel_a_run(api: Api) -> None:
    turn, run = _start_a_run(api)
    api("POST", f"/v1/turns/{turn}/finish", {"outcome": "cancelled", "text": ""})
    _until(lambda: api("GET", f"/v1/runs/{run}?wait=5")["run"]["status"] == "failed")


def _start_a_run(api: Api) -> tuple[str, str]:
    """A run that prints and goes on; returns its turn and its id once a heartbeat has carried what it printed."""
    turn, token = _open(api)
    program = "import time; print('at work', flush=True); time.sleep(60)"
    begun = _tools(api, turn, token)("run_code", code=program, timeoutSeconds=90, wait=0, expect="running")
    run = begun["structured"]["run"]
    _until(lambda: "at work" in api("GET", f"/v1/runs/{run}?wait=0.2")["run"]["output"]["stdout"])
    return turn, run


def _open(api: Api, **more: Any) -> tuple[str, str]:
    body = {"caller": {"user": "ada", "department": "research"}, "tools": "all", "model": {"name": "m", "vision": True}}
    body |= more
    opened = api("POST", "/v1/conversations/life/turns", body, expect=201)
    return opened["turn"]["id"], opened["token"]


# ---------------------------------------------------------------- helpers


def _api(url: str) -> Api:
    address = urlsplit(url).netloc

    def send(
        method: str, path: str, body: Any = None, *, headers: Mapping[str, str] | None = None, expect: int | None = 200
    ) -> Any:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        connection = http.client.HTTPConnection(address, timeout=WAIT_SECONDS)
        try:
            connection.request(method, path, data, dict(headers or {}))
            response = connection.getresponse()
            raw = response.read()
        finally:
            connection.close()
        assert expect is None or response.status == expect, (method, path, response.status, raw[:1000])
        return json.loads(raw) if response.headers.get_content_type() == "application/json" else raw

    return send


def _tools(api: Api, turn: str, token: str) -> Api:
    count = iter(range(1_000))

    def use(used: str, /, *, call: str = "", wait: float = 55, expect: str = "ok", **arguments: Any) -> Any:
        body = {"callId": call or f"c{next(count)}", "arguments": arguments, "wait": wait}
        answer = api("POST", f"/v1/turns/{turn}/tools/{used}", body, headers={"X-Turn-Token": token})
        assert answer["outcome"] == expect, (used, answer)
        return answer

    return use


def _erase_a_person(api: Api) -> None:
    """One with a conversation of their own, and with a turn in somebody else's."""
    for conversation, owner in (("mine", "eve"), ("yours", "ada")):
        api("POST", "/v1/conversations", {"id": conversation, "owner": owner, "department": "sales"}, expect=201)
        body = {"caller": {"user": "eve", "department": "sales"}, "tools": "all"}
        opened = api("POST", f"/v1/conversations/{conversation}/turns", body, expect=201)
        tool = _tools(api, opened["turn"]["id"], opened["token"])
        tool("export_artifact", content="of eve")
    tool("run_code", code="import time; time.sleep(60)", wait=0, expect="running")
    api("POST", "/v1/documents", {"name": "e.txt", "data": "eA==", "owner": "eve"}, expect=201)
    api("POST", "/v1/people/eve/erase", expect=202)
    api("GET", "/v1/people/eve/erase")


def _hear_what_is_signed(system: LocalSystem, asked: Asked) -> None:
    """A link is used later by somebody else, with the rights of the function that signed it."""
    s3 = system.runtime.clients.s3
    sign = s3.generate_presigned_url

    def heard(method: str, Params: Mapping[str, Any], **more: Any) -> Any:
        operation = "".join(word.capitalize() for word in method.split("_"))
        asked.update((_function.get(), need) for need in needs("s3", operation, Params))
        return sign(method, Params, **more)

    s3.generate_presigned_url = heard


def _reconcile(system: LocalSystem, api: Api) -> None:
    """Two days after something of every kind was left behind."""
    api("POST", "/v1/conversations", {"id": "left", "owner": "ada", "department": "research"}, expect=201)
    api("PUT", "/v1/conversations/left/file?path=a.txt", b"kept")
    settings, s3 = system.runtime.settings, system.runtime.clients.s3
    for folder in ("conversations/left/blobs", "conversations/nobodys/blobs", "results/left/t", "indexes/gone"):
        s3.put_object(Bucket=settings.workspace_bucket, Key=f"{folder}/x", Body=b"x")
    s3.put_object(Bucket=settings.workspace_bucket, Key=f"skills/gone/1.0.0-{'r' * 16}", Body=b"x")
    for key in ("artifacts/art_gone/1", "documents/col/part/passages"):
        s3.put_object(Bucket=settings.artifact_bucket, Key=key, Body=b"x")
    document = {"owner": "ada", "collection": "lost", "name": "a.txt", "data": "eA=="}
    api("POST", "/v1/documents", document, expect=201)
    for entry in s3.list_objects_v2(Bucket=settings.workspace_bucket, Prefix="indexes/lost/")["Contents"]:
        s3.delete_object(Bucket=settings.workspace_bucket, Key=entry["Key"])
    # As in a function that has no copy of it.
    system.runtime.indexes = IndexCache(
        system.runtime.clients, settings.workspace_bucket, settings.cache_directory, settings.cache_bytes
    )
    turn = api(
        "POST", "/v1/conversations/left/turns", {"caller": {"user": "ada", "department": "research"}, "tools": "all"},
        expect=201,
    )  # fmt: skip
    tool = _tools(api, turn["turn"]["id"], turn["token"])
    tool("export_artifact", content="whose bytes are lost")
    told = tool("export_artifact", content="of which S3 tells that they are")["structured"]["artifact"]
    for entry in s3.list_object_versions(Bucket=settings.artifact_bucket, Prefix="artifacts/")["Versions"]:
        s3.delete_object(Bucket=settings.artifact_bucket, Key=entry["Key"], VersionId=entry["VersionId"])
    s3.put_object(Bucket=settings.artifact_bucket, Key="artifacts/art_gone/1", Body=b"x")
    functions = botocore.session.get_session().create_client("lambda", region_name=REGION)
    detail = {"object": {"key": f"artifacts/{told}/1"}, "deletion-type": "Permanently Deleted"}
    functions.invoke(FunctionName="artifact_removed", Payload=json.dumps({"detail": detail}).encode())
    # A deletion takes moments, not days: one that is at work when the clock jumps is begun again every day, and all of
    # them get in each other's way.
    wait_for_deletions(system)
    with shifted(system) as clock:
        clock.ahead = 2 * DAY_SECONDS
        for _day in range(DAYS_OF_A_ROUND):
            answer = functions.invoke(FunctionName="reconciler", Payload=b"{}")
            state = json.loads(answer["Payload"].read())
            assert state["done"] and not any(kind["failed"] for kind in state["counts"].values()), state
            wait_for_deletions(system)
            clock.ahead += DAY_SECONDS


def _until(done: Callable[[], Any]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not done():
        assert time.monotonic() < deadline, "it does not end"
        # Asking without a pause would keep the interpreter from those who are waited for.
        time.sleep(0.02)


def _deletions_at_work(system: LocalSystem) -> list[Any]:
    machine = system.runtime.settings.delete_state_machine
    answer = system.runtime.clients.stepfunctions.list_executions(stateMachineArn=machine, statusFilter="RUNNING")
    return list(answer["executions"])


def _local_names(deployment: Deployment, system: LocalSystem) -> dict[str, str]:
    """The deployed names in policies, and what the local system calls the same things."""
    settings = system.runtime.settings
    buckets = {bucket.id: bucket for bucket in deployment.of("AWS::S3::Bucket")}
    (artifacts,) = [name for name, bucket in buckets.items() if "VersioningConfiguration" in bucket.properties]
    (workspaces,) = set(buckets) - {artifacts}
    execution_role = deployment.one("AWS::ECS::TaskDefinition").properties["ExecutionRoleArn"]["Fn::GetAtt"][0]
    return {
        "<AWS::Partition>": "aws",
        "<AWS::Region>:<AWS::AccountId>": PLACE,
        f"<{deployment.one('AWS::DynamoDB::GlobalTable').id}.Arn>": f"arn:aws:dynamodb:{PLACE}:table/{settings.table}",
        f"<{workspaces}.Arn>": f"arn:aws:s3:::{settings.workspace_bucket}",
        f"<{artifacts}.Arn>": f"arn:aws:s3:::{settings.artifact_bucket}",
        f"<{deployment.one('AWS::ECS::Cluster').id}.Arn>": settings.sandbox_cluster,
        "workbench-run-code": settings.run_state_machine.rsplit(":", 1)[1],
        ":function:workbench-": ":function:",
        "workbench-delete-conversation": settings.delete_state_machine.rsplit(":", 1)[1],
        "workbench-reconcile": settings.reconcile_state_machine.rsplit(":", 1)[1],
        f"<{execution_role}.Arn>": EXECUTION_ROLE,
        ":task/workbench/": f":task/{settings.sandbox_cluster}/",
    }
