"""Skills and prompts are withdrawn alike: every version of a name, after it was typed again."""

from __future__ import annotations

from local.admin import show
from local.admin.client import Deployment, part


def withdraw(deployment: Deployment, kind: str, name: str, *, also: str, dry_run: bool, yes: bool, json: bool) -> int:
    """Take every version of a ``kind`` (``skill``, ``prompt``) away. ``also`` is what is said to go with them."""
    path = f"/v1/{kind}s/{part(name)}"
    found = deployment.get(path)[kind]
    if not dry_run:
        shown = ", ".join(found["versions"])
        show.confirm(f"{name} goes in every version ({shown}){also}.", yes=yes, exactly=name)
        found = deployment.call("DELETE", path)[kind]
    if json:
        show.as_json({kind: found})
    else:
        show.say(show.plain(f"{name}: {'would be withdrawn' if dry_run else 'withdrawn'}."))
    return 0
