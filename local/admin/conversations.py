"""Conversations: a person's list, one with what belongs to it, deleting and restoring several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from local.admin import artifacts, show
from local.admin.client import AdminError, Deployment, part
from workbench.workspace.paths import printable

COLUMNS = (
    ("Conversation", "left"),
    ("Owner", "left"),
    ("Department", "left"),
    ("Status", "left"),
    ("Files", "right"),
    ("Bytes", "right"),
    ("Created", "left"),
    ("Gone after", "left"),
)


def list_them(deployment: Deployment, owner: str, *, json: bool) -> int:
    """Everything that ``owner`` has, deleted conversations until their grace is over."""
    found: list[dict[str, Any]] = []
    with show.progress() as progress:
        task = progress.add_task("Listing conversations", total=None)
        for page in deployment.pages("/v1/conversations", "conversations", owner=owner):
            found += page
            progress.update(task, completed=len(found))
    if json:
        show.as_json({"conversations": found})
        return 0
    if not found:
        show.say(show.plain(f"{owner} has no conversations."))
        return 0
    held = [one["workspace"] for one in found]
    footer = ["", "", "", f"{len(found)} in all"]
    footer += [f"{sum(one['files'] for one in held):,}", show.size(sum(one["bytes"] for one in held))]
    show.say(show.table(COLUMNS, map(_row, found), footer))
    return 0


def show_one(deployment: Deployment, conversation: str, *, json: bool) -> int:
    """One conversation with the totals of its workspace and its artifacts in every state."""
    found = _whole(deployment, conversation)
    if json:
        show.as_json(found)
        return 0
    about, workspace = found["conversation"], found["workspace"]
    holds = f"{show.count(workspace['files'], 'file')}, {show.size(workspace['bytes'])}" if workspace else "gone"
    show.say(
        show.facts(
            [
                ("Conversation", about["id"]),
                ("Owner", f"{about['owner']}, {about['department']}"),
                ("Status", _status(about)),
                ("Created", show.when(about["createdAt"])),
                ("Workspace", holds),
            ]
        )
    )
    if found["artifacts"]:
        show.say()
        show.say(artifacts.as_table(found["artifacts"]))
    return 0


def delete(deployment: Deployment, conversations: Sequence[str], *, dry_run: bool, yes: bool, json: bool) -> int:
    """Delete conversations after showing what goes; every one is looked at before the first is deleted."""
    found = [_whole(deployment, name) for name in conversations]
    active = [one for one in found if one["conversation"]["status"] == "active"]
    if dry_run:
        return _tell(found, "would be deleted", json=json)
    if active:
        for line in map(_what_goes, active):
            show.notes().print(show.plain(line))
        many = "this conversation" if len(active) == 1 else f"these {len(active)} conversations"
        show.confirm(f"Delete {many}? The workspace goes for good.", yes=yes)
    deleted = _each(found, "Deleting", lambda path: deployment.call("DELETE", path))
    if json:
        show.as_json({"conversations": deleted})
        return 0
    for one in deleted:
        until = show.when(one["purgeAt"])
        show.say(show.plain(f"{one['id']} is deleted. It can be restored, without workspace, until {until}."))
    return 0


def restore(deployment: Deployment, conversations: Sequence[str], *, dry_run: bool, json: bool) -> int:
    """Bring conversations back; waits for the removal of a workspace that is still going on."""
    found = [_whole(deployment, name) for name in conversations]
    if dry_run:
        return _tell(found, "would come back", json=json)
    restored = _each(found, "Restoring", lambda path: deployment.patiently("POST", f"{path}/restore"))
    if json:
        show.as_json({"conversations": restored})
        return 0
    for before, after in zip(found, restored, strict=True):
        was_active = before["conversation"]["status"] == "active"
        text = "was not deleted" if was_active else "is back, its workspace starts empty"
        show.say(show.plain(f"{after['id']} {text}."))
    return 0


def _each(found: Sequence[dict[str, Any]], doing: str, act: Callable[[str], Any]) -> list[dict[str, Any]]:
    """What ``act`` makes of each conversation's path, with a bar."""
    done = []
    with show.progress() as progress:
        task = progress.add_task(doing, total=len(found))
        for one in found:
            done.append(act(f"/v1/conversations/{part(one['conversation']['id'])}")["conversation"])
            progress.advance(task)
    return done


def _whole(deployment: Deployment, conversation: str) -> dict[str, Any]:
    """The conversation, the totals of its workspace (None when deleted) and its artifacts in every state."""
    try:
        about = deployment.get(f"/v1/conversations/{part(conversation)}")["conversation"]
    except AdminError as error:
        if error.status != 404:
            raise
        # One of several may have been typed wrongly.
        raise AdminError(f"There is no conversation {printable(conversation)}, or its grace is over.", 404) from None
    workspace = None
    if about["status"] == "active":
        workspace = deployment.get(f"/v1/conversations/{part(conversation)}/files", limit=1)["totals"]
    pages = deployment.pages("/v1/artifacts", "artifacts", conversation=conversation, state="all")
    return {"conversation": about, "workspace": workspace, "artifacts": [one for page in pages for one in page]}


def _tell(found: Sequence[dict[str, Any]], what: str, *, json: bool) -> int:
    concerned = "active" if "deleted" in what else "deleted"
    if json:
        show.as_json({"dryRun": True, "conversations": list(found)})
        return 0
    for one in found:
        if one["conversation"]["status"] != concerned:
            status = one["conversation"]["status"]
            show.say(show.plain(f"{one['conversation']['id']} is {status}: nothing would happen."))
        else:
            show.say(show.plain(f"{_what_goes(one)}, {what}."))
    return 0


def _what_goes(found: dict[str, Any]) -> str:
    about, workspace = found["conversation"], found["workspace"]
    kept = [one for one in found["artifacts"] if one["state"] != "expired"]
    size = show.size(sum(version["bytes"] for one in kept for version in one["versions"]))
    holds = f"{show.count(len(kept), 'artifact')} of {size}"
    if workspace:
        holds = f"a workspace of {show.count(workspace['files'], 'file')}, {show.size(workspace['bytes'])}, and {holds}"
    return f"{about['id']} of {about['owner']}, with {holds}"


def _row(one: dict[str, Any]) -> list[show.Cell]:
    workspace = one["workspace"]
    return [
        one["id"],
        one["owner"],
        one["department"],
        one["status"],
        f"{workspace['files']:,}",
        show.size(workspace["bytes"]),
        show.when(one["createdAt"]),
        show.when(one.get("purgeAt")),
    ]


def _status(about: dict[str, Any]) -> str:
    if "purgeAt" not in about:
        return str(about["status"])
    return f"{about['status']}, can be restored until {show.when(about['purgeAt'])}"
