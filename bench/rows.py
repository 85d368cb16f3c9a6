"""Every row of the table by name, in the order of the table in the design's quality bars."""

from __future__ import annotations

from collections.abc import Callable

from bench import (
    calculations,
    calls,
    cold_import,
    edits,
    javascript,
    memory,
    reads,
    retrieval,
    runs,
    searches,
    trees,
    writes,
)
from bench.measure import Row


def all_rows() -> dict[str, Callable[[], Row]]:
    """Row name -> measuring function. Peers are imported when their row is measured; each handler makes one row."""
    return {
        "edit one line of 1 MiB (deepagents)": edits.against_deepagents,
        "edit one line of 1 MiB (MCP style)": edits.against_read_replace_write,
        "search 5 texts in 10,000 files, 64 MiB": searches.against_ripgrep,
        "read 2,000 numbered lines of 10 MiB": reads.against_deepagents,
        "calculate (simpleeval)": calculations.against_simpleeval,
        "calculate (asteval)": calculations.against_asteval,
        "catalogue and arguments (FastMCP)": calls.against_fastmcp,
        "catalogue and arguments (pydantic-ai)": calls.against_pydantic_ai,
        "one write at 50,000 files against 50": writes.large_against_small,
        "run_code: `pass` through the supervisor": runs.overhead,
        "run_code: claim by a warm sandbox": runs.claim,
        "run_code: the whole tool call, cold": runs.whole_call,
        "run_javascript: a few lines (node -e)": javascript.against_node,
        "mount and scan back 2,000 files, 20 MiB": trees.against_tar,
        "supervisor memory, endless output": memory.endless_output,
        "TF-IDF query, 10,000 passages": retrieval.tfidf_query,
        "TF-IDF index, 10,000 passages": retrieval.tfidf_index,
        "TF-IDF memory, 10,000 passages": retrieval.tfidf_memory,
        "document index: query, 100,000 passages": retrieval.index_query,
        "document index: build, 100,000 passages": retrieval.index_build,
        "document index: file, 100,000 passages": retrieval.index_size,
        "document index: add 20 to 100,000": retrieval.index_add,
        "document index: memory of queries": retrieval.index_memory,
        **cold_import.rows(),
    }
