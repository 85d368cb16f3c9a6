"""Which kind of file the bytes are. Content decides; what media type and name say counts among kinds of text only."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from workbench.knowledge.reading import archives, texts
from workbench.knowledge.reading.outline import Refused

TEXT, MARKDOWN, HTML, CSV, PDF, DOCX, PPTX, XLSX = "text", "markdown", "html", "csv", "pdf", "docx", "pptx", "xlsx"
TEXTS = frozenset({TEXT, MARKDOWN, HTML, CSV})
SHOWN = {
    TEXT: "plain text",
    MARKDOWN: "Markdown",
    HTML: "HTML",
    CSV: "CSV",
    PDF: "PDF",
    DOCX: "DOCX (Word)",
    PPTX: "PPTX (PowerPoint)",
    XLSX: "XLSX (Excel)",
}
SUPPORTED = "Plain text, Markdown, HTML, CSV, PDF, DOCX, PPTX and XLSX are read"

_OFFICE = "application/vnd.openxmlformats-officedocument."
# The media type under which a file of the kind is stored, unless it was sent under a more exact one of its kind.
MEDIA_TYPES = {
    TEXT: "text/plain",
    MARKDOWN: "text/markdown",
    HTML: "text/html",
    CSV: "text/csv",
    PDF: "application/pdf",
    DOCX: f"{_OFFICE}wordprocessingml.document",
    PPTX: f"{_OFFICE}presentationml.presentation",
    XLSX: f"{_OFFICE}spreadsheetml.sheet",
}
_OF_MEDIA_TYPE = {media_type: kind for kind, media_type in MEDIA_TYPES.items()} | {
    "text/x-markdown": MARKDOWN,
    "application/xhtml+xml": HTML,
    "application/csv": CSV,
    "text/tab-separated-values": CSV,
    "application/x-pdf": PDF,
    "application/vnd.ms-word.document.macroenabled.12": DOCX,
    "application/vnd.ms-powerpoint.presentation.macroenabled.12": PPTX,
    "application/vnd.ms-excel.sheet.macroenabled.12": XLSX,
}
_OF_EXTENSION = {
    "txt": TEXT,
    "log": TEXT,
    "md": MARKDOWN,
    "markdown": MARKDOWN,
    "html": HTML,
    "htm": HTML,
    "xhtml": HTML,
    "csv": CSV,
    "tsv": CSV,
    "pdf": PDF,
    "docx": DOCX,
    "docm": DOCX,
    "dotx": DOCX,
    "pptx": PPTX,
    "pptm": PPTX,
    "ppsx": PPTX,
    "xlsx": XLSX,
    "xlsm": XLSX,
    "xltx": XLSX,
}
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_PACKAGE_THAT_IS_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_KNOWN_OTHERS = (
    (b"\x89PNG", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"7z\xbc\xaf", "a 7z archive"),
    (b"Rar!", "a RAR archive"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
    (b"{\\rtf", "an RTF document; save it as DOCX"),
    (b"PAR1", "a Parquet file"),
    (b"SQLite format 3", "an SQLite database"),
    (b"OggS", "an audio or video file"),
    (b"ID3", "an audio file"),
)
# Nothing is tried twice: a comment ends where it first can.
_LOOKS_LIKE_HTML = re.compile(
    rb"\s*+(?:<\?xml[^>]*+>\s*+)?+(?:<!--(?>.*?-->)\s*+)*+<(?:!doctype\s+html|html[\s>])", re.I | re.S
)
_HEAD_BYTES = 1024


@dataclass(frozen=True)
class Recognised:
    """The kind of file; ``notes`` say when it is another than was said."""

    kind: str
    notes: list[str] = field(default_factory=list)


def recognise(data: bytes, media_type: str, name: str) -> Recognised:
    """What the bytes are. Raises :class:`Refused` for what is not read, and for what claims to be and is not."""
    said = _said(media_type, name)
    found = _of_content(data, said)
    if found is None:
        found = _kind_of_text(data, media_type, name) if texts.is_text(data) else None
    if found is None:
        if said is not None and said not in TEXTS:
            raise Refused("broken", f"The file is said to be {SHOWN[said]}, and its bytes are not; it may be damaged.")
        raise Refused("unsupported_type", f"The file is {_other(data)}. {SUPPORTED}.")
    # Of a file without bytes its being empty says all.
    if data and said is not None and found != said and not (found in TEXTS and said in TEXTS):
        return Recognised(found, [f"The file was sent as {SHOWN[said]}; its bytes are {SHOWN[found]}."])
    return Recognised(found)


def stored_type(kind: str, media_type: str) -> str:
    """The media type to keep: as sent when it is one of that kind, or of some other text."""
    if _OF_MEDIA_TYPE.get(media_type) == kind:
        return media_type
    if kind == TEXT and _is_some_text(media_type):
        return media_type
    return MEDIA_TYPES[kind]


def _said(media_type: str, name: str) -> str | None:
    of_name = _OF_EXTENSION.get(name.rpartition(".")[2].lower()) if "." in name else None
    of_type = _OF_MEDIA_TYPE.get(media_type)
    # Browsers send plain text for whatever they do not know.
    return (of_name or of_type) if of_type in (None, TEXT) else of_type


def _is_some_text(media_type: str) -> bool:
    return media_type.startswith("text/") or media_type.endswith(("/json", "+json", "/xml", "+xml", "/yaml", "/x-yaml"))


def _of_content(data: bytes, said: str | None) -> str | None:
    head = data[:_HEAD_BYTES]
    if head.lstrip().startswith(b"%PDF-") or (said == PDF and b"%PDF-" in head):
        return PDF
    if data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return archives.office_kind(data, said is not None and said not in TEXTS)
    if data.startswith(_OLE):
        if _PACKAGE_THAT_IS_ENCRYPTED in data:
            raise Refused("encrypted", "The file is protected by a password. Remove it and upload the file again.")
        raise Refused(
            "unsupported_type",
            f"The file is of an old Office format. Save it as DOCX, PPTX or XLSX. {SUPPORTED}.",
        )
    return None


def _kind_of_text(data: bytes, media_type: str, name: str) -> str | None:
    if any(data.startswith(signature) and b"\\rtf" in signature for signature, _what in _KNOWN_OTHERS):
        return None
    said = _said(media_type, name)
    if said in TEXTS and said != TEXT:
        return said
    return HTML if _LOOKS_LIKE_HTML.match(data[: 4 * _HEAD_BYTES]) else TEXT


def _other(data: bytes) -> str:
    for signature, what in _KNOWN_OTHERS:
        if data.startswith(signature):
            return what
    return "neither text nor of a kind that is known here"
