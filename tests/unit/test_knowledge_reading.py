"""Reading documents: what people have in files of every kind, and what hostile ones get instead. The child is real."""

from __future__ import annotations

import datetime
import io
import json
import time
import zlib
from typing import Any

import pptx
import pytest
from docx.enum.style import WD_STYLE_TYPE
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from pptx.chart.data import CategoryChartData, XyChartData
from pptx.enum.chart import XL_CHART_TYPE

from tests.documents import (
    SHEET,
    WORD,
    docx_of,
    encrypted_pdf,
    pdf_of,
    pdf_stream,
    pdf_with_content,
    pptx_of,
    raw_pdf,
    with_member,
    xlsx_of,
)
from tests.unit.test_javascript_child import as_nobody
from workbench.knowledge import extracting
from workbench.knowledge.extracting import Extracted, Unreadable
from workbench.knowledge.reading import archives, child, kinds, outline

DOCX_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
OCTETS = "application/octet-stream"
PDF = pdf_of(["First page\nof two", "Second page"])
DOCX = docx_of(lambda document: document.add_paragraph("Hello"))
XLSX = xlsx_of({"Data": [["a"]]})


def read(data: bytes, name: str, media_type: str = OCTETS, charset: str | None = None, **more: Any) -> Extracted:
    return extracting.extract(data, media_type, charset, name, **more)


def here(data: bytes, name: str, media_type: str = OCTETS) -> dict[str, Any]:
    """Read in this process, which is quicker, what harms no process."""
    return child.read(data, media_type, None, name)


def refusal(data: bytes, name: str, media_type: str = OCTETS) -> tuple[str, str]:
    answer = here(data, name, media_type)
    return answer["refused"], answer["message"]


def texts(answer: dict[str, Any]) -> list[str]:
    return [text for text, _place in answer["passages"]]


def whole(answer: dict[str, Any]) -> str:
    return "\n\n".join(texts(answer))


# ---------------------------------------------------------------- plain text and Markdown


@pytest.mark.parametrize(
    ("data", "text", "notes"),
    [
        ("Grüße 🎉\r\nשלום".encode(), "Grüße 🎉\nשלום", 0),
        ("Grüße".encode("utf-8-sig"), "Grüße", 0),
        ("Grüße".encode("utf-16"), "Grüße", 0),
        (b"\xfe\xff" + "Grüße".encode("utf-16-be"), "Grüße", 0),
        ("Grüße, ohne Marke".encode("utf-16-le"), "Grüße, ohne Marke", 0),
        ("Grüße, ohne Marke".encode("utf-16-be"), "Grüße, ohne Marke", 0),
        ("Grüße".encode("utf-32"), "Grüße", 0),
        ("Grüße €".encode("cp1252"), "Grüße €", 1),
        (b"old\rMac\rlines", "old\nMac\nlines", 0),
        (b"bell\x07 and page\x0cbreak", "bell and page\nbreak", 0),
        (b"\xff\xfe" + "half".encode("utf-16-le") + b"\x00\xd8", "half\ufffd", 1),
    ],
)
def test_text_of_any_encoding(data: bytes, text: str, notes: int) -> None:
    answer = here(data, "a.txt")
    assert (answer["kind"], whole(answer), len(answer["notes"])) == ("text", text, notes)


def test_a_declared_encoding_is_used_unless_it_is_no_encoding_of_text() -> None:
    assert read("привет".encode("koi8-r"), "a.txt", "text/plain", "koi8-r").passages[0].text == "привет"
    guessed = read("Grüße".encode("cp1252"), "a.txt", "text/plain", "punycode")
    assert guessed.passages[0].text == "Grüße" and guessed.notes


def test_paragraphs_keep_their_line_numbers() -> None:
    answer = here(b"one\ntwo\n\n\nthree\n" + b"four " * 300, "log.txt")
    assert answer["extent"] == {"lines": 6}
    (first, at), *more = answer["passages"]
    assert (first, at) == ("one\ntwo", "lines 1-2")
    assert [place for _text, place in more] == ["lines 5-6", "line 6"]


def test_markdown_has_headings_but_not_in_fenced_code() -> None:
    code = "```sh\n# no heading\n\n\nls\n```\n" + "word " * 100
    source = f"# One\ntext\n\n{code}\n\nTwo\n---\nmore\n" + "word " * 80 + "\n\n### Three ###\nend\n"
    answer = here(source.encode(), "a.md")
    assert answer["kind"] == "markdown"
    places = [place for _text, place in answer["passages"]]
    assert places == ["section One, lines 1-10", "section Two, lines 12-15", "section Three, lines 17-18"]
    assert "# no heading\n\n\nls" in texts(answer)[0]
    assert "".join(whole(answer).split()) == "".join(source.split())


# ---------------------------------------------------------------- HTML

PAGE = b"""<!DOCTYPE html><html><head><meta charset="windows-1252"><title>Title \xfc</title>
<style>p { color: red }</style><script>var a = "<p>never</p>";</script></head>
<body><h1>Heading</h1><p>One <b>bold</b>
   word<br>next line<noscript>gone</noscript></p><!-- comment -->
<ul><li>first<li>second</ul>
<table><tr><th>Name<th>Value<tr><td>a|b<td><p>1</p></table>
<pre>  keep
    this</pre><svg><text>drawn</text></svg><template>gone</template></body></html>"""


def test_html_is_read_as_it_is_seen() -> None:
    answer = here(PAGE, "a.html")
    assert whole(answer).split("\n\n") == [
        "Title ü",
        "Heading",
        "One bold word\nnext line",
        "- first",
        "- second",
        "Name | Value",
        "a|b | 1",
        "  keep\n    this",
    ]


def test_a_heading_that_is_not_shown_is_no_section() -> None:
    answer = here(b"<template><h1>Gone</h1></template><p>Shown</p>", "a.html")
    assert answer["passages"] == [["Shown", None]]


def test_html_without_a_name_is_told_by_its_content() -> None:
    assert here(PAGE, "download", "text/plain")["kind"] == "html"
    assert here(b"about <html> tags", "a.txt")["kind"] == "text"


def test_a_page_of_comments_is_told_from_html_at_once() -> None:
    comments = b"<!---->" * 500
    began = time.thread_time()
    assert here(comments + b"<p>", "notes")["kind"] == kinds.TEXT
    assert here(b" \n<!-- a -->\n" + comments + b"<html><p>Hello", "notes")["kind"] == kinds.HTML
    assert time.thread_time() - began < 2


def test_html_of_any_depth_keeps_its_text() -> None:
    deep = read(b"<div>" * 100_000 + b"at the bottom<p>end", "a.html")
    assert [passage.text for passage in deep.passages] == ["at the bottom\n\nend"]


# ---------------------------------------------------------------- rows


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"name,value\nx,1\ny,2\n", "a.csv"),
        (b"name;value\r\nx;1\r\ny;2\r\n", "a.csv"),
        (b"name\tvalue\nx\t1\ny\t2\n", "a.tsv"),
        (b"sep=|\nname|value\nx|1\ny|2", "a.csv"),
        ("\ufeffname;value\nx;1\ny;2".encode(), "a.csv"),
        (b'"name","value"\n"x",1\n"y","2"\n', "a.csv"),
    ],
)
def test_csv_of_any_dialect(data: bytes, name: str) -> None:
    answer = here(data, name)
    assert answer["passages"] == [["name | value\nx | 1\ny | 2", "rows 2-3"]]
    assert (answer["kind"], answer["extent"]) == ("csv", {"rows": 3})


def test_csv_repeats_its_header_and_keeps_every_row() -> None:
    rows = [f'item {number};{number},5;"a, b\nc"' for number in range(500)]
    answer = here(("Name;Price;Note\n" + "\n".join(rows)).encode(), "a.csv")
    assert len(texts(answer)) > 5
    assert all(text.startswith("Name | Price | Note\n") for text in texts(answer))
    lines = [line for text in texts(answer) for line in text.split("\n")[1:]]
    assert lines == [f"item {number} | {number},5 | a, b c" for number in range(500)]
    assert answer["passages"][-1][1].endswith("-501") and answer["extent"] == {"rows": 501}


def test_csv_without_header_without_columns_and_with_a_lone_quote() -> None:
    assert here(b"1,2\n3,4\n", "a.csv")["passages"] == [["1 | 2\n3 | 4", "rows 1-2"]]
    assert here(b"only words\nin lines\n", "a.csv")["passages"] == [["only words\nin lines", "rows 1-2"]]
    code, words = refusal(b'a,b\n"never closed,' + b"x" * 2_000_000, "a.csv")
    assert code == "broken" and "quotation mark" in words


def test_xlsx_has_values_sheets_and_rows() -> None:
    data = xlsx_of(
        {
            "Sales": [
                ["Who", "When", "Amount", "Paid"],
                ["Zoë", datetime.datetime(2026, 3, 1), 3.0, True],
                [None, None, None, None],
                ["Ada", datetime.datetime(2026, 3, 2, 9, 30), 0.1 + 0.2, False],
            ],
            "שנייה 🎉": [["only"]],
        }
    )
    answer = here(data, "a.xlsx")
    assert answer["passages"] == [
        [
            "Who | When | Amount | Paid\nZoë | 2026-03-01 | 3 | TRUE\nAda | 2026-03-02 09:30:00 | 0.3 | FALSE",
            "sheet Sales rows 2-4",
        ],
        ["only", "sheet שנייה 🎉 row 1"],
    ]
    assert answer["extent"] == {"sheets": 2, "rows": 4} and answer["notes"] == []


def test_formulas_without_a_stored_value_are_told() -> None:
    """As libraries write them: nobody has worked them out. An empty text is a value."""
    cells = b'<c r="A1"><v>7</v></c><c r="B1"><f>A1*2</f></c><c r="C1"><f>A1*3</f><v>21</v></c>'
    cells += b'<c r="D1" t="str"><f>""</f><v></v></c><c r="E1"><f t="shared" si="0"/></c>'
    answer = here(with_member(XLSX, "xl/worksheets/sheet1.xml", SHEET % (b'<row r="1">' + cells + b"</row>")), "a.xlsx")
    assert texts(answer) == ["7 |  | 21"]
    (note,) = answer["notes"]
    assert note.startswith("2 formulas without a value in the file")


def test_one_far_cell_is_two_rows() -> None:
    far = SHEET % b'<row r="1"><c r="A1"><v>1</v></c></row><row r="200000"><c r="XFD200000"><v>2</v></c></row>'
    answer = here(with_member(XLSX, "xl/worksheets/sheet1.xml", far), "a.xlsx")
    assert answer["passages"] == [["1\n… | 2", "sheet Data rows 1-200000"]]
    assert answer["extent"]["rows"] == 2


def test_a_sheet_says_nothing_of_its_own_size() -> None:
    lie = SHEET.replace(b"<sheetData>", b'<dimension ref="A1:A1"/><sheetData>')
    rows = b'<row r="1"><c r="A1"><v>1</v></c><c r="B1"><v>2</v></c></row><row r="9"><c r="C9"><v>3</v></c></row>'
    assert texts(here(with_member(XLSX, "xl/worksheets/sheet1.xml", lie % rows), "a.xlsx")) == ["1 | 2\n|  | 3"]


# ---------------------------------------------------------------- Word and PowerPoint


def _report(document: Any) -> None:
    document.add_heading("Bericht", 0)
    document.add_paragraph("Einleitung mit Ümläuten, עברית und 🎉.")
    document.add_heading("Zahlen", 1)
    table = document.add_table(rows=2, cols=2)
    for row, cells in zip(table.rows, (("a", "b"), ("1", "2")), strict=True):
        for cell, text in zip(row.cells, cells, strict=True):
            cell.text = text
    document.add_paragraph("Nach der Tabelle.")
    document.sections[0].header.paragraphs[0].text = "Vertraulich"
    document.sections[0].footer.paragraphs[0].text = "Seite"


def test_docx_in_reading_order_with_headings_tables_headers() -> None:
    answer = here(docx_of(_report), "a.docx", DOCX_TYPE)
    assert answer["passages"] == [
        [
            "Bericht\n\nEinleitung mit Ümläuten, עברית und 🎉.\n\nZahlen\n\na | b\n1 | 2\n\nNach der Tabelle.",
            "sections Bericht to Zahlen",
        ],
        ["Vertraulich\n\nSeite", "headers and footers"],
    ]
    assert answer["mediaType"] == DOCX_TYPE


@pytest.mark.parametrize(("level", "heads"), [("0", True), ("8", True), ("9", False), ("²", False), ("-1", False)])
def test_docx_styles_that_are_headings_by_their_outline_level(level: str, heads: bool) -> None:
    def fill(document: Any) -> None:
        style = document.styles.add_style("Mine", WD_STYLE_TYPE.PARAGRAPH)
        outline_level = OxmlElement("w:outlineLvl")
        outline_level.set(qn("w:val"), level)
        style.element.get_or_add_pPr().append(outline_level)
        document.add_paragraph("Chapter", "Mine")
        document.add_paragraph("Text")

    ((_text, place),) = here(docx_of(fill), "a.docx")["passages"]
    assert (place == "section Chapter") == heads


def test_docx_has_what_content_controls_links_and_text_boxes_hold_but_not_what_was_deleted() -> None:
    body = WORD % (
        b"<w:sdt><w:sdtContent><w:p><w:r><w:t>in a control</w:t></w:r></w:p></w:sdtContent></w:sdt>"
        b"<w:p><w:hyperlink><w:r><w:t>link</w:t></w:r></w:hyperlink><w:ins><w:r><w:t> added</w:t></w:r></w:ins>"
        b"<w:del><w:r><w:delText>gone</w:delText></w:r></w:del><w:moveFrom><w:r><w:t>moved</w:t></w:r></w:moveFrom>"
        b"<w:r><w:tab/><w:t>tab</w:t><w:br/><w:t>line</w:t></w:r></w:p>"
        b"<w:p><w:r><w:pict><w:txbxContent><w:p><w:r><w:t>in a box</w:t></w:r></w:p></w:txbxContent></w:pict></w:r>"
        b"</w:p>"
    )
    answer = here(with_member(DOCX, "word/document.xml", body), "a.docx")
    assert texts(answer) == ["in a control\n\nlink added\ttab\nline\n\nin a box"]


def test_a_long_table_repeats_its_header() -> None:
    def fill(document: Any) -> None:
        table = document.add_table(rows=120, cols=2)
        for number, row in enumerate(table.rows):
            for cell, text in zip(
                row.cells, ("Name", "City") if number == 0 else (f"n{number}", "Köln am Rhein"), strict=True
            ):
                cell.text = text

    answer = here(docx_of(fill), "a.docx")
    assert len(texts(answer)) > 1
    assert all(text.startswith("Name | City\n") for text in texts(answer))
    assert answer["passages"][0][1].startswith("table rows 2-")


def test_documents_with_macros_are_read_and_their_macros_left_alone() -> None:
    plain = DOCX_TYPE.encode() + b".main+xml"
    types = archives._member(archives._opened(DOCX), "[Content_Types].xml", 100_000)
    assert plain in types
    macro = with_member(
        DOCX, "[Content_Types].xml", types.replace(plain, b"application/vnd.ms-word.document.macroEnabled.main+xml")
    )
    assert texts(here(with_member(macro, "word/vbaProject.bin", b"\xd0\xcf\x11\xe0"), "a.docm")) == ["Hello"]


def test_pptx_slide_by_slide_with_notes() -> None:
    data = pptx_of([("Titel 🎉", "Punkt eins\nPunkt zwei", "Sprich langsam"), ("Zweite", "Text", "")])
    answer = here(data, "a.pptx")
    assert answer["passages"] == [
        ["Titel 🎉\n\nPunkt eins\nPunkt zwei", "slide 1"],
        ["Sprich langsam", "slide 1 notes"],
        ["Zweite\n\nText", "slide 2"],
    ]
    assert answer["extent"] == {"slides": 2}


def test_pptx_has_the_figures_of_its_charts() -> None:
    presentation = pptx.Presentation()
    shapes = presentation.slides.add_slide(presentation.slide_layouts[6]).shapes
    bars = CategoryChartData()
    bars.categories = ["East", "West"]
    bars.add_series("First quarter", (19.2, None))
    bars.add_series("Second quarter", (22.5, 21.4))
    chart = shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, 9, 9, bars).chart
    chart.has_title = True
    chart.chart_title.text_frame.text = "Sales"
    chart.value_axis.has_title = True
    chart.value_axis.axis_title.text_frame.text = "in millions"
    points = XyChartData()
    points.add_series("Trials").add_data_point(1, 2.5)
    shapes.add_chart(XL_CHART_TYPE.XY_SCATTER, 0, 0, 9, 9, points)
    kept = io.BytesIO()
    presentation.save(kept)
    assert texts(here(kept.getvalue(), "a.pptx")) == [
        "Sales\nin millions\nFirst quarter: East 19.2\nSecond quarter: East 22.5, West 21.4\n\nTrials: 1 2.5"
    ]


def test_pptx_categories_in_groups_have_the_group_and_days_are_dates() -> None:
    presentation = pptx.Presentation()
    shapes = presentation.slides.add_slide(presentation.slide_layouts[6]).shapes
    grouped, days = CategoryChartData(), CategoryChartData()
    for year in ("2024", "2025"):
        group = grouped.add_category(year)
        for half in ("H1", "H2"):
            group.add_sub_category(half)
    grouped.add_series("Sales", (1, 2, None, 4))
    days.categories = [datetime.date(2024, 1, 31), datetime.date(2024, 2, 29)]
    days.add_series("Visits", (5, 6))
    for data in (grouped, days):
        shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, 9, 9, data)
    kept = io.BytesIO()
    presentation.save(kept)
    assert texts(here(kept.getvalue(), "a.pptx")) == [
        "Sales: 2024 H1 1, 2024 H2 2, 2025 H2 4\n\nVisits: 2024-01-31 5, 2024-02-29 6"
    ]


# ---------------------------------------------------------------- PDF


def test_pdf_page_by_page() -> None:
    answer = here(PDF, "a.pdf", "application/pdf")
    assert answer["passages"] == [["First page\nof two", "page 1"], ["Second page", "page 2"]]
    assert answer["extent"] == {"pages": 2}


@pytest.mark.parametrize("algorithm", ["RC4-128", "AES-128", "AES-256"])
def test_a_pdf_that_opens_without_a_password_is_read_and_one_with_a_password_refused(algorithm: str) -> None:
    assert whole(here(encrypted_pdf(PDF, "", algorithm), "a.pdf")) == "First page\nof two\n\nSecond page"
    code, words = refusal(encrypted_pdf(PDF, "secret", algorithm), "a.pdf")
    assert code == "encrypted" and "password" in words


def test_a_pdf_of_pictures_has_no_passages_and_says_why() -> None:
    answer = here(pdf_of(["", ""]), "scan.pdf")
    assert (answer["passages"], answer["extent"]) == ([], {"pages": 2})
    assert "recognition" in answer["notes"][0]


def test_a_pdf_with_a_wrong_table_is_mended() -> None:
    assert whole(here(PDF.replace(b"startxref\n", b"startxref\n99"), "a.pdf")) == "First page\nof two\n\nSecond page"


# ---------------------------------------------------------------- which kind it is


def test_content_decides_and_the_difference_is_told() -> None:
    answer = here(DOCX, "report.pdf", "application/pdf")
    assert (answer["kind"], answer["mediaType"]) == ("docx", DOCX_TYPE)
    assert answer["notes"] == ["The file was sent as PDF; its bytes are DOCX (Word)."]
    sheet = here(b"<html><table><tr><td>a<td>1</table>", "export.xlsx")
    assert sheet["kind"] == "html" and len(sheet["notes"]) == 1
    assert here(b"plain", "a.pdf", "application/pdf")["kind"] == "text"


@pytest.mark.parametrize(
    ("media_type", "name", "kind", "stored"),
    [
        ("text/plain", "a.md", "markdown", "text/markdown"),
        (OCTETS, "a.csv", "csv", "text/csv"),
        ("application/vnd.ms-excel", "a.csv", "csv", "text/csv"),
        ("text/x-python", "a.py", "text", "text/x-python"),
        ("application/json", "a.json", "text", "application/json"),
        (OCTETS, "README", "text", "text/plain"),
        ("image/png", "a.txt", "text", "text/plain"),
        ("text/x-markdown", "a", "markdown", "text/x-markdown"),
    ],
)
def test_kinds_of_text_are_told_by_what_was_said(media_type: str, name: str, kind: str, stored: str) -> None:
    answer = here(b"a,b\n1,2\n", name, media_type)
    assert (answer["kind"], answer["mediaType"]) == (kind, stored)


def test_an_empty_file_is_a_document_without_passages() -> None:
    answer = here(b"", "a.txt")
    assert (answer["passages"], answer["notes"]) == ([], ["The file is empty."])


# ---------------------------------------------------------------- refused in words

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600


@pytest.mark.parametrize(
    ("data", "name", "code", "says"),
    [
        (b"\x89PNG\r\n\x1a\n" + b"\0" * 50, "a.png", "unsupported_type", "PNG picture"),
        (OLE, "a.doc", "unsupported_type", "old Office format"),
        (OLE + "EncryptedPackage".encode("utf-16-le"), "a.xlsx", "encrypted", "password"),
        (b"{\\rtf1 hello}", "a.rtf", "unsupported_type", "RTF"),
        (bytes(range(256)) * 8, "a.bin", "unsupported_type", "neither text"),
        (bytes(range(256)) * 8, "a.pdf", "broken", "said to be PDF"),
        (DOCX[: len(DOCX) // 2], "a.docx", "broken", "cannot be unpacked"),
        (b"PK\x05\x06" + b"\0" * 18, "a.docx", "broken", "without the parts"),
        (b"PK\x05\x06" + b"\0" * 18, "a.zip", "unsupported_type", "one by one"),
        (with_member(DOCX, "word/document.xml", b"<w:document"), "a.docx", "broken", "damaged"),
        (with_member(XLSX, "xl/workbook.xml", b"\0\0"), "a.xlsx", "broken", "damaged"),
        (b"%PDF-1.7\n", "a.pdf", "broken", "damaged"),
        (PDF[: len(PDF) // 2], "a.pdf", "broken", "damaged"),
    ],
)
def test_what_is_not_read_is_refused_in_words(data: bytes, name: str, code: str, says: str) -> None:
    found, words = refusal(data, name)
    assert found == code and says in words, words


def test_an_encrypted_archive_is_told_from_a_broken_one() -> None:
    flags = bytearray(DOCX)
    at = flags.find(b"PK\x01\x02")
    while at >= 0:
        flags[at + 8] |= 1
        at = flags.find(b"PK\x01\x02", at + 1)
    assert refusal(bytes(flags), "a.docx")[0] == "encrypted"


def test_bombs_are_told_by_what_they_would_become(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "TREE_BYTES", 1_000_000)
    monkeypatch.setattr(archives, "EXPANDED_BYTES", 3_000_000)
    large = with_member(DOCX, "word/document.xml", b" " * 1_000_001)
    assert len(large) < 50_000 and refusal(large, "a.docx")[0] == "too_large"
    assert refusal(with_member(DOCX, "word/media/image1.png", b"\0" * 3_000_000), "a.docx")[0] == "too_large"
    monkeypatch.setattr(archives, "MEMBERS", 5)
    code, words = refusal(DOCX, "a.docx")
    assert code == "too_large" and "Split it" in words


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_entities_are_refused_wherever_they_are_declared(encoding: str) -> None:
    bomb = '<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;">]><w>&b;</w>'
    outside = '<!DOCTYPE w [<!ENTITY x SYSTEM "file:///etc/passwd">]><w>&x;</w>'
    for text in (bomb, outside):
        for archive, member, name in (
            (DOCX, "word/document.xml", "a.docx"),
            (DOCX, "word/styles.xml", "a.docx"),
            (XLSX, "xl/sharedStrings.xml", "a.xlsx"),
        ):
            assert refusal(with_member(archive, member, text.encode(encoding)), name)[0] == "broken"
    # Also where one chunk ends and the next begins.
    padded = b"<!--" + b" " * (archives.CHUNK_BYTES - 8) + b"--><!DOCTYPE w><w/>"
    assert refusal(with_member(DOCX, "word/document.xml", padded), "a.docx")[0] == "broken"


def test_a_sheet_that_spans_too_much_is_refused() -> None:
    rows = b"".join(b'<row r="%d"><c r="XFD%d"><v>1</v></c></row>' % (number, number) for number in range(1, 400))
    code, words = refusal(with_member(XLSX, "xl/worksheets/sheet1.xml", SHEET % rows), "a.xlsx")
    assert code == "too_large" and "5,000,000 cells" in words


@pytest.mark.parametrize(
    "objects",
    [
        [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Count 1/Kids[2 0 R]>>"],
        [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Count 99999999/Kids[]>>"],
        [b"[" * 100_000],
        [b"<</Type/Catalog>>"],
    ],
)
def test_pdfs_that_lead_nowhere_are_broken(objects: list[bytes]) -> None:
    with pytest.raises(Unreadable) as refused:
        read(raw_pdf(objects), "a.pdf")
    assert refused.value.code == "broken"


def test_a_page_that_cannot_be_read_does_not_take_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    import pypdf

    plain = pypdf.PageObject.extract_text

    def fail_on_the_first(page: Any, *arguments: Any, **more: Any) -> str:
        if page.page_number == 0:
            raise ValueError("odd")
        return str(plain(page, *arguments, **more))

    monkeypatch.setattr(pypdf.PageObject, "extract_text", fail_on_the_first)
    answer = here(PDF, "a.pdf")
    assert texts(answer) == ["Second page"] and answer["notes"] == ["No text could be read from the pages 1."]


# ---------------------------------------------------------------- limits of the process


def test_a_file_that_takes_too_long_is_given_up_in_time() -> None:
    endless = pdf_with_content(
        pdf_stream(zlib.compress(b"BT /F1 9 Tf " + b"(A) Tj " * 3_000_000), b"/Filter/FlateDecode")
    )
    began = time.monotonic()
    with pytest.raises(Unreadable, match="more than 2 seconds") as refused:
        read(endless, "a.pdf", seconds=2.0)
    assert refused.value.code == "too_large" and time.monotonic() - began < 40


def test_the_reader_has_no_credentials_no_files_and_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setattr(
        extracting,
        "_PROGRAM",
        "import os, json\n"
        "from workbench import apart\n"
        "apart.limit()\n"
        "said = [sorted(os.environ)]\n"
        "file = os.memfd_create('never')\n"
        "for what in (lambda: os.write(file, b'x'), lambda: bytearray(2 << 30)):\n"
        "    try: what(); said.append('done')\n"
        "    except (OSError, MemoryError) as error: said.append(type(error).__name__)\n"
        "print(json.dumps({'refused': 'broken', 'message': json.dumps(said)}))",
    )
    with pytest.raises(Unreadable) as refused:
        read(b"x", "a.txt")
    environment, *refusals = json.loads(refused.value.message)
    assert set(environment) <= {"LANG", "LC_CTYPE", "LD_LIBRARY_PATH", "TZ"}
    assert refusals == ["OSError", "MemoryError"]


def _said_from_within(monkeypatch: pytest.MonkeyPatch, program: str) -> Any:
    """What ``program``, run as the reader, prints as JSON."""
    monkeypatch.setattr(
        extracting,
        "_PROGRAM",
        "import os, json, socket\n"
        "from workbench import apart\n"
        "from workbench.knowledge.reading import child\n"
        f"{program}\n"
        "print(json.dumps({'refused': 'broken', 'message': json.dumps(said)}))",
    )
    with pytest.raises(Unreadable) as refused:
        read(b"x", "a.txt")
    return json.loads(refused.value.message)


@pytest.mark.parametrize("kind", ["text", "html", "pdf", "docx", "pptx", "xlsx"])
def test_whoever_takes_a_parser_over_has_no_file_and_no_socket(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Also not in the place of an open one. Where functions run, a socket leads to other people's requests."""
    attempts = (
        "said = []\n"
        "os.close(2)\n"
        "for what in (socket.socket, os.pipe, lambda: os.open('/etc/passwd', os.O_RDONLY), lambda: os.dup(1)):\n"
        "    try: what(); said.append('done')\n"
        "    except OSError: said.append('refused')"
    )
    shut = f"apart.limit(); child.shut({kind!r})\n"
    assert _said_from_within(monkeypatch, shut + attempts) == ["refused"] * 4
    assert _said_from_within(monkeypatch, f"apart.limit()\n{attempts}") == ["done"] * 4


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ("Grüße".encode("shift_jis", "replace"), "a.txt"),
        (b"<meta charset=big5><p>" + "\u4e2d\u6587".encode("big5"), "a.html"),
        (b"a,b\n1,2\n", "a.csv"),
        (PDF, "a.pdf"),
        (encrypted_pdf(PDF, "", "AES-256"), "a.pdf"),
        (encrypted_pdf(PDF, "", "RC4-128"), "a.pdf"),
        # A font whose text is in an encoding of its own, and a picture between the words.
        (
            pdf_with_content(
                pdf_stream(b"BT /F1 9 Tf (Words) Tj ET BI /W 1 /H 1 /BPC 8 /CS /G /F /A85 ID 5l~> EI BT (more) Tj ET")
            ),
            "a.pdf",
        ),
        (DOCX, "a.docx"),
        (pptx_of([("Title", "Text", "Notes")]), "a.pptx"),
        (XLSX, "a.xlsx"),
    ],
)
def test_nothing_is_missed_for_want_of_a_file(data: bytes, name: str) -> None:
    answer, found = here(data, name), read(data, name)
    assert [passage.text for passage in found.passages] == texts(answer) and texts(answer)
    assert list(found.notes) == answer["notes"]


def test_in_lambda_the_reader_cannot_look_into_the_function_that_started_it() -> None:
    """As an ordinary user, which both are there: what the function's environment holds are its credentials."""
    boot = (
        "import json, os\n"
        "try: said = open(f'/proc/{os.getppid()}/environ').read()\n"
        "except PermissionError: said = 'denied'\n"
        "print(json.dumps({'refused': 'broken', 'message': said}))"
    )
    function = (
        "import os\nfrom workbench.knowledge import extracting\n"
        "extracting._PROGRAM = os.environ['BOOT']\n"
        "try: extracting.extract(b'x', 'text/plain', None, 'a.txt')\n"
        "except extracting.Unreadable as refused: print(refused.message)"
    )
    assert as_nobody(function, BOOT=boot, AWS_LAMBDA_FUNCTION_NAME="workbench-documents") == "denied\n"
    assert "canary" in as_nobody(function, BOOT=boot)


@pytest.mark.parametrize(
    "program",
    [
        "import os; os.kill(os.getpid(), 9)",
        "print('not JSON')",
        "print('{}')",
        "print('[]')",
        "print('[' * 200_000)",
        'print(\'{"kind": "text", "mediaType": "a/b", "extent": {"pages": Infinity}, "notes": [], "passages": []}\')',
        'print(\'{"kind": "text", "mediaType": 1, "extent": {}, "notes": [], "passages": []}\')',
        'print(\'{"kind": "text", "mediaType": "a/b", "extent": {}, "notes": [], "passages": [["x", 7]]}\')',
        "import json; print(json.dumps({'kind': 't', 'mediaType': 'a/b', 'extent': {}, 'notes': [], "
        "'passages': [['x' * 1501, None]]}))",
    ],
)
def test_whatever_the_reader_answers_is_checked(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(extracting, "_PROGRAM", program)
    with pytest.raises(Unreadable) as refused:
        read(b"x", "a.txt")
    assert refused.value.code == "broken"


def test_a_reader_that_answers_without_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extracting, "_PROGRAM", "while True: print('x' * 100_000)")
    monkeypatch.setattr(extracting, "ANSWER_BYTES", 1_000_000)
    with pytest.raises(Unreadable) as refused:
        read(b"x", "a.txt", seconds=5)
    assert refused.value.code == "too_large"


def test_a_long_text_is_cut_and_the_note_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outline.Outline, "room", 2_000)
    monkeypatch.setattr(child, "Outline", lambda notes: outline.Outline(notes=notes, room=2_000))
    answer = here(b"word " * 1_000, "a.txt")
    assert len("".join(texts(answer))) == 2_000 and "Only the first" in answer["notes"][0]
    rows = here(b"a,b\n" + b"x,1\n" * 1_000, "a.csv")
    assert rows["extent"] == {"rows": 1_001} and len(rows["notes"]) == 1


def test_every_kind_has_a_media_type_and_words() -> None:
    assert set(kinds.MEDIA_TYPES) == set(kinds.SHOWN)
