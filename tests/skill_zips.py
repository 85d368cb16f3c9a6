"""Skills as tests make them: a SKILL.md and the zip around it, well made or not."""

from __future__ import annotations

import io
import stat
import zipfile
from collections.abc import Mapping
from typing import Any


def skill_md(name: str, description: str = "Does things.", body: str = "Do this.\n", **head: str) -> str:
    """A SKILL.md with more entries in its head, if given."""
    more = "".join(f"{key}: {value}\n" for key, value in head.items())
    return f"---\nname: {name}\ndescription: {description}\n{more}---\n{body}"


def zipped(files: Mapping[str, Any], programs: tuple[str, ...] = ()) -> bytes:
    """A zip of texts and bytes by path; ``programs`` get the mode of one."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            entry = zipfile.ZipInfo(path)
            entry.external_attr = (stat.S_IFREG | (0o755 if path in programs else 0o644)) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return target.getvalue()
