"""The shapes that the API's OpenAPI document names: JSON Schema (2020-12) of what goes in and comes out. Data only.

Answers may gain fields, so objects are open unless the API refuses unknown names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench import semver

Schema = dict[str, Any]

PART = r"[A-Za-z0-9_-]{1,64}"
REQUEST_CODES = (
    "unauthorized",
    "forbidden",
    "not_found",
    "conflict",
    "invalid_request",
    "too_large",
    "throttled",
    "internal",
)
OUTCOMES = (
    "ok",
    "error",
    "unknown_tool",
    "denied",
    "invalid_args",
    "circuit_open",
    "timeout",
    "approval_required",
    "running",
)
STEPS = ("read", "write", "run", "compute", "search", "export")
RATINGS = ("low", "moderate", "high", "dangerous")
KINDS = ("document", "chart", "web", "text", "file")


# ---------------------------------------------------------------- building blocks


def record(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None, **more: Any) -> Schema:
    """An object with these fields."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        **({"required": list(required)} if required else {}),
        **more,
    }


def array(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


def choice(*values: str) -> Schema:
    return {"type": "string", "enum": list(values)}


def or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def named(name: str) -> Schema:
    """A reference to a shape of this module."""
    return {"$ref": f"#/components/schemas/{name}"}


def told(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description}


TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}
NUMBER: Schema = {"type": "number", "minimum": 0}
FLAG: Schema = {"type": "boolean"}
ANYTHING: Schema = {"type": "object"}
TIME: Schema = {"type": "string", "format": "date-time", "description": "ISO 8601, UTC."}
SHA256: Schema = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
MODE: Schema = {"type": "string", "pattern": "^[0-7]{4}$", "description": "Four octal digits."}
# What is printable no pattern says that every dialect reads, so a format of our own names the rule.
NAME: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": 256,
    "format": "name",
    "description": "Printable characters of any script, without blanks at its ends.",
}
PERSON: Schema = {**NAME, "pattern": "^[^/?]+$", "description": "A name that can stand in a path: no `/`, no `?`."}
NAMES: Schema = array(NAME, maxItems=200)


def ids(pattern: str) -> Schema:
    return {"type": "string", "pattern": f"^{pattern}$"}


CONVERSATION_ID = ids(PART)
TURN_ID = ids(rf"{PART}\.{PART}")
RUN_ID = ids(rf"run_{PART}\.{PART}\.{PART}")
RESULT_REF = ids(rf"res_{PART}\.{PART}\.{PART}")
APPROVAL_ID = ids(rf"apr_{PART}\.{PART}\.{PART}")
CALL_ID = ids(PART)
ARTIFACT_ID = ids(PART)
COLLECTION_ID = ids(PART)
DOCUMENT_ID = ids(rf"doc_{PART}\.{PART}")
UPLOAD_ID = ids(PART)
RECONCILIATION_ID = ids(PART)
SEMVER = told({**ids(semver.PATTERN), "maxLength": semver.VERSION_CHARACTERS}, f"A version: {semver.RULE}.")


# ---------------------------------------------------------------- failures and tool answers

_FAILURE_FACTS = {"message": TEXT, "retryable": FLAG, "details": ANYTHING}

_CONTENT = {
    "oneOf": [
        record({"type": {"const": "text"}, "text": TEXT}),
        record(
            {
                "type": {"const": "image"},
                "mediaType": TEXT,
                "data": {"type": "string", "contentEncoding": "base64"},
            }
        ),
    ]
}

_TOOL_ANSWER = record(
    {
        "callId": CALL_ID,
        "tool": told(TEXT, "`name@version`; the bare name where the turn has no such tool."),
        "outcome": choice(*OUTCOMES),
        "content": told(array(_CONTENT), "What the model reads. It always explains itself."),
        "line": told(TEXT, "One line that the model may be given instead; at most 300 characters, then a mark."),
        "structured": told(ANYTHING, "The same facts for programs."),
        "error": or_null(named("ToolError")),
        "conversions": array(record({"argument": TEXT, "from": {}, "to": {}})),
        "ref": told(RESULT_REF, "The whole output, for read_result and `GET /v1/results/{ref}`."),
        "truncated": told(FLAG, "True when content is a preview of a longer output."),
        "cost": record(
            {"milliseconds": NUMBER, "attempts": COUNT, "bytes": COUNT},
            {"requests": told(COUNT, "AWS requests. A run's answer has none: several functions work on it.")},
        ),
    }
)

_TOOL_CALL = record(
    {"callId": told(CALL_ID, "Yours to choose; the same id again returns the same answer.")},
    {
        "arguments": told({"type": ["object", "string", "null"]}, "The arguments, or a JSON text of them."),
        "wait": told(NUMBER, "Seconds to wait for a run before the answer says `running`."),
    },
    additionalProperties=False,
)


# ---------------------------------------------------------------- conversations and turns

_STEP = record(
    {
        "callId": CALL_ID,
        "tool": TEXT,
        "step": choice(*STEPS, "unknown", "prompt"),
        "outcome": choice(*OUTCOMES),
        "code": or_null(TEXT),
        "at": TIME,
        "milliseconds": NUMBER,
        "refs": array(RESULT_REF),
    },
    {
        "bytes": COUNT,
        "prompt": told(
            record({"name": TEXT, "version": TEXT, "asked": TEXT}),
            "Of the step `prompt`: which prompt was filled in, and the name that was asked for.",
        ),
    },
)

_RECEIPT = record(
    {
        "files": array(record({"path": TEXT, "mode": MODE, "created": FLAG, "bytes": COUNT})),
        "artifacts": array(record({"artifact": ARTIFACT_ID, "version": COUNT, "name": TEXT, "bytes": COUNT})),
        "runs": array(record({"run": RUN_ID, "exitCode": {"type": ["integer", "null"]}, "seconds": NUMBER})),
        "approvals": array(
            record({"id": APPROVAL_ID, "pattern": TEXT, "decision": choice("allow", "deny"), "by": TEXT})
        ),
    }
)

_REPLY = record(
    {
        "parts": array(
            {
                "oneOf": [
                    record({"type": {"const": "text"}, "text": TEXT}),
                    record(
                        {
                            "type": {"const": "file"},
                            "artifact": ARTIFACT_ID,
                            "version": COUNT,
                            "name": TEXT,
                            "mediaType": TEXT,
                            "bytes": COUNT,
                        }
                    ),
                ]
            }
        )
    }
)

_TURN_TO_OPEN = record(
    {
        "caller": record({"user": PERSON, "department": NAME}, {"groups": NAMES}),
        "tools": {
            "anyOf": [{"const": "all"}, array(told(TEXT, "`name`, or `name@version`."), uniqueItems=True)],
            "description": "A name without a version keeps the one that the conversation first pinned.",
        },
    },
    {
        "model": record({}, {"name": NAME, "vision": FLAG}),
        "knowledge": told(NAMES, "Ids of documents and collections that the turn may use."),
        "skills": told(NAMES, "Skills that the turn may load: `name`, or `name@version`; the latest when left out."),
        "parent": told(TURN_ID, "The turn that delegates to this one."),
    },
)


# ---------------------------------------------------------------- everything else

_FILE = record({"path": TEXT, "bytes": COUNT, "sha256": SHA256, "mode": MODE})

_VERSION = record(
    {
        "version": COUNT,
        "at": TIME,
        "turn": or_null(TURN_ID),
        "tool": TEXT,
        "created": array(TEXT),
        "modified": array(TEXT),
        "deleted": array(TEXT),
    }
)

_SHARING = record({"people": NAMES, "departments": NAMES, "everyone": FLAG})

_ARTIFACT = record(
    {
        "id": ARTIFACT_ID,
        "kind": choice(*KINDS),
        "name": TEXT,
        "mediaType": TEXT,
        "origin": TEXT,
        "owner": TEXT,
        "department": TEXT,
        "conversation": or_null(CONVERSATION_ID),
        "turn": or_null(TEXT),
        "versions": array(
            record(
                {"version": COUNT, "bytes": COUNT, "sha256": SHA256, "at": TIME, "expiresAt": or_null(TIME)},
                {"turn": or_null(TEXT), "name": TEXT, "mediaType": TEXT},
            )
        ),
        "sharing": named("Sharing"),
        "expiresAt": or_null(TIME),
        "source": or_null(ANYTHING),
    },
    {"run": RUN_ID},
)

_SKILL = record(
    {
        "name": TEXT,
        "version": TEXT,
        "description": TEXT,
        "files": array(record({"path": TEXT, "bytes": COUNT})),
    },
    {"versions": told(array(TEXT), "Every version there is, latest first.")},
)

_PROMPT = record(
    {"name": TEXT, "version": TEXT, "variables": told(array(TEXT), "What the template asks for.")},
    {"template": TEXT, "versions": told(array(TEXT), "Every version there is, latest first.")},
)

_RUN = record(
    {
        "id": RUN_ID,
        "status": choice("queued", "starting", "running", "committing", "succeeded", "failed"),
        "startedAt": TIME,
        "output": record({"stdout": TEXT, "stderr": TEXT, "truncated": FLAG}),
        "answer": or_null(named("ToolAnswer")),
    }
)

_APPROVAL = record(
    {
        "id": APPROVAL_ID,
        "turn": TURN_ID,
        "callId": CALL_ID,
        "tool": TEXT,
        "pattern": told(TEXT, "The call as a command, such as `edit_file replace notes/*`: what allowing it grants."),
        "rating": choice(*RATINGS),
        "reason": TEXT,
        "status": choice("pending", "allowed", "denied", "expired"),
    },
    {"scope": choice("once", "turn", "conversation", "person"), "by": TEXT, "at": TIME},
)

_TOOL = record(
    {
        "name": TEXT,
        "version": TEXT,
        "description": TEXT,
        "step": choice(*STEPS),
        "risk": choice(*RATINGS),
        "tags": array(TEXT),
        "budgetSeconds": NUMBER,
        "parameters": told(ANYTHING, "JSON Schema of the arguments."),
    }
)

COMPONENTS: dict[str, Schema] = {
    "Failure": record({"error": record({"code": choice(*REQUEST_CODES), **_FAILURE_FACTS})}),
    "ToolError": record({"code": TEXT, **_FAILURE_FACTS}),
    "ToolAnswer": _TOOL_ANSWER,
    "ToolCall": _TOOL_CALL,
    "Conversation": record(
        {
            "id": CONVERSATION_ID,
            "owner": TEXT,
            "department": TEXT,
            "status": choice("active", "deleted"),
            "createdAt": TIME,
        },
        {"purgeAt": TIME},
    ),
    "TurnToOpen": _TURN_TO_OPEN,
    "Turn": record(
        {
            "id": TURN_ID,
            "conversation": CONVERSATION_ID,
            "tools": array(record({"name": TEXT, "version": TEXT})),
            "skills": array(record({"name": TEXT, "version": TEXT})),
            "instructions": told(TEXT, "Text for the model: what it may use, what lasts and what does not."),
        }
    ),
    "Step": _STEP,
    "Skill": _SKILL,
    "Prompt": _PROMPT,
    "Receipt": _RECEIPT,
    "Reply": _REPLY,
    "File": _FILE,
    "Version": _VERSION,
    "Change": record(
        {"path": TEXT, "change": choice("created", "modified", "deleted"), "diff": or_null(told(TEXT, "Unified."))}
    ),
    "Result": record(
        {
            "ref": RESULT_REF,
            "tool": TEXT,
            "isError": FLAG,
            "output": TEXT,
            "offset": COUNT,
            "length": COUNT,
            "total": COUNT,
        },
        {"next": COUNT},
    ),
    "Run": _RUN,
    "Approval": _APPROVAL,
    "Artifact": _ARTIFACT,
    "Sharing": _SHARING,
    "Document": record(
        {
            "id": DOCUMENT_ID,
            "artifact": told(ARTIFACT_ID, "The file itself, as an artifact of origin `upload`."),
            "collection": COLLECTION_ID,
            "name": TEXT,
            "bytes": COUNT,
            "passages": told(COUNT, "How many; 0 when the file holds no text."),
            "mediaType": TEXT,
            "format": choice("text", "markdown", "html", "csv", "pdf", "docx", "pptx", "xlsx"),
            "notes": told(array(TEXT), "What was found odd, such as a guessed encoding."),
            "at": TIME,
        },
        {"pages": COUNT, "slides": COUNT, "sheets": COUNT, "rows": COUNT, "lines": COUNT},
    ),
    "DocumentToUpload": record(
        {"name": told(TEXT, "The file's name, at most 255 bytes.")},
        {
            "collection": told(or_null(COLLECTION_ID), "The owner's own collection when left out."),
            "mediaType": told(or_null(TEXT), "Found from the name when left out; the content decides in the end."),
            "data": told(or_null({"type": "string", "contentEncoding": "base64"}), "The file, up to 4 MiB."),
            "upload": told(or_null(TEXT), "A signed upload instead of `data`."),
            "owner": told(or_null(PERSON), "The person whose document it is; headers of a person decide."),
            "department": told(or_null(NAME), "Who pays; whose collection it is when no person is named."),
        },
    ),
    "Collection": record(
        {
            "id": COLLECTION_ID,
            "owner": told(or_null(TEXT), "The person it belongs to; null when it is the department's."),
            "department": TEXT,
            "documents": COUNT,
            "bytes": COUNT,
            "createdAt": TIME,
        },
        {"status": choice("removing", "removed")},
    ),
    "Passage": record(
        {
            "number": told(COUNT, "Counted from 1."),
            "place": told(or_null(TEXT), "Where it stands, such as `page 3` or `sheet Data rows 2-40`."),
            "text": TEXT,
        }
    ),
    "Tool": _TOOL,
    "Reconciliation": record(
        {"id": RECONCILIATION_ID, "status": choice("running", "done", "failed"), "dryRun": FLAG},
        {
            "startedAt": TIME,
            "counts": told(ANYTHING, "By kind of finding: how many were `found`, `repaired`, `left` and `failed`."),
            "listed": array(record({"kind": TEXT, "what": TEXT, "count": COUNT})),
        },
    ),
    "Erasure": record(
        {
            "user": TEXT,
            "status": TEXT,
            "counts": record({"artifacts": COUNT, "documents": COUNT, "workspaces": COUNT, "results": COUNT}),
        }
    ),
}
