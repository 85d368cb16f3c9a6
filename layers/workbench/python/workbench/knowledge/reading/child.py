"""The process that reads one file: limits first, then the bytes from standard input, then JSON on standard output.

``{"kind", "mediaType", "extent", "notes", "passages": [[text, place], …]}`` or ``{"refused": code, "message"}``.
Whatever a hostile file does to a parser, it does here: without credentials in the environment, within limits of
memory, processor time and processes, without a way to a file or a socket, and for as long as the parent waits.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from workbench import apart
from workbench.knowledge.passages import split
from workbench.knowledge.reading import archives, kinds, loading, pdf, slides, tables, texts, web, word
from workbench.knowledge.reading.outline import TEXT_CHARACTERS, Full, Outline, Refused

# The number by which libxml2 says that it got no memory.
_XML_NO_MEMORY = 2
_NO_MEMORY = {"refused": "too_large", "message": "Reading the file takes more memory than it may have. Split it."}

_OFFICE: Mapping[str, Callable[[bytes, Outline], None]] = {
    kinds.DOCX: word.read_docx,
    kinds.PPTX: slides.read_pptx,
    kinds.XLSX: tables.read_xlsx,
}
_TEXTS: Mapping[str, Callable[[str, Outline], None]] = {
    kinds.TEXT: texts.read_plain,
    kinds.MARKDOWN: texts.read_markdown,
    kinds.HTML: web.read_html,
    kinds.CSV: tables.read_csv,
}


def shut(kind: str) -> None:
    """Before a parser sees the file: load all that reads its kind, then give up the way to files and sockets."""
    loading.load(kind)
    apart.shut()


def main(arguments: list[str]) -> None:
    """``arguments``: the media type, its charset or nothing, and the file's name."""
    apart.limit()
    media_type, charset, name = arguments
    answer = read(sys.stdin.buffer.read(), media_type, charset or None, name, shut)
    sys.stdout.buffer.write(json.dumps(answer).encode())


def read(
    data: bytes, media_type: str, charset: str | None, name: str, before_parsing: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """The answer for one file, whatever it holds; ``before_parsing`` is called with its kind once that is known."""
    try:
        return _read(data, media_type, charset, name, before_parsing)
    except Refused as refused:
        return {"refused": refused.code, "message": refused.message}
    except MemoryError:
        return _NO_MEMORY
    except RecursionError:
        return {"refused": "broken", "message": "The file is nested too deeply to be read."}
    except Exception as error:  # noqa: BLE001 - parsers raise anything at all on damaged files
        if getattr(error, "code", None) == _XML_NO_MEMORY:
            return _NO_MEMORY
        message = "The file is damaged: it cannot be read. Open it in its own program and save it anew."
        return {"refused": "broken", "message": message, "cause": type(error).__name__}


def _read(
    data: bytes, media_type: str, charset: str | None, name: str, before_parsing: Callable[[str], None] | None
) -> dict[str, Any]:
    recognised = kinds.recognise(data, media_type, name)
    if before_parsing is not None:
        before_parsing(recognised.kind)
    outline = Outline(notes=recognised.notes)
    try:
        _fill(outline, recognised.kind, data, charset)
    except Full:
        outline.notes.append(
            f"Only the first {TEXT_CHARACTERS:,} characters of text were made into passages. The file itself is whole; "
            "a program can read all of it."
        )
    if not outline.blocks:
        outline.notes.append(_why_no_text(data, recognised.kind))
    return {
        "kind": recognised.kind,
        "mediaType": kinds.stored_type(recognised.kind, media_type),
        "extent": outline.extent,
        "notes": outline.notes,
        "passages": [[passage.text, passage.place] for passage in split(outline.blocks)],
    }


def _fill(outline: Outline, kind: str, data: bytes, charset: str | None) -> None:
    if kind in _TEXTS:
        if kind == kinds.HTML:
            charset = charset or web.charset_of(data)
        text, notes = texts.decode(data, charset)
        outline.notes += notes
        _TEXTS[kind](text, outline)
    elif kind == kinds.PDF:
        pdf.read_pdf(data, outline)
    else:
        archives.check(data)
        _OFFICE[kind](data, outline)


def _why_no_text(data: bytes, kind: str) -> str:
    if not data:
        return "The file is empty."
    scanned = " Scanned pages are pictures; run a text recognition over them first." if kind == kinds.PDF else ""
    return f"No text was found in the file.{scanned} It is stored all the same, and a program can open it."
