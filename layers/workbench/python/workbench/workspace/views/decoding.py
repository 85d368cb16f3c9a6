"""Pictures decoded in a process apart: whatever a hostile one does to its decoder, it does where nothing can be had.

What comes back is checked: a size, notes and reasons that are known here, and bytes that begin as they say. They go to
the model as they are; nothing here decodes them again.
"""

from __future__ import annotations

import json
from typing import Any

from workbench import apart
from workbench.workspace.views import images
from workbench.workspace.views.images import Kind, Picture, TooManyPixels, UnreadableImage

# The largest that is decoded takes about five on one processor; API Gateway gives up after 30.
SECONDS = 15.0
_PROGRAM = "from workbench.workspace.views.decoding_child import main; main(sys.argv[1:])"
_HEAD_BYTES = 2_000
_SIGNATURES = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff"}
# No header that is read can claim a longer side.
_LONGEST_SIDE = 2**32


def prepare(data: bytes, path: str, kind: Kind) -> Picture:
    """:func:`images.prepare`, in a process apart; raises what that raises."""
    told, encoded = _ask("prepare", data, path, kind)
    try:
        media_type, size, source = told["mediaType"], _size(told["size"]), _size(told["sourceSize"])
        notes = tuple(note for note in images.NOTES if note in told["notes"])
        if not encoded.startswith(_SIGNATURES[media_type]) or len(encoded) > images.SENT_BYTES:
            raise ValueError("not a picture of that kind")
        if max(size) > images.LONGER_SIDE_PIXELS:
            raise ValueError("larger than what is sent")
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableImage(path, kind, images.DAMAGED) from error
    return Picture(media_type, encoded, size, kind, source, len(data), notes)


def picture_size(data: bytes, path: str, kind: Kind) -> tuple[int, int]:
    """:func:`images.picture_size`, in a process apart; raises what that raises."""
    told, _encoded = _ask("size", data, path, kind)
    try:
        return _size(told["size"])
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableImage(path, kind, images.DAMAGED) from error


def _ask(what: str, data: bytes, path: str, kind: Kind) -> tuple[dict[str, Any], bytes]:
    """The head and the rest of the child's answer; its refusals are worded here."""
    try:
        answer = apart.run(_PROGRAM, [what, kind.plugin], data, seconds=SECONDS, most=images.SENT_BYTES + _HEAD_BYTES)
    except apart.NoAnswer:
        raise UnreadableImage(path, kind, images.TOO_SLOW) from None
    head, _line_end, rest = answer.partition(b"\n")
    try:
        told = json.loads(head)
        refused, claimed = told.get("refused"), told.get("pixels")
        if claimed is not None:
            raise TooManyPixels(path, kind, _size(claimed))
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        # Ended by a limit, or by the picture.
        raise UnreadableImage(path, kind, images.DAMAGED) from error
    if refused is not None:
        raise UnreadableImage(path, kind, refused if refused in images.REASONS else images.DAMAGED)
    return told, rest


def _size(value: Any) -> tuple[int, int]:
    width, height = value
    if type(width) is not int or type(height) is not int or not (0 < width <= _LONGEST_SIDE >= height > 0):
        raise ValueError("no size")
    return width, height
