"""``workbench download``: an artifact's bytes onto the disk, whole and as their hash says, or not at all.

The stored name was chosen by a model. It only ever becomes the last part of a path, and never a hidden file.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import urllib3
from botocore.awsrequest import AWSRequest
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from local.admin import show
from local.admin.client import AdminError, Deployment, opened, part, whole

CHUNK_BYTES = 256 * 1024
# Smaller ones are there before anybody has read a bar.
BAR_ABOVE_BYTES = 4 * 1024 * 1024
MODE = 0o644
# File systems such as exFAT have no links.
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
NAME_BYTES, EXTENSION_BYTES = 240, 16


def download(deployment: Deployment, artifact: str, path: str, *, version: int | None, force: bool, json: bool) -> int:
    """Write a version of ``artifact`` to ``path``: a file, or a folder in which it gets its stored name."""
    about = deployment.get(f"/v1/artifacts/{part(artifact)}")["artifact"]
    wanted = _version(about, version)
    target = _target(path, safe_name(wanted["name"], about["id"]))
    if not force and os.path.lexists(target):
        raise AdminError(f"{target} is there already. Add --force to replace it, or give another path.")
    source = f"/v1/artifacts/{part(about['id'])}/versions/{wanted['version']}/content"
    _write(_bytes(deployment, source, wanted["bytes"]), target, wanted, force=force)
    facts = {name: wanted[name] for name in ("version", "bytes", "sha256")}
    if json:
        show.as_json({"path": str(target), "artifact": about["id"], **facts})
    else:
        show.say(show.plain(f"{target} ({show.size(wanted['bytes'])}, version {wanted['version']})"))
    return 0


def safe_name(stored: str, otherwise: str) -> str:
    """The stored name as a file name of this machine: one part, printable, not hidden; else ``otherwise``."""
    last = stored.replace("\\", "/").rsplit("/", 1)[-1]
    name = "".join(letter if letter.isprintable() else "_" for letter in last).strip()
    if name.startswith("."):
        name = "_" + name.lstrip(".")
    if len(name.encode()) > NAME_BYTES:
        _stem, dot, extension = name.rpartition(".")
        end = f".{extension}" if dot and len(extension.encode()) <= EXTENSION_BYTES else ""
        name = name.encode()[: NAME_BYTES - len(end.encode())].decode(errors="ignore") + end
    return name if name.strip("_ ") else otherwise


def _target(path: str, name: str) -> Path:
    given = Path(path)
    names_a_folder = given.is_dir() or path.endswith(("/", os.sep))
    target = given / name if names_a_folder else given
    if not target.parent.is_dir():
        raise AdminError(f"There is no folder {target.parent}. Make it first.")
    return target


def _version(about: dict[str, Any], number: int | None) -> dict[str, Any]:
    versions: list[dict[str, Any]] = about["versions"]
    if number is None:
        return versions[-1]
    for version in versions:
        if version["version"] == number:
            return version
    raise AdminError(
        f"{about['id']} has no version {number}; it has {', '.join(str(one['version']) for one in versions)}."
    )


def _bytes(deployment: Deployment, path: str, size: int) -> Iterator[bytes]:
    """The bytes in chunks, through the short-lived link when the API gives one."""
    with deployment.opened("GET", path, stream=True) as response:
        if response.status_code != 307:
            if response.status_code >= 400:
                raise deployment.failure(whole(response))
            yield from _chunks(response, size)
            return
        link = urljoin(deployment.url, response.headers["location"])
    if urlsplit(link).scheme != "https" and not deployment.local:
        raise AdminError("The link to the bytes is not encrypted, so it was not followed.")
    # The link carries its own signature; ours would only be refused there.
    with opened(AWSRequest("GET", link, stream_output=True), local=deployment.local) as response:
        if response.status_code != 200:
            raise AdminError(f"The link to the bytes answers HTTP {response.status_code}. Try again.")
        yield from _chunks(response, size)


def _chunks(response: Any, size: int) -> Iterator[bytes]:
    columns = (TextColumn("Downloading"), BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn())
    console = show.notes()
    shown = console.is_terminal and size > BAR_ABOVE_BYTES
    with Progress(*columns, console=console, transient=True, disable=not shown) as progress:
        task = progress.add_task("", total=size)
        try:
            for chunk in response.raw.stream(CHUNK_BYTES):
                progress.advance(task, len(chunk))
                yield chunk
        except urllib3.exceptions.HTTPError:
            raise AdminError("The connection broke off. Nothing was written; try again.") from None


def _write(chunks: Iterator[bytes], target: Path, wanted: dict[str, Any], *, force: bool) -> None:
    """Beside the target first, and under its name only when everything is there and right."""
    digest, received = hashlib.sha256(), 0
    try:
        handle, beside = tempfile.mkstemp(prefix=".workbench-", dir=target.parent)
    except OSError as error:
        raise AdminError(f"Nothing can be written to {target.parent}: {error.strerror}.") from None
    try:
        with os.fdopen(handle, "wb") as file:
            for chunk in chunks:
                digest.update(chunk)
                received += len(chunk)
                if received > wanted["bytes"]:
                    break
                file.write(chunk)
            if (received, digest.hexdigest()) != (wanted["bytes"], wanted["sha256"]):
                raise AdminError("What came is not what was stored (its size or hash differs). Nothing was written.")
            os.fchmod(file.fileno(), MODE)
            file.flush()
            os.fsync(file.fileno())
        _name(Path(beside), target, force=force)
    except OSError as error:
        raise AdminError(f"{target} could not be written: {error.strerror or error}.") from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            Path(beside).unlink()


def _name(beside: Path, target: Path, *, force: bool) -> None:
    if force:
        beside.replace(target)
        return
    try:
        # A link fails where something is, in one step; a rename would replace it.
        os.link(beside, target, follow_symlinks=False)
    except FileExistsError:
        raise AdminError(f"{target} came to be meanwhile. Add --force to replace it.") from None
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        beside.rename(target)
