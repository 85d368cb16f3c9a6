"""The process that decodes one picture: limits first, then the bytes from standard input, then the answer.

One line of JSON, ``{"mediaType", "size", "sourceSize", "notes"}`` with the encoded picture behind it, ``{"size"}``
when only that was asked for, ``{"refused": reason}`` or ``{"pixels": size}``.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from typing import Any

from workbench import apart
from workbench.workspace.views import images
from workbench.workspace.views.images import Kind, TooManyPixels, UnreadableImage

_KINDS = {kind.plugin: kind for kind in (images.PNG, images.JPEG, images.GIF, images.WEBP, images.BMP, images.TIFF)}


def main(arguments: list[str]) -> None:
    """``arguments``: ``prepare`` or ``size``, and the plugin of the picture's kind."""
    apart.limit()
    what, plugin = arguments
    load(plugin)
    apart.shut()
    told, encoded = answer(what, sys.stdin.buffer.read(), _KINDS[plugin])
    sys.stdout.buffer.write(json.dumps(told).encode() + b"\n" + encoded)


def load(plugin: str) -> None:
    """Import what decodes this kind, and what is imported late: profiles, EXIF data (a TIFF of its own), encoders."""
    from PIL import Image

    for name in (plugin, "Tiff", "Jpeg", "Png"):
        import_module(f"PIL.{name}ImagePlugin")
    import_module("PIL.ImageCms")
    Image.preinit()


def answer(what: str, data: bytes, kind: Kind) -> tuple[dict[str, Any], bytes]:
    """The head of the answer, and the bytes behind it."""
    try:
        if what == "size":
            return {"size": images.picture_size(data, "", kind)}, b""
        made = images.prepare(data, "", kind)
    except UnreadableImage as refusal:
        return {"refused": refusal.reason}, b""
    except TooManyPixels as refusal:
        return {"pixels": refusal.size}, b""
    told = {"mediaType": made.media_type, "size": made.size, "sourceSize": made.source_size, "notes": made.notes}
    return told, made.data
