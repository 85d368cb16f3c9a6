"""Skills of a deployment: push a folder of them, list, withdraw. What would be refused is found out before sending."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.awsrequest import AWSRequest

from local.admin import show, withdrawing
from local.admin.client import AdminError, Deployment, opened, part, whole
from workbench.skills.bundle import Bundle
from workbench.skills.folder import read_folder
from workbench.skills.registry import has_skill_file
from workbench.skills.skill_file import BadSkill
from workbench.skills.zipped import write_zip

COLUMNS = (("Skill", "left"), ("Version", "left"), ("Files", "right"), ("Bytes", "right"), ("Result", "left"))
LISTED = (("Skill", "left"), ("Version", "left"), ("Files", "right"), ("Bytes", "right"), ("Description", "left"))
PUSHED, UNCHANGED, WOULD_PUSH = "pushed", "unchanged", "would be pushed"


@dataclass(frozen=True)
class Outcome:
    """What became of one folder. ``reason`` says why nothing did."""

    folder: str
    result: str
    bundle: Bundle | None = None
    reason: str = ""

    def as_dict(self) -> dict[str, Any]:
        skill = self.bundle.skill if self.bundle else None
        return {
            "folder": self.folder,
            "name": skill.name if skill else None,
            "version": skill.version if skill else None,
            "result": self.result,
            "reason": self.reason or None,
        }


def push(deployment: Deployment, folder: str, *, dry_run: bool, json: bool) -> int:
    """Push the skill in ``folder``, or every skill one level below it; 1 when one of them could not be pushed."""
    limit = deployment.get("/v1/skills", limit=1)["limits"]["bytes"]
    outcomes: list[Outcome] = []
    names: dict[str, Path] = {}
    with show.progress() as progress:
        folders = _folders(Path(folder))
        task = progress.add_task("Pushing skills", total=len(folders))
        for place in folders:
            outcomes.append(_push_one(deployment, place, limit, names, dry_run=dry_run))
            progress.advance(task)
    if json:
        show.as_json({"skills": [outcome.as_dict() for outcome in outcomes]})
    else:
        show.say(show.table(COLUMNS, map(_row, outcomes)))
    return int(any(outcome.reason for outcome in outcomes))


def list_them(deployment: Deployment, *, json: bool) -> int:
    """Every skill in its latest version."""
    found = [skill for page in deployment.pages("/v1/skills", "skills") for skill in page]
    if json:
        show.as_json({"skills": found})
    elif not found:
        show.say(show.plain("There are no skills. `workbench skills push DIR` makes some."))
    else:
        show.say(show.table(LISTED, map(_listed_row, found)))
    return 0


def withdraw(deployment: Deployment, name: str, *, dry_run: bool, yes: bool, json: bool) -> int:
    """Take every version of a skill away, for turns that are open too."""
    also = "; its bytes are removed"
    return withdrawing.withdraw(deployment, "skill", name, also=also, dry_run=dry_run, yes=yes, json=json)


def _folders(root: Path) -> list[Path]:
    """``root`` itself when it is a skill, otherwise the skills one level below."""
    if not root.is_dir():
        raise AdminError(f"{root} is no folder. Name a skill's folder, or one that holds skills.")
    if has_skill_file(root):
        return [root]
    found = sorted(place for place in root.iterdir() if place.is_dir() and has_skill_file(place))
    if not found:
        raise AdminError(f"Neither {root} nor a folder in it has a SKILL.md. Nothing was pushed.")
    return found


def _push_one(deployment: Deployment, folder: Path, limit: int, names: dict[str, Path], *, dry_run: bool) -> Outcome:
    bundle: Bundle | None = None
    try:
        bundle = read_folder(folder, limit)
        skill = bundle.skill
        if skill.name in names:
            raise AdminError(f"{names[skill.name]} has a skill of the same name. Rename or remove one of the two.")
        names[skill.name] = folder
        if _is_there(deployment, bundle):
            return Outcome(str(folder), UNCHANGED, bundle)
        if dry_run:
            return Outcome(str(folder), WOULD_PUSH, bundle)
        created = _send(deployment, bundle)
        return Outcome(str(folder), PUSHED if created else UNCHANGED, bundle)
    except BadSkill as bad:
        return Outcome(str(folder), "skipped", bundle, bad.reason)
    except OSError as error:
        return Outcome(str(folder), "skipped", bundle, f"A file cannot be read: {error}.")
    except AdminError as error:
        if error.status is None and bundle is None:
            raise
        return Outcome(str(folder), "refused", bundle, str(error))


def _is_there(deployment: Deployment, bundle: Bundle) -> bool:
    """True when the deployment has this very version; raises AdminError when it has another of that number."""
    skill = bundle.skill
    answer = deployment.send("GET", f"/v1/skills/{part(skill.name)}", query={"version": skill.version})
    if answer.status == 404:
        return False
    known = deployment.parsed(answer)["skill"]
    if known["sha256"] != bundle.digest:
        raise AdminError(
            f"Version {skill.version} is there with other content, and a version never changes. Raise `version` in "
            f"SKILL.md above {known['versions'][0]}."
        )
    return True


def _send(deployment: Deployment, bundle: Bundle) -> bool:
    """Upload the bundle past the API, which carries less than a bundle may hold; True when it is new."""
    data = write_zip(bundle)
    asked = {"for": "skill", "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    upload = deployment.call("POST", "/v1/uploads", asked)
    request = AWSRequest("PUT", upload["url"], dict(upload["headers"]), data)
    with opened(request, local=deployment.local) as response:
        answer = whole(response)
    if answer.status >= 400:
        raise AdminError(f"The bytes could not be uploaded (HTTP {answer.status}). Try again.", answer.status)
    kept = deployment.call("PUT", f"/v1/skills/{part(bundle.skill.name)}", {"upload": upload["upload"]})
    return bool(kept["created"])


def _row(outcome: Outcome) -> list[str]:
    bundle = outcome.bundle
    said = f"{outcome.result}: {outcome.reason}" if outcome.reason else outcome.result
    if bundle is None:
        return [Path(outcome.folder).name, "", "", "", said]
    return [bundle.skill.name, bundle.skill.version, f"{len(bundle.files):,}", show.size(bundle.bytes), said]


def _listed_row(skill: dict[str, Any]) -> list[str]:
    size = sum(file["bytes"] for file in skill["files"])
    return [skill["name"], skill["version"], f"{len(skill['files']):,}", show.size(size), skill["description"]]
