"""A supervisor with guards taken out, by name, for tests that must see their case fail then.

``python3 -I -S mutant.py GUARD …``, started like :mod:`local.confine` and always inside its namespaces, so that what a
missing guard lets through still meets nothing but an empty machine.
"""

import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from local import confine
from sandbox_container import kernel, launcher, output, probe, reap, run, scan, seccomp, settings, watch


def without_step(name: str) -> None:
    assert any(step.__name__ == name for step in launcher.STEPS), name
    launcher.STEPS = tuple(step for step in launcher.STEPS if step.__name__ != name)


def without_call(name: str) -> None:
    whole = seccomp.program
    launcher.seccomp.program = lambda: whole(without=[name])  # type: ignore[attr-defined]


def close_all_but_inheritable(first: int) -> None:
    """What is left when only Python's own habit of marking descriptors protects them."""
    for number in range(first, 256):
        try:
            if not os.get_inheritable(number):
                os.close(number)
        except OSError:
            continue


GUARDS = {
    "probe": lambda: setattr(probe, "probe", lambda settings, launch: launch.dismiss() or {}),
    "closing": lambda: setattr(kernel, "close_from", close_all_but_inheritable),
    "erase": lambda: (
        setattr(settings, "erase_secrets", lambda: None),
        setattr(launcher, "erase_secrets", lambda: None),
        setattr(reap, "erase_secrets", lambda: None),
    ),
    "reaping": lambda: setattr(reap, "end_all", lambda keeper, statuses: reap.collect(statuses)),
    "memory": lambda: setattr(reap, "resident", lambda pid: 0),
    "disk": lambda: setattr(watch.Watch, "_over_disk", lambda self, size, inodes: False),
    "output": lambda: setattr(output.Output, "too_large", False),
    "wall clock": lambda: setattr(run, "Watch", _patient),
    "kinds": lambda: scan._KINDS.clear(),
    "no follow": lambda: (
        scan._KINDS.clear(),
        setattr(scan.tree, "FILE_FLAGS", os.O_RDONLY | os.O_CLOEXEC),
    ),
    "depth": lambda: setattr(scan, "DEEPEST", 10**6),
    "size": lambda: setattr(scan.Scan, "_count", lambda self, path, size: None),
    "names": lambda: setattr(scan, "usable", lambda raw: (raw.decode("utf-8", "replace"), "")),
    "modes": lambda: setattr(scan, "_PERMISSIONS", 0o7777),
}


class _patient(watch.Watch):
    def until_end(self, seconds: float) -> str:
        return super().until_end(seconds + 60)


for guard in sys.argv[1:]:
    kind, _, name = guard.partition(":")
    if kind == "step":
        without_step(name)
    elif kind == "call":
        without_call(name)
    else:
        GUARDS[guard]()
sys.argv[1:] = []
sys.exit(confine.main())
