"""The line model and both forms of edit once more, as plainly as can be: what the engine is tested against."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from workbench.workspace.text.edit import LineEdit

BOMS = {"utf-8": b"\xef\xbb\xbf", "utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}
Lines = list[tuple[bytes, bytes]]


def mark_of(data: bytes) -> tuple[bytes, str]:
    for encoding, bom in BOMS.items():
        if data.startswith(bom):
            return bom, encoding
    return b"", "utf-8"


def naive_lines(body: bytes, encoding: str) -> Lines:
    """(text, ending) of every line of what follows a byte-order mark, one code unit after the other."""
    width = 1 if encoding == "utf-8" else 2
    lf, cr = "\n".encode(encoding), "\r".encode(encoding)
    units = [body[at : at + width] for at in range(0, len(body), width)]
    lines: Lines = []
    text, at = b"", 0
    while at < len(units):
        unit = units[at]
        at += 1
        if unit == cr and at < len(units) and units[at] == lf:
            lines.append((text, cr + lf))
            text, at = b"", at + 1
        elif unit in (cr, lf):
            lines.append((text, unit))
            text = b""
        else:
            text += unit
    return [*lines, (text, b"")] if text else lines


def joined(lines: Lines) -> bytes:
    return b"".join(text + ending for text, ending in lines)


def dominant(lines: Lines, encoding: str) -> bytes:
    endings = [ending for _, ending in lines]
    return max(("\n".encode(encoding), "\r\n".encode(encoding), "\r".encode(encoding)), key=endings.count)


def naive_line_edits(data: bytes, edits: Sequence[LineEdit]) -> bytes | None:
    """The file after edits that are all allowed; None where an ending would merge with another."""
    bom, encoding = mark_of(data)
    lines = naive_lines(data[len(bom) :], encoding)
    ending, unterminated = dominant(lines, encoding), not lines[-1][1]
    after = list(lines)
    for edit in sorted(edits, key=lambda edit: -edit.start_line):
        first, last = edit.start_line - 1, edit.last - 1
        new = [text.decode() for text, _ in naive_lines(edit.content.encode(), "utf-8")]
        old = lines[first][0].decode(encoding, "replace")
        if first == last and len(new) == 1 and new[0] and new[0][0] not in " \t" and old.strip() != new[0].strip():
            new[0] = re.match("[ \t]*", old)[0] + new[0]
        texts = [text.encode(encoding) for text in new]
        after[first : last + 1] = [
            (text, lines[last][1] if number == len(texts) else ending) for number, text in enumerate(texts, 1)
        ]
    if unterminated and after:
        text, own = after[-1]
        after[-1] = (text, b"" if text else own or ending)
    body = joined(after)
    return bom + body if len(naive_lines(body, encoding)) == len(after) else None


def naive_find(data: bytes, find: str) -> list[int]:
    """On which token of the file ``find`` stands, overlaps included; a token is a unit or a whole ending."""
    tokens, wanted = file_tokens(data), text_tokens(find, mark_of(data)[1])
    same = [b"\n" if is_break(token, mark_of(data)[1]) else token for token in tokens]
    return [at for at in range(len(same)) if same[at : at + len(wanted)] == wanted]


def naive_replace(data: bytes, find: str, at: int, replace: str) -> bytes | None:
    """The file with one occurrence replaced; None where an ending would merge with another."""
    bom, encoding = mark_of(data)
    tokens, wanted = file_tokens(data), text_tokens(find, encoding)
    ending = dominant(naive_lines(data[len(bom) :], encoding), encoding)
    new = [ending if token == b"\n" else token for token in text_tokens(replace, encoding)]
    after = [*tokens[:at], *new, *tokens[at + len(wanted) :]]
    body = b"".join(after)
    return bom + body if file_tokens(bom + body) == after else None


def line_of(data: bytes, at: int) -> int:
    return 1 + sum(is_break(token, mark_of(data)[1]) for token in file_tokens(data)[:at])


def is_break(token: bytes, encoding: str) -> bool:
    return token in [ending.encode(encoding) for ending in ENDINGS]


def file_tokens(data: bytes) -> list[bytes]:
    bom, encoding = mark_of(data)
    width = 1 if encoding == "utf-8" else 2
    tokens = []
    for text, ending in naive_lines(data[len(bom) :], encoding):
        tokens += [text[at : at + width] for at in range(0, len(text), width)]
        tokens += [ending] if ending else []
    return tokens


def text_tokens(text: str, encoding: str) -> list[bytes]:
    tokens: list[bytes] = []
    width = 1 if encoding == "utf-8" else 2
    for piece in re.split("(\r\n|\n|\r)", text):
        if piece in ("\r\n", "\n", "\r"):
            tokens.append(b"\n")
        else:
            raw = piece.encode(encoding)
            tokens += [raw[at : at + width] for at in range(0, len(raw), width)]
    return tokens


# ---------------------------------------------------------------- strategies

# A busy machine is no reason to fail.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
thorough = settings(patient, max_examples=250)

# Few pieces, so that texts repeat; among them all that other tools take for a line end, and what UTF-16 could mistake.
PIECES = [
    "a",
    "b",
    "ab",
    " ",
    "\t",
    "é",
    "é",
    "😀",
    "\u2028",
    "\x85",
    "\x0b",
    "\x0c",
    "\x1c",
    "\u0a0d",
    "\u0d0a",
    "\u0a00",
]
ENDINGS = ["\n", "\r\n", "\r"]
texts = st.lists(st.sampled_from(PIECES), max_size=4).map("".join)
invalid = st.sampled_from([b"\xe8", b"\xe2\x80", b"\xff", b"\x80", b"\xed\xa0\x80", b"\xd6\xd0"])


@st.composite
def files(draw: st.DrawFn, min_lines: int = 0) -> bytes:
    """Files of every encoding, ending and mixture, some with invalid bytes, some without a final newline."""
    encoding = draw(st.sampled_from(["utf-8", "utf-8", "utf-16-le", "utf-16-be"]))
    bom = BOMS[encoding] if encoding != "utf-8" or draw(st.booleans()) else b""
    used = draw(st.lists(st.sampled_from(ENDINGS), min_size=1, max_size=3))
    body = b""
    for text in draw(st.lists(texts, min_size=min_lines, max_size=8)):
        line = text.encode(encoding)
        if encoding == "utf-8" and draw(st.integers(0, 5)) == 0:
            line += draw(invalid)
        # An empty line must not melt two endings into one.
        ending = draw(st.sampled_from(used)).encode(encoding)
        if not line and body.endswith("\r".encode(encoding)) and ending.startswith("\n".encode(encoding)):
            line = "x".encode(encoding)
        body += line + ending
    if body and draw(st.booleans()):
        text, _ = naive_lines(body, encoding)[-1]
        body = joined(naive_lines(body, encoding)[:-1]) + (text or "x".encode(encoding))
    if encoding != "utf-8" and draw(st.integers(0, 9)) == 0:
        body += b"x"  # half a code unit
    return bom + body


contents = st.lists(st.one_of(texts, st.sampled_from(ENDINGS)), max_size=6).map("".join)
