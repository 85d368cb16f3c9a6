"""Artifacts in S3 and DynamoDB: where each part lies, reading them, storing a version's bytes.

Bytes go to ``artifacts/{id}/{version}`` in the versioned bucket before the items that name them are committed. Every
version has a key of its own, so that expiry of one never touches another.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from botocore.exceptions import ClientError

from workbench import ids
from workbench.artifacts.model import Artifact
from workbench.keys import Key, conversation_key, head_key
from workbench.objects import code_of, is_missing
from workbench.operations import Item
from workbench.runtime import Runtime

ID_PREFIX = "art_"
POINTER = "ART#"
# The tag by which the bucket's lifecycle rules tell files that a reply carries from those that none does.
UNATTACHED, KEPT = "unattached", "kept"
# A number can be taken by a crashed export; this many taken in a row mean that something else is wrong.
NUMBER_TRIES = 20


def pointer_key(conversation: str, artifact: str) -> Key:
    """The item by which a conversation finds its artifacts."""
    return conversation_key(conversation, f"{POINTER}{artifact}")


def version_key(artifact: str, number: int) -> Key:
    return f"A#{artifact}", f"V#{number:010d}"


def object_key(artifact: str, number: int) -> str:
    return f"artifacts/{artifact}/{number}"


def new_id() -> str:
    return ids.random_part(ID_PREFIX)


# ---------------------------------------------------------------- reading


def load(runtime: Runtime, artifact: str) -> Artifact | None:
    """The artifact in whatever state it is, or None. One request."""
    if not ids.is_part(artifact):
        return None
    items = runtime.table.query(f"A#{artifact}")
    meta = next((item for item in items if item["SK"] == "META"), None)
    if meta is None:
        return None
    return Artifact.from_items(meta, [item for item in items if item["SK"] != "META"], runtime.clock.now())


def find(runtime: Runtime, artifact: str) -> Artifact | None:
    """The artifact when it may be used now: not expired, and its conversation not deleted. Two requests."""
    found = load(runtime, artifact)
    return next(iter(usable(runtime, [found])), None) if found else None


def usable(runtime: Runtime, artifacts: Sequence[Artifact]) -> list[Artifact]:
    """Those that may be used now. The conversation's status decides, so that deleting it hides all at once.

    One that is in its grace although its conversation is active belonged to an earlier conversation of that id.
    """
    homes = list({head_key(artifact.conversation) for artifact in artifacts if artifact.conversation})
    heads = runtime.table.get_many(homes) if homes else {}
    active = {key for key, head in heads.items() if head["status"] == "active"}
    return [
        artifact
        for artifact in artifacts
        if artifact.versions
        and artifact.retired is None
        and (artifact.conversation is None or head_key(artifact.conversation) in active)
    ]


def load_many(runtime: Runtime, artifacts: Sequence[str]) -> list[Artifact]:
    """Those of ``artifacts`` that exist, in the order given; requests run in parallel."""
    if not artifacts:
        return []
    found: list[Artifact | None] = runtime.clients.together(*(partial(load, runtime, name) for name in artifacts))
    return [artifact for artifact in found if artifact is not None]


def pointers(runtime: Runtime, conversation: str) -> list[Item]:
    """A small item for each artifact of a conversation in whatever state: its id in SK, ``turn``, ``at``, and
    ``retired`` when a deletion is done with it."""
    return runtime.table.query(f"C#{conversation}", POINTER)


def pointer(conversation: str, artifact: str, turn: str | None, at: float) -> Item:
    """The item itself, for an artifact that does not expire as a whole."""
    pk, sk = pointer_key(conversation, artifact)
    return {"PK": pk, "SK": sk, "turn": turn, "at": at}


def pointed_at(pointers: Sequence[Item]) -> list[str]:
    """The artifacts' ids."""
    return [pointer["SK"].removeprefix(POINTER) for pointer in pointers]


def read(runtime: Runtime, artifact: str, number: int) -> bytes | None:
    """The bytes of a version, or None when they are gone."""
    try:
        answer = runtime.clients.s3.get_object(
            Bucket=runtime.settings.artifact_bucket, Key=object_key(artifact, number)
        )
    except ClientError as error:
        if is_missing(error):
            return None
        raise
    body: bytes = answer["Body"].read()
    return body


# ---------------------------------------------------------------- writing


def put_bytes(runtime: Runtime, artifact: str, first_number: int, data: bytes, media_type: str) -> int:
    """Store a version's bytes under the first free number from ``first_number`` on; returns that number.

    Two exports to one artifact at once get two numbers: neither may overwrite what the other is about to name.
    """
    for number in range(first_number, first_number + NUMBER_TRIES):
        try:
            runtime.clients.s3.put_object(
                Bucket=runtime.settings.artifact_bucket,
                Key=object_key(artifact, number),
                Body=data,
                ContentType=media_type,
                Tagging=f"retention={UNATTACHED}",
                IfNoneMatch="*",
            )
        except ClientError as error:
            # 412: the number is taken. 409: somebody is taking it right now.
            if code_of(error) not in ("PreconditionFailed", "412", "ConditionalRequestConflict", "409"):
                raise
        else:
            return number
    raise OSError("no free version number")
