"""What the supervisor is told when it is started, taken from the environment and erased there."""

import os
from typing import NamedTuple

from sandbox_container import kernel

PREFIX = "WORKBENCH_"
SECRET = "WORKBENCH_SECRET"
# How the payload is kept apart: by a user of its own (a container, or root on Linux), by a PID namespace of its own
# (no root), or not at all (a developer asked for it).
BOUNDARIES = ("user", "namespace", "none")


class Settings(NamedTuple):
    """Where the job comes from, where it is laid out, and as whom and by what it runs."""

    sandbox: str
    route: str
    root: str
    uid: int
    gid: int
    interpreter: str
    node: str
    boundary: str
    home: str

    @property
    def jailer(self) -> int:
        """The third user: real and saved uid of the process that kills the sandbox's, so that it cannot be killed."""
        return self.uid + 1


def take() -> Settings:
    """Read the settings, all but the secret, and leave none behind. ValueError names what is missing or wrong."""
    names = [name for name in os.environ if name.startswith(PREFIX) and name != SECRET]
    values = {name: os.environ.pop(name) for name in names}

    def text(name: str, default: str | None = None) -> str:
        value = values.get(PREFIX + name) or default
        if value is None:
            raise ValueError(f"{PREFIX}{name} is not set")
        return value

    def number(name: str, default: int) -> int:
        value = text(name, str(default))
        if not value.isascii() or not value.isdigit():
            raise ValueError(f"{PREFIX}{name} is no number: {value!r}")
        return int(value)

    boundary = text("BOUNDARY", "user")
    if boundary not in BOUNDARIES:
        raise ValueError(f"{PREFIX}BOUNDARY is {boundary!r}; it is one of {', '.join(BOUNDARIES)}")
    uid = number("UID", 20000) if boundary == "user" else os.getuid()
    if boundary == "user" and uid < 1000:
        raise ValueError(f"{PREFIX}UID is {uid}: the sandbox needs a user of its own, 1000 or above")
    return Settings(
        sandbox=text("SANDBOX"),
        route=text("ROUTE"),
        root=os.path.abspath(text("ROOT", "/sandbox")),
        uid=uid,
        gid=number("GID", uid) if boundary == "user" else os.getgid(),
        interpreter=text("INTERPRETER", "/usr/local/bin/python3"),
        node=text("NODE", "/usr/local/bin/node"),
        boundary=boundary,
        home=os.path.abspath(text("HOME", f"/tmp/home-{uid}")),  # noqa: S108 - made anew, refused when it exists
    )


def take_secret() -> str:
    """The secret, once; the children that were forked before never learn it."""
    secret = os.environ.get(SECRET)
    erase_secrets()
    if not secret:
        raise ValueError(f"{SECRET} is not set")
    return secret


def erase_secrets() -> None:
    """Overwrite the secret in this process's start block, which /proc shows, and forget it."""
    kernel.erase_environment(SECRET.encode())
    os.environ.pop(SECRET, None)
