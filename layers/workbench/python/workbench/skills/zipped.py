"""Skills as zips: reading one that anybody may have made, and writing one that is the same for the same files.

What a zip says of itself is checked against what it holds: nothing is unpacked beyond the limit, whatever it declares.
"""

from __future__ import annotations

import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator

from workbench.skills.bundle import (
    FILES,
    BadBundle,
    Bundle,
    BundleTooLarge,
    Paths,
    bundle_of,
    is_left_out,
    mode_of,
    shown_name,
    too_large,
)
from workbench.skills.skill_file import BadSkill

# Entries beyond the files: folders, and what file managers leave.
ENTRIES = 5 * FILES

_UNIX = 3
_ENCRYPTED, _UTF8 = 0x1, 0x800
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_OLDEST = (1980, 1, 1, 0, 0, 0)
_BROKEN = (
    zipfile.BadZipFile,
    EOFError,
    OSError,
    OverflowError,
    ValueError,
    NotImplementedError,
    struct.error,
    zlib.error,
)


def read_zip(data: bytes, limit: int) -> Bundle:
    """The skill in a zip of up to ``limit`` bytes, packed and unpacked.

    Raises :class:`BadBundle` (a broken zip, a hostile or doubled name, a link, encryption, no SKILL.md, …),
    :class:`BundleTooLarge`, and BadSkill for what is wrong with its SKILL.md.
    """
    if len(data) > limit:
        raise BundleTooLarge(f"The zip has {len(data):,} bytes and {limit:,} are allowed. Leave out what is large.")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return bundle_of(dict(_files(archive, limit)), limit)
    except BadSkill:
        raise
    except _BROKEN as error:
        raise BadBundle(
            f"The body is no zip that can be read: {shown_name(str(error) or 'it ends too early')}."
        ) from None


def write_zip(bundle: Bundle) -> bytes:
    """The bundle as a zip; the same bytes for the same files."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for file in bundle.files:
            entry = zipfile.ZipInfo(file.path, _OLDEST)
            entry.create_system, entry.external_attr = _UNIX, (stat.S_IFREG | file.mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, file.data)
    return target.getvalue()


def _files(archive: zipfile.ZipFile, limit: int) -> Iterator[tuple[str, tuple[bytes, int]]]:
    entries = archive.infolist()
    if len(entries) > ENTRIES:
        raise BadBundle(f"The zip has {len(entries):,} entries and {ENTRIES:,} are allowed.")
    kept = [entry for entry in entries if _is_kept(entry)]
    if len(kept) > FILES:
        raise BadBundle(f"The zip has {len(kept):,} files and {FILES:,} are allowed. Leave out what is not needed.")
    declared = sum(entry.file_size for entry in kept)
    if declared > limit:
        raise too_large(declared, limit)
    paths = Paths()
    # Every name first: nothing is unpacked of a zip that would be refused for one.
    named = [(entry, paths.add(_raw_name(entry))) for entry in kept]
    for entry, path in named:
        yield path, (_read(archive, entry), mode_of(entry.external_attr >> 16 if entry.create_system == _UNIX else 0))


def _is_kept(entry: zipfile.ZipInfo) -> bool:
    """True for a file of the skill, False for a folder and for what is left out; raises BadBundle for anything else."""
    raw = _raw_name(entry)
    name = raw.decode(errors="backslashreplace")
    folder = name.endswith("/")
    if is_left_out(name.rstrip("/")):
        return False
    if folder:
        # Its name is checked like a file's, although a folder of its own is not kept.
        Paths().add(raw.rstrip(b"/") or raw)
    kind = stat.S_IFMT(entry.external_attr >> 16) if entry.create_system == _UNIX else 0
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR if folder else 0):
        what = "a link" if kind == stat.S_IFLNK else "no plain file"
        raise BadBundle(f"`{shown_name(name)}` is {what}. Put the file itself there.")
    if entry.flag_bits & _ENCRYPTED:
        raise BadBundle(f"`{shown_name(name)}` is encrypted. Pack the skill without a password.")
    if entry.compress_type not in _METHODS:
        raise BadBundle(f"`{shown_name(name)}` is packed in a way that is not read. Use stored or deflate, as zips do.")
    return not folder


def _raw_name(entry: zipfile.ZipInfo) -> bytes:
    """The name as UTF-8. zipfile cuts it at a NUL and takes bytes without the flag for IBM's code page 437."""
    name = entry.orig_filename
    if entry.flag_bits & _UTF8:
        return name.encode(errors="surrogateescape")
    raw = name.encode("cp437")
    try:
        # Archivers that write UTF-8 without saying so are commoner than code page 437.
        raw.decode()
    except UnicodeDecodeError:
        return name.encode()
    return raw


def _read(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    with archive.open(entry) as stream:
        # One more than declared: a stream that goes on is found out before it has unpacked much.
        data = stream.read(entry.file_size + 1)
    if len(data) != entry.file_size:
        raise BadBundle(f"`{shown_name(entry.filename)}` is not as long as the zip says.")
    return data
