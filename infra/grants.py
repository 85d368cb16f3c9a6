"""Who may do what. Each function's role holds exactly the statements listed for its step kind or its name.

Read the three tables at the end first. A statement names its actions one by one; the only wildcards are the parts of a
key or partition that are not known before a conversation exists.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aws_cdk import aws_iam as iam


@dataclass(frozen=True)
class Places:
    """ARNs of the deployed resources."""

    table: str
    workspaces: str
    artifacts: str
    run_machine: str
    delete_machine: str
    task_family: str = ""
    cluster: str = ""
    execution_role: str = ""


Grant = Callable[[Places], iam.PolicyStatement]

READ_ITEMS = ("dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query")
WRITE_ITEMS = ("dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:ConditionCheckItem")
DELETE_ITEMS = ("dynamodb:DeleteItem", "dynamodb:BatchWriteItem")
# Partition kinds of the table, as docs/architecture.md lists them.
CONVERSATIONS, RUNS, SANDBOXES, ARTIFACTS, PEOPLE, POOL = "C#*", "R#*", "SBX#*", "A#*", "P#*", "POOL"


def items(sid: str, *actions: str, of: tuple[str, ...]) -> Grant:
    """``actions`` on the items whose partition key begins as one of ``of``, and on no others."""

    def statement(places: Places) -> iam.PolicyStatement:
        return iam.PolicyStatement(
            sid=sid,
            actions=list(actions),
            resources=[places.table],
            conditions={"ForAllValues:StringLike": {"dynamodb:LeadingKeys": list(of)}},
        )

    return statement


def index(sid: str, *, of: tuple[str, ...]) -> Grant:
    """Find the keys that belong to a person."""

    def statement(places: Places) -> iam.PolicyStatement:
        return iam.PolicyStatement(
            sid=sid,
            actions=["dynamodb:Query"],
            resources=[f"{places.table}/index/gsi1"],
            conditions={"ForAllValues:StringLike": {"dynamodb:LeadingKeys": list(of)}},
        )

    return statement


def workspace_objects(sid: str, *actions: str, under: tuple[str, ...]) -> Grant:
    """``actions`` on the workspace bucket's objects under the folders ``under``."""
    return lambda places: iam.PolicyStatement(
        sid=sid, actions=list(actions), resources=[f"{places.workspaces}/{folder}/*" for folder in under]
    )


def artifact_objects(sid: str, *actions: str) -> Grant:
    """``actions`` on the artifact bucket's exported files."""
    return lambda places: iam.PolicyStatement(
        sid=sid, actions=list(actions), resources=[f"{places.artifacts}/artifacts/*"]
    )


def start(sid: str, machine: Callable[[Places], str]) -> Grant:
    """Start one state machine."""
    return lambda places: iam.PolicyStatement(sid=sid, actions=["states:StartExecution"], resources=[machine(places)])


def _answer_tasks(*actions: str) -> Grant:
    return lambda places: iam.PolicyStatement(
        sid="AnswerTheRunWorkflow", actions=[f"states:{action}" for action in actions], resources=[places.run_machine]
    )


def _run_one_task_family(places: Places) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        sid="StartSandboxes",
        actions=["ecs:RunTask"],
        resources=[f"{places.task_family}:*"],
        conditions={"ArnEquals": {"ecs:cluster": places.cluster}},
    )


def _pass_the_execution_role(places: Places) -> iam.PolicyStatement:
    # ECS pulls the image with it. No other role can be handed to a task, so an override cannot give a sandbox more.
    return iam.PolicyStatement(
        sid="PassTheExecutionRole",
        actions=["iam:PassRole"],
        resources=[places.execution_role],
        conditions={"StringEquals": {"iam:PassedToService": "ecs-tasks.amazonaws.com"}},
    )


def _list_bucket(sid: str, *actions: str, bucket: Callable[[Places], str]) -> Grant:
    return lambda places: iam.PolicyStatement(sid=sid, actions=list(actions), resources=[bucket(places)])


def _workspaces(places: Places) -> str:
    return places.workspaces


def _artifacts(places: Places) -> str:
    return places.artifacts


# The call path of every tool: the items of a call in one batch, one final write, a large answer beside it.
CALL_ITEMS = items("CallItems", *READ_ITEMS, *WRITE_ITEMS, of=(CONVERSATIONS,))
KEEP_RESULTS = workspace_objects("KeepLargeResults", "s3:GetObject", "s3:PutObject", under=("results",))
TOOL_CALL = (CALL_ITEMS, KEEP_RESULTS)

READ_WORKSPACES = workspace_objects("ReadWorkspaces", "s3:GetObject", under=("conversations",))
WRITE_WORKSPACES = workspace_objects("WriteWorkspaces", "s3:PutObject", under=("conversations",))
ARTIFACT_ITEMS = items("ArtifactItems", *READ_ITEMS, of=(ARTIFACTS,))
READ_ARTIFACTS = artifact_objects("ReadArtifacts", "s3:GetObject")

# What a tool may do follows from its step kind …
STEP_GRANTS: dict[str, tuple[Grant, ...]] = {
    "compute": TOOL_CALL,
    "search": (*TOOL_CALL, READ_WORKSPACES),
    "read": (*TOOL_CALL, READ_WORKSPACES),
    "write": (*TOOL_CALL, READ_WORKSPACES, WRITE_WORKSPACES),
    "run": (
        *TOOL_CALL,
        READ_WORKSPACES,
        items("RunItems", *READ_ITEMS, *WRITE_ITEMS, of=(RUNS, POOL)),
        workspace_objects("StageInputs", "s3:PutObject", under=("tmp/runs",)),
        start("StartTheRunWorkflow", lambda places: places.run_machine),
    ),
    "export": (
        *TOOL_CALL,
        READ_WORKSPACES,
        items("ExportItems", *READ_ITEMS, *WRITE_ITEMS, of=(ARTIFACTS, PEOPLE)),
        artifact_objects("WriteArtifacts", "s3:GetObject", "s3:PutObject", "s3:PutObjectTagging"),
    ),
}

# … and, for two tools that read more than a workspace, from its name.
TOOL_GRANTS: dict[str, tuple[Grant, ...]] = {
    "list_artifacts": (ARTIFACT_ITEMS,),
    "read_artifact": (ARTIFACT_ITEMS, READ_ARTIFACTS),
}

# Functions that are no tools: the API's groups of routes and the internal ones.
FUNCTION_GRANTS: dict[str, tuple[Grant, ...]] = {
    "conversations": (
        items("Conversations", *READ_ITEMS, *WRITE_ITEMS, of=(CONVERSATIONS, ARTIFACTS)),
        start("StartDeletion", lambda places: places.delete_machine),
        _list_bucket("FindMarkers", "s3:ListBucketVersions", bucket=_artifacts),
        artifact_objects("RemoveMarkers", "s3:DeleteObjectVersion"),
    ),
    "turns": (
        items("TurnItems", *READ_ITEMS, *WRITE_ITEMS, of=(CONVERSATIONS, RUNS, ARTIFACTS)),
        artifact_objects("AttachFiles", "s3:GetObjectTagging", "s3:PutObjectTagging"),
        _answer_tasks("SendTaskFailure"),
    ),
    "files": (
        items("FileItems", *READ_ITEMS, *WRITE_ITEMS, of=(CONVERSATIONS,)),
        READ_WORKSPACES,
        WRITE_WORKSPACES,
    ),
    "results": (items("ResultItems", *READ_ITEMS, of=(CONVERSATIONS,)), KEEP_RESULTS),
    "runs": (items("RunItems", *READ_ITEMS, of=(CONVERSATIONS, RUNS)), KEEP_RESULTS),
    "catalogue": (items("TurnItems", *READ_ITEMS, of=(CONVERSATIONS,)),),
    "artifacts": (
        items("ArtifactItems", *READ_ITEMS, of=(CONVERSATIONS, ARTIFACTS)),
        index("ArtifactsOfAPerson", of=(PEOPLE,)),
        READ_ARTIFACTS,
    ),
    "approvals": (items("ApprovalItems", *READ_ITEMS, *WRITE_ITEMS, of=(CONVERSATIONS, PEOPLE)),),
    "fallback": (CALL_ITEMS,),
    "workflow": (
        items("RunItems", *READ_ITEMS, *WRITE_ITEMS, *DELETE_ITEMS, of=(CONVERSATIONS, RUNS, SANDBOXES, POOL)),
        workspace_objects("Workspaces", "s3:GetObject", "s3:PutObject", under=("conversations", "tmp/runs", "results")),
        workspace_objects("RemoveStagedInputs", "s3:DeleteObject", under=("tmp/runs",)),
        READ_ARTIFACTS,
        _run_one_task_family,
        _pass_the_execution_role,
        _answer_tasks("SendTaskSuccess", "SendTaskFailure"),
    ),
    "sandbox_route": (
        items("SandboxItems", *READ_ITEMS, *WRITE_ITEMS, of=(CONVERSATIONS, RUNS, SANDBOXES, POOL)),
        READ_WORKSPACES,
        workspace_objects("PartsOfARun", "s3:GetObject", "s3:PutObject", under=("tmp/runs",)),
        _answer_tasks("SendTaskSuccess", "SendTaskFailure", "SendTaskHeartbeat"),
    ),
    "task_stopped": (
        items("SandboxItems", *READ_ITEMS, *WRITE_ITEMS, of=(RUNS, SANDBOXES)),
        _answer_tasks("SendTaskFailure"),
    ),
    "lifecycle": (
        items("ConversationItems", *READ_ITEMS, *WRITE_ITEMS, *DELETE_ITEMS, of=(CONVERSATIONS, RUNS, ARTIFACTS)),
        _list_bucket("FindObjects", "s3:ListBucket", bucket=_workspaces),
        workspace_objects("RemoveWorkspaces", "s3:DeleteObject", under=("conversations", "results", "tmp")),
        _list_bucket("FindVersions", "s3:ListBucketVersions", bucket=_artifacts),
        artifact_objects("PutMarkers", "s3:DeleteObject"),
        _answer_tasks("SendTaskFailure"),
    ),
}
