"""Documents as people make them, and as others forge them: bytes for tests, built with the libraries or by hand."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import docx
import openpyxl
import pptx
import pypdf

WORD = b'<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>%s</w:body></w:document>'
SHEET = b'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>%s</sheetData></worksheet>'


def docx_of(fill: Callable[[Any], None]) -> bytes:
    """A DOCX whose content ``fill`` adds to a new document."""
    document = docx.Document()
    fill(document)
    return _saved(document)


def pptx_of(slides: Sequence[tuple[str, str, str]]) -> bytes:
    """A PPTX of (title, body, notes)."""
    presentation = pptx.Presentation()
    for title, body, notes in slides:
        slide = presentation.slides.add_slide(presentation.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = body
        if notes:
            slide.notes_slide.notes_text_frame.text = notes
    return _saved(presentation)


def xlsx_of(sheets: Mapping[str, Sequence[Sequence[Any]]]) -> bytes:
    """An XLSX with these rows, by sheet."""
    book = openpyxl.Workbook()
    book.remove(book.worksheets[0])
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(list(row))
    return _saved(book)


def pdf_of(pages: Sequence[str]) -> bytes:
    """A PDF with these lines of Latin text, a page each."""
    objects = [b"<</Type/Catalog/Pages 2 0 R>>", b"", b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"]
    kids = []
    for page in pages:
        kids.append(len(objects) + 1)
        lines = b" ".join(b"(%s) Tj T*" % line.encode("cp1252") for line in page.split("\n"))
        parts = (b"/Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]", b"/Resources<</Font<</F1 3 0 R>>>>")
        objects.append(b"<<%s%s/Contents %d 0 R>>" % (*parts, len(objects) + 2))
        objects.append(pdf_stream(b"BT /F1 12 Tf 50 700 Td 14 TL " + lines + b" ET"))
    objects[1] = b"<</Type/Pages/Count %d/Kids[%s]>>" % (len(kids), b" ".join(b"%d 0 R" % kid for kid in kids))
    return raw_pdf(objects)


def pdf_with_content(stream: bytes) -> bytes:
    """A PDF of one page whose content is this object."""
    return raw_pdf(
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Count 1/Kids[3 0 R]>>",
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Resources<</Font<</F1 5 0 R>>>>/Contents 4 0 R>>",
            stream,
            b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        ]
    )


def pdf_stream(data: bytes, more: bytes = b"") -> bytes:
    return b"<<%s/Length %d>>\nstream\n%s\nendstream" % (more, len(data), data)


def raw_pdf(objects: Sequence[bytes]) -> bytes:
    """A PDF file of these objects, numbered from 1; the first is its root."""
    written, offsets = b"%PDF-1.7\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(written))
        written += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    head = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    trailer = b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, len(written))
    return written + head + table + trailer


def encrypted_pdf(data: bytes, user: str, algorithm: str) -> bytes:
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(data))
    writer.encrypt(user, "owner", algorithm=algorithm)
    kept = io.BytesIO()
    writer.write(kept)
    return kept.getvalue()


def with_member(archive: bytes, name: str, content: bytes) -> bytes:
    """The archive with one member replaced, or added."""
    kept = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(kept, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            if info.filename != name:
                new.writestr(info.filename, old.read(info))
        new.writestr(name, content)
    return kept.getvalue()


def _saved(made: Any) -> bytes:
    kept = io.BytesIO()
    made.save(kept)
    return kept.getvalue()
