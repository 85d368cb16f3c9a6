"""Loads what reading a kind of file needs, so that no file has to be opened any more while a stranger's is read."""

from __future__ import annotations

import codecs
import hashlib
import importlib
import pkgutil
from contextlib import suppress
from encodings.aliases import aliases

from workbench.knowledge.reading import kinds

_PACKAGES = {
    kinds.PDF: ("pypdf",),
    kinds.DOCX: ("docx", "docx.opc.constants", "docx.opc.part", "docx.package", "docx.parts.document"),
    kinds.PPTX: ("pptx",),
    kinds.XLSX: ("openpyxl",),
    kinds.HTML: ("lxml.etree",),
}
# They import some of their parts late. So does pptx, but only to write.
_IN_PARTS = frozenset({"pypdf", "docx", "openpyxl"})


def load(kind: str) -> None:
    """Import what reads ``kind``, with the parts that come late, and every encoding that a file may name."""
    for name in _PACKAGES.get(kind, ()):
        package = importlib.import_module(name)
        for part in pkgutil.walk_packages(package.__path__, f"{name}.") if name in _IN_PARTS else ():
            # Some are for packages that are not there.
            with suppress(ImportError):
                importlib.import_module(part.name)
    for encoding in set(aliases.values()):
        with suppress(LookupError):
            codecs.lookup(encoding)
    # The first hash has OpenSSL read its configuration.
    hashlib.sha256(usedforsecurity=False).digest()
