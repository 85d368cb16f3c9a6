"""Who may do what. Each function's role holds exactly the statements listed for its step kind or its name.

Read the three tables at the end first. A statement names its actions one by one. Resources are exact but for the part
of an object key that does not exist before a conversation does; items are narrowed to the kinds of partition a function
works on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from aws_cdk import aws_iam as iam

from workbench.reconciling.api import executions


@dataclass(frozen=True)
class Places:
    """ARNs of the deployed resources."""

    table: str
    workspaces: str
    artifacts: str
    run_machine: str
    delete_machine: str
    reconcile_machine: str
    task_family: str = ""
    cluster: str = ""
    cluster_tasks: str = ""
    execution_role: str = ""
    classifier_model: str = ""
    # What the ARNs of this deployment's functions begin with.
    functions: str = ""


@dataclass(frozen=True)
class Grant:
    """One statement. ``because`` says why its resources end in a wildcard; a grant without it may hold none."""

    sid: str
    actions: tuple[str, ...]
    resources: Callable[[Places], list[str]]
    conditions: Callable[[Places], dict[str, dict[str, object]]] = field(default=lambda _places: {})
    because: str = ""

    def statement(self, places: Places) -> iam.PolicyStatement:
        return iam.PolicyStatement(
            sid=self.sid,
            actions=list(self.actions),
            resources=self.resources(places),
            conditions=self.conditions(places) or None,
        )


READ_ITEMS = ("dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query")
WRITE_ITEMS = ("dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:ConditionCheckItem")
# Kinds of partitions, as docs/architecture.md lists them.
CONVERSATIONS, RUNS, SANDBOXES, POOL = "C#*", "R#*", "SBX#*", "POOL"
ARTIFACTS, PEOPLE, USAGE = "A#*", "P#*", "U#*"
COLLECTIONS, DEPARTMENTS = "COL#*", "D#*"
UPLOADS = "UP#*"
SKILLS, SKILL_NAMES, PROMPTS, PROMPT_NAMES = "SKILL#*", "SKILLS", "PROMPT#*", "PROMPTS"
KEYS_OF_CONTENT = "Keys end in a content hash or the id of a conversation, which do not exist at deployment"


def items(sid: str, *actions: str, of: tuple[str, ...]) -> Grant:
    """``actions`` on the items whose partition key is of one of the kinds ``of``, and on no others."""
    return Grant(sid, actions, lambda places: [places.table], lambda _places: _leading(of))


def index(sid: str, *, of: tuple[str, ...]) -> Grant:
    """Find keys by whom they belong to."""
    return Grant(sid, ("dynamodb:Query",), lambda places: [f"{places.table}/index/gsi1"], lambda _places: _leading(of))


def _leading(kinds: tuple[str, ...]) -> dict[str, dict[str, object]]:
    return {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": list(kinds)}}


def workspace_objects(sid: str, *actions: str, under: tuple[str, ...]) -> Grant:
    """``actions`` on the workspace bucket's objects under the folders ``under``."""
    return Grant(
        sid, actions, lambda places: [f"{places.workspaces}/{folder}/*" for folder in under], because=KEYS_OF_CONTENT
    )


def artifact_objects(sid: str, *actions: str) -> Grant:
    """``actions`` on exported files."""
    return Grant(sid, actions, lambda places: [f"{places.artifacts}/artifacts/*"], because=KEYS_OF_CONTENT)


def document_objects(sid: str, *actions: str, files: bool = False) -> Grant:
    """``actions`` on documents' passages; with ``files`` also on the files, which are artifacts."""
    folders = ("documents", "artifacts") if files else ("documents",)
    return Grant(
        sid, actions, lambda places: [f"{places.artifacts}/{folder}/*" for folder in folders], because=KEYS_OF_CONTENT
    )


def invoke(sid: str, *folders: str) -> Grant:
    """Call the functions of these folders and wait for what they answer."""
    return Grant(sid, ("lambda:InvokeFunction",), lambda places: [f"{places.functions}{folder}" for folder in folders])


def answer_the_run_workflow(*outcomes: str) -> Grant:
    """Complete or extend a waiting state of RunCode."""
    return Grant("AnswerTheRunWorkflow", tuple(f"states:{name}" for name in outcomes), lambda p: [p.run_machine])


# S3 says 404 for what is gone only to those who may list, and 403 to others, as for what is forbidden.
LIST_WORKSPACES = Grant("TellGoneWorkspaces", ("s3:ListBucket",), lambda places: [places.workspaces])
LIST_ARTIFACTS = Grant("TellGoneArtifacts", ("s3:ListBucket",), lambda places: [places.artifacts])
LIST_VERSIONS = Grant("FindDeleteMarkers", ("s3:ListBucketVersions",), lambda places: [places.artifacts])

# The call path of every tool: the items of a call in one batch, one final write, a large answer beside it.
TOOL_CALL = (
    items("CallItems", *READ_ITEMS, *WRITE_ITEMS, of=(CONVERSATIONS,)),
    items("ApprovalsOfAPerson", "dynamodb:Query", of=(PEOPLE,)),
    workspace_objects("LargeResults", "s3:GetObject", "s3:PutObject", under=("results",)),
)
READ_RESULTS = workspace_objects("ReadLargeResults", "s3:GetObject", under=("results",))
READ_WORKSPACES = (workspace_objects("ReadWorkspaces", "s3:GetObject", under=("conversations",)), LIST_WORKSPACES)
WRITE_WORKSPACES = workspace_objects("WriteWorkspaces", "s3:PutObject", under=("conversations",))
STAGED = ("tmp/runs",)
# The routes that bytes are uploaded for read them once and remove them.
TAKE_UPLOADS = (
    items("TakeUploads", "dynamodb:GetItem", "dynamodb:UpdateItem", of=(UPLOADS,)),
    workspace_objects("ReadUploads", "s3:GetObject", "s3:DeleteObject", under=("tmp/uploads",)),
)
INDEXES = workspace_objects("Indexes", "s3:GetObject", "s3:PutObject", "s3:DeleteObject", under=("indexes",))
ARTIFACT_ITEMS = items("ArtifactItems", *READ_ITEMS, of=(ARTIFACTS,))
READ_ARTIFACTS = (artifact_objects("ReadArtifacts", "s3:GetObject"), LIST_ARTIFACTS)
DOCUMENT_ITEMS = items("DocumentItems", "dynamodb:BatchGetItem", of=(COLLECTIONS,))
READ_INDEXES = workspace_objects("ReadIndexes", "s3:GetObject", under=("indexes",))
SKILL_ITEMS = items("SkillVersions", "dynamodb:BatchGetItem", of=(SKILLS,))
READ_SKILLS = workspace_objects("ReadSkills", "s3:GetObject", under=("skills",))
# Nothing may be made for a person while everything of theirs is being erased.
PERSON_FENCE = items("PersonFence", "dynamodb:ConditionCheckItem", of=(PEOPLE,))
# Stored bytes are added to and taken off the bill of the owner's department.
BILL = items("Bill", "dynamodb:UpdateItem", of=(USAGE,))
STOP_RUNS = answer_the_run_workflow("SendTaskFailure")
START_RUNS = Grant("StartTheRunWorkflow", ("states:StartExecution",), lambda places: [places.run_machine])
START_DELETION = Grant("StartDeletion", ("states:StartExecution",), lambda places: [places.delete_machine])
START_RECONCILING = Grant("StartReconciling", ("states:StartExecution",), lambda places: [places.reconcile_machine])
WATCH_RECONCILING = Grant(
    "WatchReconciling",
    ("states:DescribeExecution",),
    lambda places: [f"{executions(places.reconcile_machine)}:*"],
    because="Executions get their names when they start; the machine is named",
)

START_SANDBOXES = Grant(
    "StartSandboxes",
    ("ecs:RunTask",),
    lambda places: [f"{places.task_family}:*"],
    lambda places: {"ArnEquals": {"ecs:cluster": places.cluster}},
    because="Every deployment of a new image makes a revision; the family is named",
)
STOP_SANDBOXES = Grant(
    "StopSandboxes",
    ("ecs:StopTask",),
    lambda places: [f"{places.cluster_tasks}/*"],
    because="Tasks get their ids when they start; the cluster is named",
)
# ECS pulls the image with this role. No other role can be handed to a task, so that no override of RunTask can give a
# sandbox more than the right to pull its own image.
PASS_THE_EXECUTION_ROLE = Grant(
    "PassTheExecutionRole",
    ("iam:PassRole",),
    lambda places: [places.execution_role],
    lambda _places: {"StringEquals": {"iam:PassedToService": "ecs-tasks.amazonaws.com"}},
)
# Only where a deployment names a model, and only calls that change something.
ASK_THE_CLASSIFIER = Grant("AskTheClassifier", ("bedrock:InvokeModel",), lambda places: [places.classifier_model])
EVALUATE_JAVASCRIPT = invoke("EvaluateJavascript", "javascript")
# Removing what a deleted conversation leaves, and the marks that its artifacts get or lose.
REMOVAL = (
    items("Removal", *READ_ITEMS, *WRITE_ITEMS, "dynamodb:BatchWriteItem", of=(CONVERSATIONS, RUNS)),
    items("ExpiryOfArtifacts", *READ_ITEMS, "dynamodb:UpdateItem", of=(ARTIFACTS,)),
    LIST_WORKSPACES,
    workspace_objects("RemoveWorkspaces", "s3:DeleteObject", under=("conversations", "results", "tmp")),
    LIST_VERSIONS,
    STOP_RUNS,
)

# What a tool may do follows from its step kind …
STEP_GRANTS: dict[str, tuple[Grant, ...]] = {
    "compute": TOOL_CALL,
    "search": TOOL_CALL,
    "read": (*TOOL_CALL, *READ_WORKSPACES),
    "write": (*TOOL_CALL, *READ_WORKSPACES, WRITE_WORKSPACES),
    "run": (
        *TOOL_CALL,
        items("RunItems", *READ_ITEMS, *WRITE_ITEMS, of=(RUNS, POOL)),
        items("PlaceOfARun", "dynamodb:DeleteItem", of=(CONVERSATIONS,)),
        ARTIFACT_ITEMS,
        DOCUMENT_ITEMS,
        SKILL_ITEMS,
        workspace_objects("StageTheProgram", "s3:PutObject", under=STAGED),
        START_RUNS,
    ),
    "export": (
        *TOOL_CALL,
        *READ_WORKSPACES,
        items("ExportItems", *READ_ITEMS, *WRITE_ITEMS, of=(ARTIFACTS,)),
        PERSON_FENCE,
        BILL,
        artifact_objects("WriteArtifacts", "s3:PutObject", "s3:PutObjectTagging"),
    ),
}

# … and, for what only some tools of a kind touch, from its name.
TOOL_GRANTS: dict[str, tuple[Grant, ...]] = {
    "search_files": READ_WORKSPACES,
    "search_docs": (DOCUMENT_ITEMS, READ_INDEXES, LIST_WORKSPACES),
    "run_javascript": (EVALUATE_JAVASCRIPT,),
    "list_artifacts": (ARTIFACT_ITEMS,),
    "read_artifact": (ARTIFACT_ITEMS, *READ_ARTIFACTS),
    "load_skill": (SKILL_ITEMS, READ_SKILLS),
}

# Functions that are no tools: the API's groups of routes and the internal ones.
FUNCTION_GRANTS: dict[str, tuple[Grant, ...]] = {
    "conversations": (
        *REMOVAL,
        START_DELETION,
        PERSON_FENCE,
        artifact_objects("RemoveMarkers", "s3:DeleteObjectVersion"),
        index("ConversationsOfAPerson", of=(PEOPLE,)),
    ),
    "turns": (
        items("TurnItems", *READ_ITEMS, *WRITE_ITEMS, of=(CONVERSATIONS, RUNS, ARTIFACTS)),
        items("OfferedDocuments", "dynamodb:BatchGetItem", "dynamodb:Query", of=(COLLECTIONS, PEOPLE)),
        items("OfferedSkills", "dynamodb:BatchGetItem", of=(SKILLS, SKILL_NAMES)),
        items("ExpiredVersions", "dynamodb:BatchWriteItem", of=(ARTIFACTS, CONVERSATIONS)),
        artifact_objects("AttachFiles", "s3:PutObjectTagging"),
        # Finishing thins a history that is past its limits.
        *READ_WORKSPACES,
        workspace_objects("ThinHistories", "s3:DeleteObject", under=("conversations",)),
        PERSON_FENCE,
        BILL,
        STOP_RUNS,
    ),
    "files": (
        items("FileItems", *READ_ITEMS, *WRITE_ITEMS, of=(CONVERSATIONS,)),
        *READ_WORKSPACES,
        WRITE_WORKSPACES,
        *TAKE_UPLOADS,
    ),
    # What the function signs is done with its own rights.
    "uploads": (
        items("NewUploads", "dynamodb:PutItem", of=(UPLOADS,)),
        workspace_objects("SignUploads", "s3:PutObject", under=("tmp/uploads",)),
    ),
    "results": (items("ResultItems", *READ_ITEMS, of=(CONVERSATIONS,)), READ_RESULTS),
    "captures": (
        items("CaptureItems", *READ_ITEMS, *WRITE_ITEMS, of=(CONVERSATIONS, ARTIFACTS)),
        READ_RESULTS,
        PERSON_FENCE,
        BILL,
        artifact_objects("WriteArtifacts", "s3:PutObject", "s3:PutObjectTagging"),
    ),
    "runs": (items("RunItems", *READ_ITEMS, of=(CONVERSATIONS, RUNS)), READ_RESULTS),
    "catalogue": (items("TurnItems", *READ_ITEMS, of=(CONVERSATIONS,)),),
    "replay": (items("CallItems", "dynamodb:BatchGetItem", of=(CONVERSATIONS,)),),
    "artifacts": (
        items("ArtifactItems", *READ_ITEMS, of=(CONVERSATIONS, ARTIFACTS)),
        items("Sharing", "dynamodb:UpdateItem", of=(ARTIFACTS,)),
        index("ArtifactsOfAPerson", of=(PEOPLE,)),
        LIST_VERSIONS,
        *READ_ARTIFACTS,
    ),
    "documents": (
        items("DocumentItems", *READ_ITEMS, *WRITE_ITEMS, "dynamodb:BatchWriteItem", of=(COLLECTIONS,)),
        items(
            "CollectionsOfOwners",
            "dynamodb:GetItem",
            "dynamodb:Query",
            "dynamodb:PutItem",
            "dynamodb:DeleteItem",
            of=(PEOPLE, DEPARTMENTS),
        ),
        items("RemovedDocuments", "dynamodb:DeleteItem", of=(COLLECTIONS,)),
        items("UploadedFiles", *READ_ITEMS, *WRITE_ITEMS, "dynamodb:BatchWriteItem", of=(ARTIFACTS,)),
        # Which department pays for a person whose department the request does not say.
        index("WhereAPersonWorks", of=(PEOPLE,)),
        items("DepartmentOfAPerson", "dynamodb:BatchGetItem", of=(CONVERSATIONS,)),
        PERSON_FENCE,
        BILL,
        document_objects("KeepDocuments", "s3:PutObject", "s3:PutObjectTagging", "s3:DeleteObjectVersion", files=True),
        document_objects("ReadPassages", "s3:GetObject"),
        LIST_ARTIFACTS,
        LIST_VERSIONS,
        INDEXES,
        LIST_WORKSPACES,
        *TAKE_UPLOADS,
    ),
    "approvals": (items("ApprovalItems", *READ_ITEMS, *WRITE_ITEMS, of=(CONVERSATIONS, PEOPLE)),),
    "fallback": TOOL_CALL,
    "workflow": (
        items("RunItems", *READ_ITEMS, *WRITE_ITEMS, "dynamodb:DeleteItem", of=(CONVERSATIONS, RUNS, SANDBOXES, POOL)),
        workspace_objects("Workspaces", "s3:GetObject", "s3:PutObject", under=("conversations", *STAGED, "results")),
        LIST_WORKSPACES,
        workspace_objects("RemoveWhatWasStaged", "s3:DeleteObject", under=STAGED),
        START_SANDBOXES,
        STOP_SANDBOXES,
        PASS_THE_EXECUTION_ROLE,
        invoke("WakeTheKeeper", "pool_keeper"),
        answer_the_run_workflow("SendTaskSuccess", "SendTaskFailure"),
    ),
    "pool_keeper": (
        items("WaitingSandboxes", *READ_ITEMS, "dynamodb:PutItem", "dynamodb:UpdateItem", of=(POOL, SANDBOXES)),
        START_SANDBOXES,
        STOP_SANDBOXES,
        PASS_THE_EXECUTION_ROLE,
    ),
    "sandbox_route": (
        items("SandboxItems", *READ_ITEMS, *WRITE_ITEMS, of=(CONVERSATIONS, RUNS, SANDBOXES)),
        workspace_objects("Workspaces", "s3:GetObject", "s3:PutObject", under=("conversations", *STAGED)),
        LIST_WORKSPACES,
        *READ_ARTIFACTS,
        document_objects("ReadPassages", "s3:GetObject"),
        READ_SKILLS,
        answer_the_run_workflow("SendTaskSuccess", "SendTaskFailure", "SendTaskHeartbeat"),
    ),
    "task_stopped": (
        items("SandboxItems", *READ_ITEMS, "dynamodb:UpdateItem", of=(RUNS, SANDBOXES)),
        STOP_RUNS,
    ),
    "skills": (
        items("SkillItems", *READ_ITEMS, "dynamodb:PutItem", "dynamodb:UpdateItem", of=(SKILLS, SKILL_NAMES)),
        # Matching for a turn asks which skills it was offered.
        items("SkillsOfATurn", "dynamodb:BatchGetItem", of=(CONVERSATIONS,)),
        workspace_objects("KeepSkills", "s3:PutObject", "s3:DeleteObject", under=("skills",)),
        LIST_WORKSPACES,
        *TAKE_UPLOADS,
    ),
    # Beside it, infra/skills.py lets it read the bundles of its own deployment, each by its address.
    "deployed_skills": (
        items("SkillItems", "dynamodb:BatchGetItem", "dynamodb:PutItem", of=(SKILLS, SKILL_NAMES)),
        workspace_objects("KeepSkills", "s3:PutObject", under=("skills",)),
    ),
    "prompts": (
        items("PromptItems", *READ_ITEMS, "dynamodb:PutItem", "dynamodb:UpdateItem", of=(PROMPTS, PROMPT_NAMES)),
        # The turn's trace says which prompt was used, and a conversation keeps the variant that it was given.
        items(
            "PromptsOfATurn",
            "dynamodb:GetItem",
            "dynamodb:BatchGetItem",
            "dynamodb:PutItem",
            "dynamodb:ConditionCheckItem",
            of=(CONVERSATIONS,),
        ),
    ),
    # It goes the way that everybody goes, and reads what the sandbox said of itself.
    "sandbox_check": (
        invoke("GoTheUsualWay", "conversations", "turns", "run_code", "javascript"),
        items("SelfReport", "dynamodb:GetItem", of=(RUNS,)),
    ),
    "usage": (items("ReadBills", "dynamodb:Query", of=(USAGE,)),),
    "artifact_removed": (
        items("RemovedArtifacts", "dynamodb:GetItem", "dynamodb:UpdateItem", of=(ARTIFACTS,)),
        # The news is of a marker or of bytes: only the bucket tells.
        LIST_VERSIONS,
        BILL,
    ),
    "people": (
        items("Erasures", "dynamodb:GetItem", "dynamodb:PutItem", of=(PEOPLE,)),
        index("HoldingsOfAPerson", of=(PEOPLE,)),
        START_DELETION,
    ),
    # What it starts has the rights to look and to remove; it has none of them.
    "reconciliations": (START_RECONCILING, WATCH_RECONCILING),
    "lifecycle": (
        *REMOVAL,
        artifact_objects("PutMarkers", "s3:DeleteObject"),
        # Erasing a person leaves no version of a file behind, and no record of theirs.
        index("ThingsOfAPerson", of=(PEOPLE,)),
        items("ErasedRecords", *READ_ITEMS, "dynamodb:UpdateItem", "dynamodb:BatchWriteItem", of=(PEOPLE, ARTIFACTS)),
        items(
            "ErasedDocuments",
            *READ_ITEMS,
            "dynamodb:UpdateItem",
            "dynamodb:DeleteItem",
            "dynamodb:BatchWriteItem",
            of=(COLLECTIONS, PEOPLE),
        ),
        document_objects("EraseFiles", "s3:DeleteObjectVersion", files=True),
        workspace_objects("EraseIndexes", "s3:DeleteObject", under=("indexes",)),
        BILL,
    ),
    "reconciler": (
        Grant("AllKeysOfTheIndex", ("dynamodb:Scan",), lambda places: [f"{places.table}/index/gsi1"]),
        items("OwnersOfObjects", *READ_ITEMS, of=(CONVERSATIONS, ARTIFACTS, RUNS, PEOPLE, POOL, "COL#*", "SKILL#*")),
        items("StalledWork", *WRITE_ITEMS, "dynamodb:DeleteItem", of=(CONVERSATIONS, RUNS, POOL)),
        items("OverdueRecords", "dynamodb:UpdateItem", "dynamodb:BatchWriteItem", of=(CONVERSATIONS, ARTIFACTS)),
        *READ_WORKSPACES,
        workspace_objects(
            "RemoveWhatNothingNames", "s3:DeleteObject", under=("conversations", "results", "indexes", "skills")
        ),
        # Uploads and removals of documents that a crash left half done.
        items(
            "AbandonedDocuments",
            "dynamodb:UpdateItem",
            "dynamodb:DeleteItem",
            "dynamodb:BatchWriteItem",
            of=(COLLECTIONS, PEOPLE, DEPARTMENTS),
        ),
        INDEXES,
        # An index that was lost is filled again from them.
        document_objects("ReadPassages", "s3:GetObject"),
        LIST_ARTIFACTS,
        LIST_VERSIONS,
        Grant(
            "RemoveFilesThatNothingNames",
            ("s3:DeleteObjectVersion",),
            lambda places: [f"{places.artifacts}/{folder}/*" for folder in ("artifacts", "documents")],
            because=KEYS_OF_CONTENT,
        ),
        START_DELETION,
        BILL,
    ),
}


def granted_to(function: str) -> tuple[Grant, ...]:
    """The grants of a function that is no tool; LookupError says where to write those of a new one."""
    if function not in FUNCTION_GRANTS:
        raise LookupError(f"Nothing says what the function {function} may do: add it to FUNCTION_GRANTS in {__name__}.")
    return FUNCTION_GRANTS[function]
