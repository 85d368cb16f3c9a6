"""PDF: the text of each page, as far as it has any. Nothing embedded is opened, nothing is run."""

from __future__ import annotations

import io
import logging

from workbench.knowledge.passages import Block
from workbench.knowledge.reading.outline import Outline, Refused

PAGES = 10_000
_NOTED_PAGES = 10


def read_pdf(data: bytes, outline: Outline) -> None:
    """Page by page. Raises :class:`Refused` for what is encrypted with a password, broken, or has too many pages."""
    import pypdf
    from pypdf.errors import DependencyError, PyPdfError

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        reader = pypdf.PdfReader(io.BytesIO(data), strict=False)
        # Many files are encrypted so that they may not be changed, and open without a password.
        if reader.is_encrypted and not reader.decrypt(""):
            raise Refused("encrypted", "The PDF is protected by a password. Remove it and upload the file again.")
        count = len(reader.pages)
    except (DependencyError, NotImplementedError) as error:
        raise Refused("encrypted", "The PDF is encrypted in a way that is not read here. Save it without.") from error
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, IndexError, AssertionError) as error:
        raise _broken() from error
    if count > PAGES:
        raise Refused("too_large", f"The PDF has {count:,} pages; at most {PAGES:,} are read. Split it.")
    outline.extent["pages"] = count
    unread: list[int] = []
    for number in range(count):
        try:
            text = reader.pages[number].extract_text()
        except (MemoryError, RecursionError):
            raise
        except Exception:  # noqa: BLE001 - a page that cannot be read must not take the others with it
            unread.append(number + 1)
            continue
        for paragraph in text.split("\n\n"):
            outline.add(Block(paragraph, part=f"page {number + 1}"))
    if count == 0 or len(unread) == count:
        raise _broken()
    if unread:
        more = f" and {len(unread) - _NOTED_PAGES} more" if len(unread) > _NOTED_PAGES else ""
        named = ", ".join(map(str, unread[:_NOTED_PAGES]))
        outline.notes.append(f"No text could be read from the pages {named}{more}.")


def _broken() -> Refused:
    return Refused("broken", "The PDF is damaged: its pages cannot be found. Open it and save or print it anew.")
