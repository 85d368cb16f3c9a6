"""Prompts of a deployment: push files, list, withdraw."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from local.admin import show, withdrawing
from local.admin.client import AdminError, Deployment, part
from workbench.prompts import BadPrompt, Prompt, load_prompt_file
from workbench.prompts.api import TEMPLATE_BYTES

COLUMNS = (("File", "left"), ("Prompt", "left"), ("Version", "left"), ("Result", "left"))
LISTED = (("Prompt", "left"), ("Version", "left"), ("Variables", "left"))


def push(deployment: Deployment, paths: Sequence[str], *, dry_run: bool, json: bool) -> int:
    """Publish prompt files, and those (``*.md``) of folders; 1 when one of them could not be published."""
    named: dict[tuple[str, str], str] = {}
    outcomes = [_push_one(deployment, path, named, dry_run=dry_run) for path in _files(paths)]
    if json:
        show.as_json({"prompts": outcomes})
    else:
        rows = [[one["file"], one["name"] or "", one["version"] or "", _said(one)] for one in outcomes]
        show.say(show.table(COLUMNS, rows))
    return int(any(one["reason"] for one in outcomes))


def list_them(deployment: Deployment, *, json: bool) -> int:
    """Every prompt in its latest version."""
    found = [prompt for page in deployment.pages("/v1/prompts", "prompts") for prompt in page]
    if json:
        show.as_json({"prompts": found})
    elif not found:
        show.say(show.plain("There are no prompts. `workbench prompts push FILE` makes some."))
    else:
        rows = [[one["name"], one["version"], ", ".join(one["variables"])] for one in found]
        show.say(show.table(LISTED, rows))
    return 0


def withdraw(deployment: Deployment, name: str, *, dry_run: bool, yes: bool, json: bool) -> int:
    """Take every version of a prompt away."""
    return withdrawing.withdraw(deployment, "prompt", name, also="", dry_run=dry_run, yes=yes, json=json)


def _files(paths: Sequence[str]) -> list[Path]:
    found: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            found += sorted(path.glob("*.md"))
        elif path.is_file():
            found.append(path)
        else:
            raise AdminError(f"There is no file {path}. Nothing was published.")
    if not found:
        raise AdminError("There is no file *.md in what was named. Nothing was published.")
    return found


def _push_one(
    deployment: Deployment, path: Path, named: dict[tuple[str, str], str], *, dry_run: bool
) -> dict[str, Any]:
    """What became of one file. ``named`` holds the templates of the files before it, by name and version."""
    facts: dict[str, Any] = {"file": str(path), "name": None, "version": None, "result": "skipped", "reason": None}
    try:
        prompt = load_prompt_file(path)
    except (BadPrompt, OSError) as bad:
        return facts | {"reason": str(bad).removeprefix(f"{path}: ")}
    facts |= {"name": prompt.name, "version": prompt.version}
    if dry_run:
        return facts | _would_be(deployment, prompt, named)
    body = {"template": prompt.template, "version": prompt.version}
    answer = deployment.send("PUT", f"/v1/prompts/{part(prompt.name)}", body)
    if answer.status in (400, 409, 413):
        return facts | {"result": "refused", "reason": str(deployment.failure(answer))}
    return facts | {"result": "published" if deployment.parsed(answer)["created"] else "unchanged"}


def _would_be(deployment: Deployment, prompt: Prompt, named: dict[tuple[str, str], str]) -> dict[str, Any]:
    """The result, and the reason of a refusal, that publishing ``prompt`` would have."""
    bytes_ = len(prompt.template.encode(errors="surrogatepass"))
    if bytes_ > TEMPLATE_BYTES:
        return {
            "result": "refused",
            "reason": f"The template has {bytes_:,} bytes; at most {TEMPLATE_BYTES:,} are kept.",
        }
    key = (prompt.name, prompt.version)
    known = named.get(key)
    if known is None:
        answer = deployment.send("GET", f"/v1/prompts/{part(prompt.name)}", query={"version": prompt.version})
        known = None if answer.status == 404 else deployment.parsed(answer)["prompt"]["template"]
    if known is None:
        named[key] = prompt.template
        return {"result": "would be published"}
    if known == prompt.template:
        return {"result": "unchanged"}
    said = f"Version {prompt.version} is there with another template, and a version never changes. Raise `version`."
    return {"result": "refused", "reason": said}


def _said(outcome: dict[str, Any]) -> str:
    return f"{outcome['result']}: {outcome['reason']}" if outcome["reason"] else str(outcome["result"])
