"""Search in documents: TF-IDF in memory against scikit-learn's, the persistent index against SQLite's FTS5 as it comes.

The passages are made of words that are as common as words are. None ends in s, so that both sides search for the same
terms and have to find the same passages.
"""

from __future__ import annotations

import itertools
import json
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path

from bench.measure import Figures, Row, in_turns
from workbench.retrieval import index_file
from workbench.retrieval.index_file import IndexReader
from workbench.retrieval.ranking import Searched, rank
from workbench.retrieval.retriever import Doc
from workbench.retrieval.tfidf import InMemoryRetriever

SMALL, LARGE = 10_000, 100_000
DOCUMENTS = 100
K = 4
QUERIES = 40
RUNS = 15
SCIKIT, FTS5 = "scikit-learn", "FTS5 as it comes"

Search = Callable[[str], list[float]]


@cache
def passages(number: int) -> list[str]:
    """So many texts of 40 to 120 words."""
    numbers = random.Random(7)
    words, weights = _words(numbers)
    return [" ".join(numbers.choices(words, cum_weights=weights, k=numbers.randint(40, 120))) for _ in range(number)]


def queries() -> list[str]:
    """Half of them words that stand in one passage, half any words, the commonest most often."""
    numbers = random.Random(8)
    words, weights = _words(random.Random(7))
    texts = passages(SMALL)
    together = [" ".join(numbers.sample(numbers.choice(texts).split(), 6)) for _ in range(QUERIES // 2)]
    return together + [" ".join(numbers.choices(words, cum_weights=weights, k=6)) for _ in range(QUERIES // 2)]


def _words(numbers: random.Random) -> tuple[list[str], list[float]]:
    letters = "etaoinhrdlucmfwygpbvk"
    words = list(dict.fromkeys("".join(numbers.choices(letters, k=numbers.randint(3, 11))) for _ in range(30_000)))
    return words, list(itertools.accumulate(1 / rank for rank in range(1, len(words) + 1)))


def _all(search: Search) -> Callable[[], object]:
    asked = queries()
    return lambda: [search(query) for query in asked]


# ---------------------------------------------------------------- in memory


def tfidf_query() -> Row:
    """All queries, one after the other, over 10,000 passages; the same scores or it counts for nothing."""
    ours, theirs = _memory(), _scikit()
    for query in queries():
        mine, other = ours(query), theirs(query)
        if len(mine) != len(other) or any(abs(a - b) > 1e-4 for a, b in zip(mine, other, strict=True)):
            raise AssertionError(f"{query}: {mine} here, {other} by scikit-learn")
    measured, others = in_turns(_all(ours), _all(theirs), runs=RUNS)
    return Row(measured, SCIKIT, others, "no slower", most=1.0)


def tfidf_index() -> Row:
    """From texts to something that can be searched."""
    measured, others = in_turns(_memory, _scikit, runs=5)
    return Row(measured, SCIKIT, others, "2x", most=2.0)


def tfidf_memory() -> Row:
    """What stays allocated, the texts themselves left out."""
    return Row(_kept(_memory), SCIKIT, _kept(_scikit), "2x", most=2.0)


def _memory() -> Search:
    retriever = InMemoryRetriever(Doc(str(place), text) for place, text in enumerate(passages(SMALL)))
    return lambda query: [found.score for found in retriever.search(query, K)]


def _scikit() -> Search:
    import numpy
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(sublinear_tf=True, token_pattern=r"(?u)\b\w+\b")
    matrix = vectorizer.fit_transform(passages(SMALL))

    def search(query: str) -> list[float]:
        scores = (matrix @ vectorizer.transform([query]).T).toarray().ravel()
        best = numpy.argpartition(-scores, K)[:K]
        return sorted((float(scores[place]) for place in best if scores[place] > 0), reverse=True)

    return search


def _kept(make: Callable[[], Search]) -> Figures:
    passages(SMALL)
    # What is imported and remembered at the first use is not the index.
    make()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        held = make()
        kept = tracemalloc.get_traced_memory()[0] - before
        del held
    finally:
        tracemalloc.stop()
    return Figures((kept / 1024**2,), "MiB")


# ---------------------------------------------------------------- persistent


def index_query() -> Row:
    """Ten queries over 100,000 passages; each opens the file, as a function's call does."""
    ours, theirs = _built()[:2]
    measured, others = in_turns(
        lambda: [_ask(ours, query) for query in _few()], lambda: [_ask_bare(theirs, query) for query in _few()], runs=5
    )
    return Row(measured, FTS5, others, "no slower", most=1.0)


def index_build() -> Row:
    """100 documents of 1,000 passages, one after the other; processor time."""
    _, _, measured, others = _built()
    return Row(measured, FTS5, others, "3x", most=3.0)


def index_size() -> Row:
    """The file, which is what a function fetches and stores."""
    sizes = [Figures((path.stat().st_size / 1024**2,), "MiB") for path in _built()[:2]]
    return Row(sizes[0], FTS5, sizes[1], "no larger", most=1.0)


def index_add() -> Row:
    """One more document of 20 passages: a copy of the file and the change in it. Storing it is left out of both."""
    ours, theirs = _built()[:2]
    added = passages(SMALL)[:20]
    scratch = ours.with_name("scratch")

    def add() -> None:
        shutil.copyfile(ours, scratch)
        index_file.add_document(scratch, "added", "Added", [(n, None, text) for n, text in enumerate(added)])

    def add_bare() -> None:
        shutil.copyfile(theirs, scratch)
        _fill_bare(scratch, [added])

    measured, others = in_turns(add, add_bare, runs=RUNS)
    return Row(measured, FTS5, others, "2x", most=2.0)


def index_memory() -> Row:
    """Peak resident memory of a process that opens the file and asks all queries."""
    peaks = [_peak_mebibytes(name, path) for name, path in zip(("_ask", "_ask_bare"), _built()[:2], strict=True)]
    return Row(Figures((peaks[0],), "MiB"), FTS5, Figures((peaks[1],), "MiB"), "1.5x", most=1.5)


def _peak_mebibytes(asking: str, path: Path) -> float:
    program = (
        "import json, re, sys; from pathlib import Path; from bench import retrieval\n"
        f"[retrieval.{asking}(Path(sys.argv[1]), query) for query in json.loads(sys.argv[2])]\n"
        # Not getrusage: its peak is that of the process that started this one, if that is higher.
        "print(re.search(r'VmHWM:\\s*(\\d+)', Path('/proc/self/status').read_text())[1])"
    )
    command = [sys.executable, "-c", program, str(path), json.dumps(_few())]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout) / 1024


@cache
def _built() -> tuple[Path, Path, Figures, Figures]:
    """Both files, and how long each took to fill. They go when the process ends."""
    texts = passages(LARGE)
    each = LARGE // DOCUMENTS
    documents = [texts[start : start + each] for start in range(0, LARGE, each)]
    folder = Path(_folder().name)
    ours, theirs = folder / "ours", folder / "bare"
    measured = _processor(lambda: _fill(ours, documents))
    with closing(sqlite3.connect(theirs)) as connection:
        connection.execute("CREATE VIRTUAL TABLE passages USING fts5(text)")
    others = _processor(lambda: _fill_bare(theirs, documents))
    return ours, theirs, Figures((measured,)), Figures((others,))


def _processor(work: Callable[[], object]) -> float:
    """Milliseconds of processor time: what is done once only must not depend on what else the machine does."""
    started = time.process_time()
    work()
    return (time.process_time() - started) * 1000


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="bench-index-")


def _fill(path: Path, documents: list[list[str]]) -> None:
    index_file.create(path)
    for number, texts in enumerate(documents):
        index_file.add_document(
            path, f"doc_{number}", f"Document {number}", [(n, None, t) for n, t in enumerate(texts)]
        )


def _fill_bare(path: Path, documents: list[list[str]]) -> None:
    for texts in documents:
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
            with connection:
                connection.executemany("INSERT INTO passages VALUES (?)", ((text,) for text in texts))


def _few() -> list[str]:
    return queries()[:: QUERIES // 10]


def _ask(path: Path, query: str) -> list[float]:
    with closing(IndexReader(path)) as reader:
        return [found.score for found in rank([Searched(reader, None)], query, K)]


def _ask_bare(path: Path, query: str) -> list[float]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection:
        wanted = " OR ".join(f'"{word}"' for word in query.split())
        found = connection.execute(
            "SELECT text, rank FROM passages WHERE passages MATCH ? ORDER BY rank LIMIT ?", (wanted, K)
        )
        return [-score for _, score in found]
