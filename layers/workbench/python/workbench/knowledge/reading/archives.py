"""Office files as what they are: ZIP archives from strangers. Everything is checked before a parser sees a byte."""

from __future__ import annotations

import io
import zipfile
import zlib

from workbench.knowledge.reading.outline import Refused

MEMBERS = 10_000
# What all members may hold together once unpacked, and one member of XML; a sheet is read row by row, everything else
# becomes a tree of many times its size.
EXPANDED_BYTES = 256 * 1024 * 1024
SHEET_BYTES = 128 * 1024 * 1024
TREE_BYTES = 32 * 1024 * 1024
CHUNK_BYTES = 1024 * 1024

_CONTENT_TYPES = "[Content_Types].xml"
_MAIN_PARTS = (
    ("docx", (b"wordprocessingml.document.main+xml", b"wordprocessingml.template.main+xml")),
    ("docx", (b"ms-word.document.macroEnabled.main+xml", b"ms-word.template.macroEnabledTemplate.main+xml")),
    ("pptx", (b"presentationml.presentation.main+xml", b"presentationml.slideshow.main+xml")),
    ("pptx", (b"presentationml.template.main+xml", b"ms-powerpoint.presentation.macroEnabled.main+xml")),
    ("xlsx", (b"spreadsheetml.sheet.main+xml", b"spreadsheetml.template.main+xml")),
    ("xlsx", (b"ms-excel.sheet.macroEnabled.main+xml", b"ms-excel.template.macroEnabled.main+xml")),
)
# Office never writes a document type; it is where entities are declared, and with them bombs and foreign files.
_DOCTYPES = tuple("<!DOCTYPE".encode(encoding) for encoding in ("ascii", "utf-16-le", "utf-16-be"))
_OVERLAP_BYTES = max(map(len, _DOCTYPES)) - 1
# A corrupt archive shows in any of these, whatever part of it is read.
BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, KeyError, ValueError, OSError)


def office_kind(data: bytes, expected: bool) -> str:
    """``docx``, ``pptx`` or ``xlsx``; ``expected`` when the file was said to be one. Raises :class:`Refused`."""
    with _opened(data) as archive:
        names = set(archive.namelist())
        if _CONTENT_TYPES in names:
            types = _member(archive, _CONTENT_TYPES, CHUNK_BYTES)
            for kind, marks in _MAIN_PARTS:
                if any(mark in types for mark in marks):
                    return kind
        if "mimetype" in names:
            what = _member(archive, "mimetype", 200).decode("ascii", "replace")
            if "opendocument" in what:
                raise Refused("unsupported_type", "The file is an OpenDocument file. Save it as DOCX, PPTX or XLSX.")
        if expected:
            raise Refused("broken", "The file is a ZIP archive without the parts of an Office file; it may be damaged.")
        raise Refused("unsupported_type", "The file is a ZIP archive. Upload the documents in it one by one.")


def check(data: bytes) -> None:
    """Raise :class:`Refused` unless the archive unpacks, within the limits, and declares no entities."""
    with _opened(data) as archive:
        for info in archive.infolist():
            if info.filename.lower().endswith((".xml", ".rels", ".vml")):
                most = SHEET_BYTES if info.filename.lower().startswith("xl/") else TREE_BYTES
                if info.file_size > most:
                    raise _too_large()
                _check_xml(archive, info)


def _opened(data: bytes) -> zipfile.ZipFile:
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except BROKEN as error:
        raise _broken() from error
    entries = archive.infolist()
    if len(entries) > MEMBERS or sum(entry.file_size for entry in entries) > EXPANDED_BYTES:
        raise _too_large()
    if any(entry.flag_bits & 1 for entry in entries):
        raise Refused("encrypted", "The file is protected by a password. Remove it and upload the file again.")
    if len({entry.filename for entry in entries}) < len(entries):
        raise _broken()
    return archive


def _check_xml(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
    before = b""
    try:
        with archive.open(info) as member:
            while chunk := member.read(CHUNK_BYTES):
                seen = before + chunk
                if any(mark in seen for mark in _DOCTYPES):
                    raise Refused(
                        "broken", "The file declares XML entities, which no Office file needs. It is not read."
                    )
                before = seen[-_OVERLAP_BYTES:]
    except BROKEN as error:
        raise _broken() from error


def _member(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    try:
        with archive.open(name) as member:
            return member.read(most)
    except BROKEN as error:
        raise _broken() from error


def _broken() -> Refused:
    return Refused("broken", "The file is damaged: it cannot be unpacked. Upload it again from its source.")


def _too_large() -> Refused:
    whole, tree, sheet = (size // 2**20 for size in (EXPANDED_BYTES, TREE_BYTES, SHEET_BYTES))
    return Refused(
        "too_large",
        f"Unpacked, the file is larger than what is read: {whole} MiB in all, {tree} MiB in one part ({sheet} MiB in a "
        f"sheet), {MEMBERS:,} parts. Split it into smaller files.",
    )
