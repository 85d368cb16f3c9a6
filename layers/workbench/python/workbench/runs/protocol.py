"""What a sandbox says, read with suspicion: every field of every message has a type and a bound.

A sandbox may be in the hands of the program it runs. Whatever does not fit is refused before anything is done with
it. Nothing here looks at the contents of files; that is :mod:`workbench.runs.changes` and the commit.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
import re
import zlib
from collections.abc import Mapping
from typing import Any

from workbench.errors import InvalidRequest
from workbench.runs.plan import PART_BYTES

# What a sandbox that has no job is told: ask again, or end. The private API ends a request after 29 seconds.
WAIT, LEAVE = {"status": "wait"}, {"status": "leave"}
HOLD_SECONDS = 20

ID_CHARACTERS = 256
TAIL_CHARACTERS = 12_000
REASON_CHARACTERS = 2_000
SAMPLE_BYTES = 16 * 1024
WORTH_COMPRESSING = 0.9
SELF_REPORT_BYTES = 8_192
# A pack never splits a small file, so it may be half empty; and the last ones may be short.
SPARE_PARTS = 8
CHANGE_PARTS = 16

OUTCOMES = ("finished", "timeout", "memory", "disk", "output", "stopped", "failed")
TREES = ("ok", "unreadable", "too_large")
STREAMS_IN = ("plan", "data")
STREAMS_OUT = ("packs", "changes")

_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_WORD = re.compile(rf"[!-~]{{1,{ID_CHARACTERS}}}\Z")
_OWN_SECRET = re.compile(r"[A-Za-z0-9_-]{32,256}\Z")
SPILL_NAME = re.compile(r"\.spill-[1-9][0-9]{0,5}\.txt\Z")


def pack_parts_allowed(workspace_bytes: int) -> int:
    """How many packs a sandbox may send at most."""
    return 2 * (-(-workspace_bytes // PART_BYTES)) + SPARE_PARTS


def word(body: Mapping[str, Any], name: str) -> str:
    """A short text such as an id or a secret, none of which has other characters than ASCII's visible ones."""
    value = body.get(name)
    if not isinstance(value, str) or not _WORD.match(value):
        raise InvalidRequest(f"{name} must be a text of 1 to {ID_CHARACTERS} visible ASCII characters.")
    return value


def own_secret(body: Mapping[str, Any]) -> str:
    """The secret that a sandbox made itself, which nobody can have guessed."""
    value = body.get("ownSecret")
    if not isinstance(value, str) or not _OWN_SECRET.match(value):
        raise InvalidRequest("ownSecret must be 32 to 256 characters of A-Z, a-z, 0-9, _ and -.")
    return value


def choice(body: Mapping[str, Any], name: str, allowed: tuple[str, ...]) -> str:
    """One of a few words."""
    value = body.get(name)
    if not isinstance(value, str) or value not in allowed:
        raise InvalidRequest(f"{name} must be one of {', '.join(allowed)}.")
    return value


def whole(body: Mapping[str, Any], name: str, most: int, least: int = 0) -> int:
    """A whole number between ``least`` and ``most``."""
    value = body.get(name)
    if type(value) is not int or not least <= value <= most:
        raise InvalidRequest(f"{name} must be a whole number from {least} to {most}.")
    return value


def sha256_field(value: object, name: str = "sha256") -> str:
    """A SHA-256 in lower-case hex."""
    if not isinstance(value, str) or not _SHA256.match(value):
        raise InvalidRequest(f"{name} must be a SHA-256 in lower-case hex.")
    return value


def tail(body: Mapping[str, Any], name: str) -> str:
    """The end of a program's output, as text that can be stored: at most ``TAIL_CHARACTERS`` from its end."""
    value = body.get(name, "")
    if not isinstance(value, str):
        raise InvalidRequest(f"{name} must be text.")
    return storable(value[-TAIL_CHARACTERS:])


def storable(text: str) -> str:
    """The text with halves of surrogate pairs replaced: JSON can carry them, UTF-8 cannot."""
    return text.encode("utf-8", "replace").decode()


def unpack(body: Mapping[str, Any]) -> tuple[bytes, str]:
    """The raw bytes of ``data`` (base64 of zlib) and their SHA-256, which must be the one that was sent.

    Stops decompressing at the size of a part, so that a few bytes cannot become gigabytes.
    """
    digest, data = sha256_field(body.get("sha256")), body.get("data")
    if not isinstance(data, str):
        raise InvalidRequest("data must be base64.")
    try:
        packed = base64.b64decode(data, validate=True)
        stream = zlib.decompressobj()
        raw = stream.decompress(packed, PART_BYTES + 1)
    except (binascii.Error, ValueError, zlib.error) as error:
        raise InvalidRequest("data must be base64 of zlib-compressed bytes.") from error
    if len(raw) > PART_BYTES:
        raise InvalidRequest(f"A part has at most {PART_BYTES} bytes.")
    if not stream.eof or stream.unused_data:
        raise InvalidRequest("data is not exactly one zlib stream.")
    if hashlib.sha256(raw).hexdigest() != digest:
        raise InvalidRequest("data does not have the SHA-256 that was sent with it.")
    return raw, digest


def packed(raw: bytes) -> dict[str, str]:
    """Bytes as the protocol carries them: ``{"sha256", "data"}``."""
    # What is compressed already (pictures, archives) costs more to try than all the rest of sending.
    middle = len(raw) // 2
    sample = raw[middle : middle + SAMPLE_BYTES]
    level = 1 if len(zlib.compress(sample, 1)) <= WORTH_COMPRESSING * len(sample) else 0
    return {"sha256": hashlib.sha256(raw).hexdigest(), "data": base64.b64encode(zlib.compress(raw, level)).decode()}


def self_report(body: Mapping[str, Any]) -> str:
    """What the sandbox verified of itself, as short JSON for the log."""
    value = body.get("verified", {})
    if not isinstance(value, dict):
        raise InvalidRequest("verified must be an object.")
    try:
        text = json.dumps(value)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest("verified must be a small object.") from error
    if len(text) > SELF_REPORT_BYTES:
        raise InvalidRequest(f"verified must be at most {SELF_REPORT_BYTES} bytes.")
    return text


def report(body: Mapping[str, Any], workspace_bytes: int) -> dict[str, Any]:
    """The sandbox's report with exactly the fields that the commit uses; raises InvalidRequest naming the field."""
    sent = body.get("report")
    if not isinstance(sent, dict):
        raise InvalidRequest("report must be an object.")
    spill, reason = sent.get("spill"), sent.get("reason")
    if spill is not None and not (isinstance(spill, str) and SPILL_NAME.match(spill)):
        raise InvalidRequest("report.spill must be null or a name like .spill-1.txt.")
    if reason is not None and not isinstance(reason, str):
        raise InvalidRequest("report.reason must be null or text.")
    return {
        "outcome": choice(sent, "outcome", OUTCOMES),
        "exitCode": _optional_whole(sent, "exitCode", -(2**31), 2**31 - 1),
        "signal": _optional_whole(sent, "signal", 0, 255),
        "seconds": _seconds(sent.get("seconds")),
        "stdout": tail(sent, "stdout"),
        "stderr": tail(sent, "stderr"),
        "outputBytes": whole(sent, "outputBytes", 2**53),
        "truncated": sent.get("truncated") is True,
        "spill": spill,
        "tree": choice(sent, "tree", TREES),
        "reason": None if reason is None else storable(reason[:REASON_CHARACTERS]),
        "packParts": whole(sent, "packParts", pack_parts_allowed(workspace_bytes)),
        "changeParts": whole(sent, "changeParts", CHANGE_PARTS),
        "verified": self_report(sent),
    }


def report_digest(read: Mapping[str, Any]) -> str:
    """What makes two reports the same."""
    return hashlib.sha256(json.dumps(read, sort_keys=True).encode()).hexdigest()


def _optional_whole(body: Mapping[str, Any], name: str, least: int, most: int) -> int | None:
    return None if body.get(name) is None else whole(body, name, most, least)


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise InvalidRequest("report.seconds must be a number of seconds.")
    return round(min(float(value), 1e6), 3)
