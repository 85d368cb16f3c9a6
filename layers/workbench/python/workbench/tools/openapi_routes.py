"""What the OpenAPI document says of each route beyond its docstring: parameters, bodies, answers, failures. Data only.

A route that is missing here is still in the document, with what its key and its docstring tell; a test says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from workbench.tools.openapi_shapes import (
    ANYTHING,
    APPROVAL_ID,
    ARTIFACT_ID,
    COLLECTION_ID,
    CONVERSATION_ID,
    COUNT,
    DOCUMENT_ID,
    FLAG,
    NAME,
    NAMES,
    NUMBER,
    PERSON,
    RECONCILIATION_ID,
    RESULT_REF,
    RUN_ID,
    SEMVER,
    SHA256,
    TEXT,
    TIME,
    TURN_ID,
    UPLOAD_ID,
    Schema,
    array,
    choice,
    named,
    or_null,
    record,
    told,
)

MONTH = r"^20[0-9]{2}-(0[1-9]|1[0-2])$"
PEOPLE_HEADERS = ("X-Workbench-User", "X-Workbench-Department", "X-Workbench-Groups")

# The parameters of paths, by name: the same name means the same everywhere.
PATH_PARAMETERS: dict[str, Schema] = {
    "conversation": CONVERSATION_ID,
    "turn": TURN_ID,
    "run": RUN_ID,
    "ref": RESULT_REF,
    "approval": APPROVAL_ID,
    "artifact": ARTIFACT_ID,
    "document": DOCUMENT_ID,
    "collection": COLLECTION_ID,
    "a": told(COUNT, "A version of the workspace; 0 is the empty one."),
    "b": told(COUNT, "A version of the workspace; 0 is the empty one."),
    "n": told(COUNT, "A version of the workspace; 0 is the empty one."),
    "v": told({"type": "integer", "minimum": 1}, "A version of the artifact."),
    "w": told({"type": "integer", "minimum": 1}, "A version of the artifact."),
    "user": NAME,
    "reconciliation": RECONCILIATION_ID,
    "name": told({"type": "string", "minLength": 1, "maxLength": 64}, "The name of a skill or a prompt."),
    "tool": told({"type": "string", "minLength": 1}, "A tool's name."),
}


@dataclass(frozen=True)
class Query:
    """A parameter of the query."""

    name: str
    schema: Schema
    description: str
    required: bool = False


@dataclass(frozen=True)
class Described:
    """One route. ``body`` is JSON's, ``raw`` says that the body is bytes; an ``answer`` of None is bytes too.

    ``scoped`` routes speak for the person that headers name, ``token`` routes need the turn's token.
    """

    title: str
    answer: Schema | None
    status: int = 200
    query: tuple[Query, ...] = ()
    body: Schema | None = None
    raw: bool = False
    failures: tuple[int, ...] = ()
    scoped: bool = False
    token: bool = False
    media_types: tuple[str, ...] = field(default=("application/octet-stream",))


_CONVERSATION = record({"conversation": named("Conversation")})
_PATH = Query("path", {"type": "string", "minLength": 1}, "Workspace path, percent-encoded once.", required=True)
_BATCH = {"type": "integer", "minimum": 1, "maximum": 5_000}
_PAGE = {"type": "integer", "minimum": 1, "maximum": 1_000_000}
_NAMES_PAGED = (
    Query("limit", {"type": "integer", "minimum": 1, "maximum": 1_000}, "At most so many; 100 when left out."),
    Query("after", TEXT, "Only names behind this one."),
)
_OF_VERSION = Query("version", TEXT, "The version to show; the latest when left out.")


def _withdrawn(what: str) -> Schema:
    return record({what: record({"name": TEXT, "withdrawn": told(array(TEXT), "The versions that there were.")})})


ROUTES_DESCRIBED: dict[str, Described] = {
    "POST /v1/conversations": Described(
        "Create a conversation",
        _CONVERSATION,
        201,
        body=record({"owner": PERSON, "department": NAME}, {"id": CONVERSATION_ID}),
        failures=(409,),
    ),
    "GET /v1/conversations": Described(
        "List a person's conversations",
        record(
            {"conversations": array(named("Conversation"))}, {"next": told(TEXT, "Ask again with this as `after`.")}
        ),
        query=(
            Query("owner", NAME, "Whose conversations to list; the asking person's when left out."),
            Query("after", {"type": "string", "maxLength": 400}, "Only what follows."),
        ),
        failures=(403,),
        scoped=True,
    ),
    "GET /v1/conversations/{conversation}": Described("Show a conversation", _CONVERSATION, failures=(404,)),
    "DELETE /v1/conversations/{conversation}": Described(
        "Delete a conversation", _CONVERSATION, 202, failures=(404, 409)
    ),
    "POST /v1/conversations/{conversation}/restore": Described(
        "Restore a deleted conversation", _CONVERSATION, failures=(404, 409)
    ),
    "POST /v1/conversations/{conversation}/turns": Described(
        "Open a turn",
        record({"turn": named("Turn"), "token": told(TEXT, "What X-Turn-Token carries. It is stored nowhere.")}),
        201,
        body=named("TurnToOpen"),
        failures=(404, 409),
    ),
    "POST /v1/turns/{turn}/finish": Described(
        "Finish a turn",
        record({"reply": named("Reply"), "receipt": named("Receipt")}),
        body=record({"outcome": choice("completed", "failed", "cancelled")}, {"text": or_null(TEXT)}),
        failures=(404, 409),
    ),
    "GET /v1/turns/{turn}/trace": Described(
        "Read a turn's trace", record({"steps": array(named("Step"))}), failures=(404, 409)
    ),
    "GET /v1/turns/{turn}/receipt": Described(
        "Read a turn's receipt", record({"receipt": named("Receipt")}), failures=(404, 409)
    ),
    "GET /v1/conversations/{conversation}/files": Described(
        "List the workspace's files",
        record(
            {
                "version": COUNT,
                "files": array(named("File")),
                "totals": record({"files": COUNT, "bytes": COUNT}),
                "limits": record({"files": COUNT, "bytes": COUNT}),
            },
            {"next": told(TEXT, "Ask again with this as `after`.")},
        ),
        query=(
            Query("limit", _BATCH, "At most so many files; 1,000 when left out."),
            Query("after", TEXT, "Only paths behind this one."),
        ),
        failures=(404, 409),
    ),
    "GET /v1/conversations/{conversation}/file": Described(
        "Get a file's bytes", None, query=(_PATH,), failures=(404, 409)
    ),
    "PUT /v1/conversations/{conversation}/file": Described(
        "Store a file", record({"version": COUNT, "file": named("File")}), query=(_PATH,), raw=True, failures=(404, 409)
    ),
    "GET /v1/conversations/{conversation}/versions": Described(
        "List the workspace's versions", record({"versions": array(named("Version"))}), failures=(404, 409)
    ),
    "GET /v1/conversations/{conversation}/versions/{a}/diff/{b}": Described(
        "Compare two versions", record({"changes": array(named("Change"))}), failures=(404, 409)
    ),
    "POST /v1/conversations/{conversation}/versions/{n}/restore": Described(
        "Restore a version", record({"version": COUNT}), failures=(404, 409)
    ),
    "GET /v1/results/{ref}": Described(
        "Page through a stored result",
        named("Result"),
        query=(
            Query("offset", COUNT, "The character to begin at, counted from 0."),
            Query("limit", _PAGE, "How many characters to return at most."),
        ),
        failures=(401, 404, 409),
        token=True,
    ),
    "POST /v1/results/{ref}/capture": Described(
        "Keep a result as an artifact",
        record({"artifact": named("Artifact")}),
        201,
        body=record({}, {"name": or_null(told(TEXT, "A bare file name; made of tool and call when left out."))}),
        failures=(401, 404, 409),
        token=True,
    ),
    "GET /v1/runs/{run}": Described(
        "Show a run",
        record({"run": named("Run")}),
        query=(Query("wait", NUMBER, "Seconds to wait for the run's end."),),
        failures=(404,),
    ),
    "GET /v1/catalogue": Described(
        "List the tools",
        record({"tools": array(ANYTHING)}),
        query=(
            Query("format", choice("workbench", "openai", "anthropic", "bedrock", "mcp"), "`workbench` when left out."),
            Query("turn", TURN_ID, "Only the tools of this turn, described for it."),
        ),
        failures=(404,),
    ),
    "GET /v1/openapi.json": Described("This document", record({"openapi": TEXT, "info": ANYTHING, "paths": ANYTHING})),
    "POST /v1/replay": Described(
        "Cut written documents from messages",
        record({"messages": array(ANYTHING)}),
        body=record({"turn": TURN_ID, "messages": array(ANYTHING)}),
        failures=(404, 409),
    ),
    "GET /v1/approvals": Described(
        "List approvals",
        record({"approvals": array(named("Approval"))}),
        query=(Query("conversation", CONVERSATION_ID, "Whose parked calls to list.", required=True),),
        failures=(404, 409),
    ),
    "POST /v1/approvals/{approval}": Described(
        "Decide an approval",
        record({"approval": named("Approval")}),
        body=record(
            {"decision": choice("allow", "deny"), "by": {**NAME, "maxLength": 128}},
            {"scope": choice("once", "turn", "conversation", "person")},
        ),
        failures=(404, 409),
    ),
    "GET /v1/artifacts": Described(
        "List artifacts",
        record({"artifacts": array(named("Artifact"))}, {"next": told(ARTIFACT_ID, "Ask again with this as `after`.")}),
        query=(
            Query("conversation", TEXT, "Those of this conversation; of the person when left out."),
            Query("person", NAME, "Whose artifacts to list; the asking person's when left out."),
            Query("state", choice("all"), "Also what nobody may use any more, with its state. For the portal only."),
            Query("limit", {"type": "integer", "minimum": 1, "maximum": 1_000}, "At most so many; 500 when left out."),
            Query("after", ARTIFACT_ID, "Only what follows this one."),
        ),
        failures=(403, 404, 409),
        scoped=True,
    ),
    "GET /v1/artifacts/{artifact}": Described(
        "Show an artifact",
        record({"artifact": named("Artifact")}),
        query=(Query("state", choice("all"), "In whatever state, with what is stored of it. For the portal only."),),
        failures=(403, 404),
        scoped=True,
    ),
    "GET /v1/artifacts/{artifact}/versions/{v}/content": Described(
        "Download a version of an artifact", None, failures=(404,), scoped=True, media_types=("*/*",)
    ),
    "GET /v1/artifacts/{artifact}/versions/{v}/diff/{w}": Described(
        "Compare two versions of an artifact",
        record(
            {"artifact": ARTIFACT_ID, "from": COUNT, "to": COUNT, "diff": or_null(told(TEXT, "Unified."))},
            {"note": told(TEXT, "Why there is no diff.")},
        ),
        failures=(404,),
        scoped=True,
    ),
    "PUT /v1/artifacts/{artifact}/sharing": Described(
        "Share an artifact",
        record({"artifact": named("Artifact")}),
        body=record({}, {"people": or_null(NAMES), "departments": or_null(NAMES), "everyone": or_null(FLAG)}),
        failures=(403, 404),
        scoped=True,
    ),
    "POST /v1/uploads": Described(
        "Ask for a signed upload",
        record({"upload": UPLOAD_ID, "url": TEXT, "headers": {"type": "object"}, "expiresAt": TIME}),
        201,
        body=record(
            {"for": choice("document", "file", "skill")},
            {"bytes": or_null(COUNT), "sha256": or_null(SHA256), "mediaType": or_null(TEXT)},
        ),
    ),
    "PUT /v1/skills/{name}": Described(
        "Push a skill", record({"skill": named("Skill"), "created": FLAG}), raw=True, failures=(404, 409)
    ),
    "GET /v1/skills": Described(
        "List the skills",
        record({"skills": array(named("Skill"))}, {"next": told(TEXT, "Ask again with this as `after`.")}),
        query=_NAMES_PAGED,
    ),
    "GET /v1/skills/{name}": Described(
        "Show a skill", record({"skill": named("Skill")}), query=(_OF_VERSION,), failures=(404,)
    ),
    "DELETE /v1/skills/{name}": Described("Withdraw a skill", _withdrawn("skill"), failures=(404, 409)),
    "POST /v1/skills/match": Described(
        "Match skills to a text",
        record({"matches": array(record({"name": TEXT, "score": NUMBER, "mentioned": FLAG}))}),
        body=record({"text": TEXT}, {"turn": or_null(TURN_ID)}),
        failures=(404, 409),
    ),
    "PUT /v1/prompts/{name}": Described(
        "Publish a prompt",
        record({"prompt": named("Prompt"), "created": FLAG}),
        body=record({"template": TEXT}, {"version": or_null(SEMVER)}),
        failures=(404, 409),
    ),
    "GET /v1/prompts": Described(
        "List the prompts",
        record({"prompts": array(named("Prompt"))}, {"next": told(TEXT, "Ask again with this as `after`.")}),
        query=_NAMES_PAGED,
    ),
    "GET /v1/prompts/{name}": Described(
        "Show a prompt", record({"prompt": named("Prompt")}), query=(_OF_VERSION,), failures=(404,)
    ),
    "DELETE /v1/prompts/{name}": Described("Withdraw a prompt", _withdrawn("prompt"), failures=(404, 409)),
    "POST /v1/prompts/{name}/render": Described(
        "Fill in a prompt",
        record({"text": TEXT, "name": TEXT, "version": TEXT}),
        body=record(
            {},
            {
                "vars": or_null(told(ANYTHING, "Texts go in as they are, anything else as JSON.")),
                "version": or_null(SEMVER),
                "variants": or_null(
                    array(
                        record({"name": TEXT}, {"version": or_null(SEMVER), "weight": or_null(NUMBER)}),
                        minItems=1,
                        maxItems=20,
                    )
                ),
                "conversation": or_null(CONVERSATION_ID),
                "turn": or_null(TURN_ID),
            },
        ),
        failures=(404, 409),
    ),
    "POST /v1/documents": Described(
        "Upload a document",
        record({"document": named("Document")}),
        201,
        body=named("DocumentToUpload"),
        failures=(403, 404, 409),
        scoped=True,
    ),
    "GET /v1/documents": Described(
        "List the documents of a collection",
        record({"documents": array(named("Document"))}, {"next": told(TEXT, "Ask again with this as `after`.")}),
        query=(
            Query("collection", COLLECTION_ID, "Whose documents to list.", required=True),
            Query("limit", {"type": "integer", "minimum": 1, "maximum": 200}, "At most so many; 50 when left out."),
            Query("after", DOCUMENT_ID, "Only documents behind this one."),
        ),
        failures=(404,),
        scoped=True,
    ),
    "GET /v1/documents/{document}": Described(
        "Show a document", record({"document": named("Document")}), failures=(404,), scoped=True
    ),
    "GET /v1/documents/{document}/passages": Described(
        "Read a document's passages",
        record(
            {
                "document": DOCUMENT_ID,
                "name": TEXT,
                "total": COUNT,
                "offset": COUNT,
                "passages": array(named("Passage")),
            },
            {"next": told(COUNT, "Ask again with this as `offset`.")},
        ),
        query=(
            Query("offset", {**COUNT, "maximum": 1_000_000}, "How many passages to skip."),
            Query("limit", {"type": "integer", "minimum": 1, "maximum": 500}, "At most so many; 50 when left out."),
        ),
        failures=(404,),
        scoped=True,
    ),
    "DELETE /v1/documents/{document}": Described(
        "Remove a document for good",
        record({"document": named("Document")}),
        failures=(403, 404, 409),
        scoped=True,
    ),
    "GET /v1/collections": Described(
        "List the collections of a person and a department",
        record({"collections": array(named("Collection"))}),
        query=(
            Query("owner", NAME, "Whose collections to list, when no header names a person."),
            Query("department", NAME, "Which department's, when no header names a person."),
        ),
        scoped=True,
    ),
    "GET /v1/collections/{collection}": Described(
        "Show a collection", record({"collection": named("Collection")}), failures=(404,), scoped=True
    ),
    "DELETE /v1/collections/{collection}": Described(
        "Remove a collection with everything in it",
        record({"collection": named("Collection")}),
        failures=(403, 404),
        scoped=True,
    ),
    "GET /v1/usage": Described(
        "Show what a department stores",
        record({"usage": array(record({"person": TEXT, "bytes": COUNT, "byteHours": NUMBER}))}),
        query=(
            Query("department", TEXT, "Whose people to list; that of the asking person when left out."),
            Query("month", {"type": "string", "pattern": MONTH}, "`yyyy-mm`; the current one when left out."),
        ),
        scoped=True,
    ),
    "GET /v1/people/{user}": Described(
        "Count what is a person's",
        record({"person": record({"user": TEXT, "erasing": FLAG, "counts": ANYTHING})}),
        failures=(404,),
    ),
    "POST /v1/people/{user}/erase": Described(
        "Erase everything of a person",
        record({"erasure": named("Erasure")}),
        202,
        query=(Query("wait", NUMBER, "Seconds to wait for the end before answering; 15 when left out, and at most."),),
        failures=(404,),
    ),
    "GET /v1/people/{user}/erase": Described(
        "Show how far an erasure is", record({"erasure": named("Erasure")}), failures=(404,)
    ),
    "POST /v1/reconciliations": Described(
        "Look for what nothing names",
        record({"reconciliation": named("Reconciliation")}),
        202,
        body=record({}, {"dryRun": told(or_null(FLAG), "False also removes what is found; true when left out.")}),
        failures=(403,),
    ),
    "GET /v1/reconciliations/{reconciliation}": Described(
        "Show what a reconciliation found", record({"reconciliation": named("Reconciliation")}), failures=(403, 404)
    ),
    "POST /v1/turns/{turn}/tools/{tool}": Described(
        "Call a tool by a name that no other route has",
        named("ToolAnswer"),
        body=named("ToolCall"),
        failures=(401, 404, 409),
        token=True,
    ),
}
