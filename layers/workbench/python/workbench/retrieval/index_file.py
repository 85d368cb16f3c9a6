"""The file of a collection's index: SQLite with FTS5, the passages' texts beside it. Knows nothing of AWS or leases.

FTS5 gets texts as terms of :mod:`workbench.retrieval.tokens` and splits at blanks only, so that accents, case and
scripts are handled in one place. It keeps postings, not texts; the texts stand compressed in a table of their own. A
passage's row is its document's number, shifted, plus its position, so that a document is a range of rows.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from workbench.retrieval.tokens import index_tokens, tokens

# Changes with the tables below and with the terms that a text gives: an older file is filled anew by its next writer.
FORMAT = 1
# Room for the passages of one document; the rest of 63 bits numbers the documents.
_POSITION_BITS = 20
MOST_PASSAGES = 1 << _POSITION_BITS
# What a term in a document's title counts against one in the passage.
TITLE_WEIGHT = 0.5

_TABLES = """
CREATE TABLE facts (format INTEGER NOT NULL);
CREATE TABLE documents (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, title TEXT NOT NULL,
    passages INTEGER NOT NULL, terms INTEGER NOT NULL
);
CREATE TABLE passages (row INTEGER PRIMARY KEY, number INTEGER NOT NULL, place TEXT, text BLOB NOT NULL);
CREATE VIRTUAL TABLE postings USING fts5(title, body, content='', tokenize="ascii tokenchars '.+#'");
"""


@dataclass(frozen=True, slots=True)
class IndexedPassage:
    """A passage of a document as the index gives it back. ``row`` orders the passages of a file."""

    row: int
    document: str
    title: str
    number: int
    place: str | None
    text: str


@dataclass(frozen=True, slots=True)
class Statistics:
    """What ranking needs to know of a whole collection: passages, terms in them, and passages that hold each term."""

    passages: int
    terms: int
    holding: dict[str, int]


# ---------------------------------------------------------------- writing


def create(path: Path) -> None:
    """An empty index at ``path``, which must not exist."""
    with _writing(path) as connection:
        connection.executescript(_TABLES)
        connection.execute("INSERT INTO facts VALUES (?)", (FORMAT,))


def add_document(path: Path, document: str, title: str, passages: Iterable[tuple[int, str | None, str]]) -> None:
    """Add a document of ``(number, place, text)`` passages, in place of what the file has under its id."""
    with _writing(path) as connection:
        _renew(connection)
        _remove(connection, document)
        connection.execute("BEGIN")
        _put_in(connection, document, _storable(title), passages)
        connection.execute("COMMIT")


def remove_document(path: Path, document: str) -> bool:
    """Remove a document so that nothing of it is left in the file; False when it was not there."""
    with _writing(path) as connection:
        _renew(connection)
        return _remove(connection, document)


def documents_in(path: Path) -> frozenset[str]:
    """The ids of the documents that the file has."""
    with closing(sqlite3.connect(path)) as connection:
        return frozenset(document for (document,) in connection.execute("SELECT id FROM documents"))


@contextmanager
def _writing(path: Path) -> Iterator[sqlite3.Connection]:
    # Nobody else sees the file before it is whole, and a crash throws it away: no journal, no waiting for the disk.
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA temp_store = MEMORY;")
        yield connection


def _renew(connection: sqlite3.Connection) -> None:
    """Fill a file of an older format anew from its texts: its postings cannot be taken out by today's terms."""
    (found,) = connection.execute("SELECT format FROM facts").fetchone()
    if found == FORMAT:
        return
    connection.execute("BEGIN")
    connection.execute("INSERT INTO postings(postings) VALUES ('delete-all')")
    for number, title in connection.execute("SELECT number, title FROM documents").fetchall():
        counted = _post(connection, title, _texts(connection, number))
        connection.execute("UPDATE documents SET terms = ? WHERE number = ?", (counted, number))
    connection.execute("UPDATE facts SET format = ?", (FORMAT,))
    connection.execute("COMMIT")


def _put_in(
    connection: sqlite3.Connection, document: str, title: str, passages: Iterable[tuple[int, str | None, str]]
) -> None:
    (highest,) = connection.execute("SELECT coalesce(max(number), 0) FROM documents").fetchone()
    rows = list(enumerate(passages, _rows(highest + 1)[0]))
    if len(rows) > MOST_PASSAGES:
        raise ValueError(f"a document has at most {MOST_PASSAGES} passages")
    connection.executemany(
        "INSERT INTO passages VALUES (?, ?, ?, ?)",
        ((row, number, place and _storable(place), _data(text)) for row, (number, place, text) in rows),
    )
    counted = _post(connection, title, ((row, text) for row, (_, _, text) in rows))
    facts = highest + 1, document, title, len(rows), counted
    connection.execute("INSERT INTO documents VALUES (?, ?, ?, ?, ?)", facts)


def _remove(connection: sqlite3.Connection, document: str) -> bool:
    found = connection.execute("SELECT number, title FROM documents WHERE id = ?", (document,)).fetchone()
    if found is None:
        return False
    number, title = found
    titled = " ".join(tokens(title))
    connection.execute("BEGIN")
    # An index that keeps no texts must be told what it was given.
    connection.executemany(
        "INSERT INTO postings(postings, rowid, title, body) VALUES ('delete', ?, ?, ?)",
        ((row, titled, " ".join(index_tokens(text))) for row, text in _texts(connection, number)),
    )
    connection.execute("DELETE FROM passages WHERE row BETWEEN ? AND ?", _rows(number))
    connection.execute("DELETE FROM documents WHERE number = ?", (number,))
    # Removed postings stay in the file until they are merged away, and freed pages keep their bytes.
    connection.execute("INSERT INTO postings(postings) VALUES ('optimize')")
    connection.execute("COMMIT")
    connection.execute("VACUUM")
    return True


def _post(connection: sqlite3.Connection, title: str, rows: Iterable[tuple[int, str]]) -> int:
    """Add the passages ``(row, text)`` of a document to the postings; returns how many terms their texts have."""
    titled = " ".join(tokens(title))
    counted = 0

    def terms() -> Iterator[tuple[int, str, str]]:
        nonlocal counted
        for row, text in rows:
            found = index_tokens(text)
            counted += len(found)
            yield row, titled, " ".join(found)

    connection.executemany("INSERT INTO postings(rowid, title, body) VALUES (?, ?, ?)", terms())
    return counted


def _texts(connection: sqlite3.Connection, number: int) -> list[tuple[int, str]]:
    found = connection.execute("SELECT row, text FROM passages WHERE row BETWEEN ? AND ? ORDER BY row", _rows(number))
    return [(row, _text(data)) for row, data in found]


def _rows(number: int) -> tuple[int, int]:
    return number << _POSITION_BITS, (number << _POSITION_BITS) + MOST_PASSAGES - 1


def _data(text: str) -> bytes:
    return zlib.compress(text.encode("utf-8", "surrogatepass"))


def _text(data: bytes) -> str:
    return zlib.decompress(data).decode("utf-8", "surrogatepass")


def _storable(text: str) -> str:
    """``text`` without half surrogate pairs, which SQLite cannot hold."""
    return text.encode("utf-8", "replace").decode()


# ---------------------------------------------------------------- reading


class IndexReader:
    """One open file, for one thread at a time. The file never changes while it is read: writers make another."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True, check_same_thread=False)
        self._connection.execute("CREATE VIRTUAL TABLE temp.vocabulary USING fts5vocab(main, postings, row)")

    def close(self) -> None:
        self._connection.close()

    def statistics(self, terms: Iterable[str]) -> Statistics:
        """The collection's size, and for each of ``terms`` that it holds in how many passages."""
        passages, counted = self._connection.execute(
            "SELECT coalesce(sum(passages), 0), coalesce(sum(terms), 0) FROM documents"
        ).fetchone()
        holding = {}
        for term in terms:
            found = self._connection.execute("SELECT doc FROM vocabulary WHERE term = ?", (term,)).fetchone()
            if found:
                holding[term] = found[0]
        return Statistics(passages, counted, holding)

    def numbers_of(self, documents: Iterable[str]) -> list[int]:
        """The numbers of those of ``documents`` that the file has, in order."""
        wanted = frozenset(documents)
        found = self._connection.execute("SELECT id, number FROM documents ORDER BY number")
        return [number for document, number in found if document in wanted]

    def passages_of(self, numbers: Sequence[int] | None) -> int:
        """How many passages the documents with these ``numbers`` have, or all."""
        scope = "" if numbers is None else f"WHERE number IN ({','.join(map(str, numbers))})"
        (count,) = self._connection.execute(
            f"SELECT coalesce(sum(passages), 0) FROM documents {scope}"  # noqa: S608 - integers only
        ).fetchone()
        return int(count)

    def candidates(self, terms: Sequence[str], numbers: Sequence[int] | None, most: int) -> list[int]:
        """Rows of the ``most`` passages that rank best by the file's own figures, of any documents or of ``numbers``.

        What a term is never reaches FTS5's query language: each is quoted.
        """
        if not terms or numbers == []:
            return []
        quoted = " OR ".join('"' + term.replace('"', '""') + '"' for term in terms)
        scope = ""
        if numbers is not None:
            # Numbers of our own making; a document is a range of rows, which FTS5 can seek to when it is the only one.
            scope = f"AND rowid BETWEEN {_rows(min(numbers))[0]} AND {_rows(max(numbers))[1]}"
            if len(numbers) > 1:
                scope += f" AND (rowid >> {_POSITION_BITS}) IN ({','.join(map(str, numbers))})"
        found = self._connection.execute(
            f"SELECT rowid FROM postings WHERE postings MATCH ? {scope} "  # noqa: S608 - integers only
            f"ORDER BY bm25(postings, {TITLE_WEIGHT}, 1.0), rowid LIMIT ?",
            (quoted, most),
        )
        return [row for (row,) in found]

    def passages(self, rows: Sequence[int]) -> list[IndexedPassage]:
        """The passages of ``rows``, in the order of the rows."""
        found = self._connection.execute(
            "SELECT p.row, d.id, d.title, p.number, p.place, p.text FROM passages p "  # noqa: S608 - integers only
            f"JOIN documents d ON d.number = p.row >> {_POSITION_BITS} "
            f"WHERE p.row IN ({','.join(map(str, rows))}) ORDER BY p.row"
        )
        return [
            IndexedPassage(row, document, title, number, place, _text(data))
            for row, document, title, number, place, data in found
        ]
