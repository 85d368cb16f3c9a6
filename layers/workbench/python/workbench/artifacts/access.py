"""Who may read and change an artifact: its own sharing decides, never the conversation it came from. No AWS here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workbench.artifacts.model import Artifact
from workbench.errors import InvalidRequest

_HEADERS = ("x-workbench-user", "x-workbench-department", "x-workbench-groups")


@dataclass(frozen=True, slots=True)
class Viewer:
    """The person on whose behalf something is read."""

    user: str | None
    department: str | None = None


def viewer_of(headers: Mapping[str, str]) -> Viewer | None:
    """The person that the scoping headers name, or None when the portal itself asks (no such header).

    A header that is there but blank is refused: it must not turn a person into the portal.
    """
    given = {header: headers[header] for header in _HEADERS if header in headers}
    for header, value in given.items():
        if not value.strip() and header != "x-workbench-groups":
            raise InvalidRequest(f"{header} is empty. Leave it out to ask as the portal, or name the person.")
    if not given:
        return None
    return Viewer(given.get("x-workbench-user"), given.get("x-workbench-department"))


def may_read(artifact: Artifact, viewer: Viewer | None) -> bool:
    """True for the portal, the owner, and whom the artifact is shared with."""
    if viewer is None or artifact.sharing.everyone or may_change(artifact, viewer):
        return True
    return viewer.user in artifact.sharing.people or viewer.department in artifact.sharing.departments


def may_change(artifact: Artifact, viewer: Viewer | None) -> bool:
    """True for the portal and the owner: sharing gives the right to read, not to replace."""
    return viewer is None or viewer.user == artifact.owner
