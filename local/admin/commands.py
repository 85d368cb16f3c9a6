"""The parsers of ``workbench admin``, ``download``, ``skills`` and ``prompts``; the other modules do what they say."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

Subparsers = Any
Run = Callable[[argparse.Namespace], int]
FAILED, INTERRUPTED = 1, 130


class AnyOrder(argparse.ArgumentParser):
    """A parser that takes options before, between and behind the other words, as people type them."""

    _taking_apart = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        if self._taking_apart or self._subparsers is not None:
            return super().parse_known_args(args, namespace)
        self._taking_apart = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._taking_apart = False


def add_admin(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("admin", help="look after a deployment: conversations, artifacts, usage, erasure")
    groups = parser.add_subparsers(title="what to look after", required=True, metavar="what")
    _add_conversations(groups)
    _add_artifacts(groups)
    usage = _leaf(groups, "usage", _usage, "what the people of a department have stored")
    usage.add_argument("department")
    usage.add_argument("--month", help="such as 2026-09; the current one when left out")
    erase = _leaf(groups, "erase", _erase, "remove everything of a person, for good and without grace")
    erase.add_argument("person")
    _add_caution(erase)
    reconcile = _leaf(groups, "reconcile", _reconcile, "find and remove what nothing names, as happens every night")
    _add_caution(reconcile)


def add_download(subparsers: Subparsers) -> None:
    parser = _leaf(subparsers, "download", _download, "download an artifact, checked against its hash")
    parser.add_argument("artifact", help="its id, such as art_9fQ2kX")
    parser.add_argument("path", nargs="?", default=".", help="a file to write, or a folder (this one when left out)")
    parser.add_argument("--version", type=int, help="the latest when left out")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")


def add_skills(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("skills", help="push, list and withdraw the skills of a deployment")
    actions = parser.add_subparsers(title="actions", required=True, metavar="action")
    pushed = _leaf(actions, "push", _push_skills, "push a skill's folder, or every skill in a folder")
    pushed.add_argument("folder", help="a folder with a SKILL.md, or one that holds such folders")
    pushed.add_argument("--dry-run", action="store_true", help="check everything, and push nothing")
    _leaf(actions, "list", _list_skills, "the skills in their latest versions")
    withdrawn = _leaf(actions, "withdraw", _withdraw_skill, "take every version of a skill away")
    withdrawn.add_argument("name")
    _add_caution(withdrawn)


def add_prompts(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("prompts", help="push, list and withdraw the prompts of a deployment")
    actions = parser.add_subparsers(title="actions", required=True, metavar="action")
    pushed = _leaf(actions, "push", _push_prompts, "publish prompt files, or those of a folder")
    pushed.add_argument("paths", nargs="+", metavar="path", help="a Markdown file with a prompt, or a folder of them")
    pushed.add_argument("--dry-run", action="store_true", help="say what would be published, and publish nothing")
    _leaf(actions, "list", _list_prompts, "the prompts in their latest versions")
    withdrawn = _leaf(actions, "withdraw", _withdraw_prompt, "take every version of a prompt away")
    withdrawn.add_argument("name")
    _add_caution(withdrawn)


def _add_conversations(groups: Subparsers) -> None:
    parser = groups.add_parser("conversations", help="list, show, delete and restore conversations")
    actions = parser.add_subparsers(title="actions", required=True, metavar="action")
    listed = _leaf(actions, "list", _list_conversations, "a person's conversations")
    listed.add_argument("owner")
    shown = _leaf(actions, "show", _show_conversation, "one conversation, its workspace and its artifacts")
    shown.add_argument("conversation")
    deleted = _leaf(actions, "delete", _delete_conversations, "delete conversations; their files have a grace")
    deleted.add_argument("conversations", nargs="+", metavar="conversation")
    _add_caution(deleted)
    restored = _leaf(actions, "restore", _restore_conversations, "bring deleted conversations back, without workspace")
    restored.add_argument("conversations", nargs="+", metavar="conversation")
    restored.add_argument("--dry-run", action="store_true", help="say what would come back, and change nothing")


def _add_artifacts(groups: Subparsers) -> None:
    parser = groups.add_parser("artifacts", help="list and show artifacts, also those that nobody may use any more")
    actions = parser.add_subparsers(title="actions", required=True, metavar="action")
    listed = _leaf(actions, "list", _list_artifacts, "the artifacts of a person or of a conversation")
    whose = listed.add_mutually_exclusive_group(required=True)
    whose.add_argument("--person", help="whose artifacts")
    whose.add_argument("--conversation", help="of which conversation")
    shown = _leaf(actions, "show", _show_artifact, "one artifact, its versions and what is stored of them")
    shown.add_argument("artifact")


def _leaf(subparsers: Subparsers, name: str, run: Run, does: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        name, help=does, description=does[:1].upper() + does[1:] + "."
    )
    parser.add_argument("--url", help="the deployment's address; WORKBENCH_URL when left out")
    parser.add_argument("--region", help="the AWS region, where the address does not tell it")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.set_defaults(run=_careful(run))
    return parser


def _add_caution(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="say what would go, and change nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _careful(run: Run) -> Run:
    """``run`` whose failures are one line on standard error."""

    def careful(options: argparse.Namespace) -> int:
        # boto and rich take a while that `workbench --help` need not wait for.
        from local.admin.client import AdminError

        try:
            return run(options)
        except AdminError as error:
            print(f"workbench: {error}", file=sys.stderr)
            return FAILED
        except (KeyboardInterrupt, EOFError):
            print("workbench: interrupted", file=sys.stderr)
            return INTERRUPTED

    return careful


def _list_conversations(options: argparse.Namespace) -> int:
    from local.admin import conversations

    return conversations.list_them(_deployment(options), options.owner, json=options.json)


def _show_conversation(options: argparse.Namespace) -> int:
    from local.admin import conversations

    return conversations.show_one(_deployment(options), options.conversation, json=options.json)


def _delete_conversations(options: argparse.Namespace) -> int:
    from local.admin import conversations

    return conversations.delete(
        _deployment(options), options.conversations, dry_run=options.dry_run, yes=options.yes, json=options.json
    )


def _restore_conversations(options: argparse.Namespace) -> int:
    from local.admin import conversations

    return conversations.restore(
        _deployment(options), options.conversations, dry_run=options.dry_run, json=options.json
    )


def _list_artifacts(options: argparse.Namespace) -> int:
    from local.admin import artifacts

    return artifacts.list_them(_deployment(options), options.person, options.conversation, json=options.json)


def _show_artifact(options: argparse.Namespace) -> int:
    from local.admin import artifacts

    return artifacts.show_one(_deployment(options), options.artifact, json=options.json)


def _usage(options: argparse.Namespace) -> int:
    from local.admin import people

    return people.usage(_deployment(options), options.department, options.month, json=options.json)


def _erase(options: argparse.Namespace) -> int:
    from local.admin import people

    return people.erase(
        _deployment(options), options.person, dry_run=options.dry_run, yes=options.yes, json=options.json
    )


def _reconcile(options: argparse.Namespace) -> int:
    from local.admin import reconciling

    return reconciling.reconcile(_deployment(options), dry_run=options.dry_run, yes=options.yes, json=options.json)


def _download(options: argparse.Namespace) -> int:
    from local.admin import download

    return download.download(
        _deployment(options),
        options.artifact,
        options.path,
        version=options.version,
        force=options.force,
        json=options.json,
    )


def _push_skills(options: argparse.Namespace) -> int:
    from local.admin import skills

    return skills.push(_deployment(options), options.folder, dry_run=options.dry_run, json=options.json)


def _list_skills(options: argparse.Namespace) -> int:
    from local.admin import skills

    return skills.list_them(_deployment(options), json=options.json)


def _withdraw_skill(options: argparse.Namespace) -> int:
    from local.admin import skills

    return skills.withdraw(
        _deployment(options), options.name, dry_run=options.dry_run, yes=options.yes, json=options.json
    )


def _push_prompts(options: argparse.Namespace) -> int:
    from local.admin import prompts

    return prompts.push(_deployment(options), options.paths, dry_run=options.dry_run, json=options.json)


def _list_prompts(options: argparse.Namespace) -> int:
    from local.admin import prompts

    return prompts.list_them(_deployment(options), json=options.json)


def _withdraw_prompt(options: argparse.Namespace) -> int:
    from local.admin import prompts

    return prompts.withdraw(
        _deployment(options), options.name, dry_run=options.dry_run, yes=options.yes, json=options.json
    )


def _deployment(options: argparse.Namespace) -> Any:
    from local.admin.client import Deployment

    return Deployment.chosen(options.url, options.region)
