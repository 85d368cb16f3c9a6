"""One supervisor's life: prove the sandbox, claim one job, lay it out, run it, read it back, report, leave.

Listens on nothing. Starts its children before it knows a secret, and has a single thread whenever it forks.
"""

import json
import os
import random
import shutil
import sys
import time
from contextlib import suppress
from typing import Any

from sandbox_container import kernel, probe, reap, tree
from sandbox_container import settings as settings_module
from sandbox_container.job import parse
from sandbox_container.launcher import Launch, StartFailed
from sandbox_container.route import Route, RouteLost, RouteRefused, Session
from sandbox_container.run import SCRATCH_FOLDERS, Run
from sandbox_container.settings import Settings

LIFE_SECONDS = 4 * 3600.0
_CLAIM_SECONDS = 35.0
_CLAIM_LOST_SECONDS = 60.0

LEFT, TOOK_NO_JOB, LOST = 0, 3, 4


def main() -> int:
    """The exit status: 0 after a report or without a job to do, 3 when none could be taken, 4 when cut off."""
    os.umask(0o022)
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    try:
        supervisor = Supervisor(settings_module.take())
    except (ValueError, OSError) as error:
        log("no job is taken", reason=str(error))
        return TOOK_NO_JOB
    return supervisor.look() if "--probe" in sys.argv[1:] else supervisor.serve()


class Supervisor:
    """Holds what was started early; :meth:`serve` does the rest."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._make_folders()
        trial, self._launch = Launch(settings), Launch(settings)
        self._trial = trial
        self._keeper: reap.Keeper = reap.ByUser(settings) if settings.boundary == "user" else reap.ByDescent()
        self._secret = settings_module.take_secret()

    def look(self) -> int:
        """Only prove the sandbox, and print what was found."""
        verified = self._prove()
        self._leave()
        if verified is None:
            return TOOK_NO_JOB
        print(json.dumps(verified), flush=True)
        return LEFT

    def serve(self) -> int:
        """Take one job and report it."""
        verified = self._prove()
        if verified is None:
            self._leave()
            return TOOK_NO_JOB
        route = Route(self._settings.route)
        try:
            answer = self._claim(route, verified)
            if answer is None:
                return LEFT
            job = parse(answer)
            log("claimed", run=job.run)
            session = Session(route, job.run, job.session)
            Run(self._settings, job, session, verified).carry_out(self._launch, self._keeper)
            log("reported", run=job.run)
            return LEFT
        except (KeyError, TypeError, ValueError) as error:
            log("no job is taken", reason=f"the route's answer does not fit: {error!r}")
            return TOOK_NO_JOB
        except RouteRefused as refusal:
            log("refused", reason=str(refusal))
            return LEFT if refusal.status == 409 else TOOK_NO_JOB
        except RouteLost as lost:
            log("cut off", reason=str(lost))
            return LOST
        finally:
            self._leave()

    def _prove(self) -> dict[str, Any] | None:
        try:
            return probe.probe(self._settings, self._trial)
        except (probe.ProbeFailed, StartFailed) as error:
            log("no job is taken", reason=str(error))
            return None

    def _claim(self, route: Route, verified: dict[str, Any]) -> dict[str, Any] | None:
        # Spread, so that a pool of sandboxes is not renewed all at once.
        leave_at = time.monotonic() + LIFE_SECONDS * random.uniform(0.9, 1.0)  # noqa: S311 - no secret
        # Our own is known to this process alone, while the task's description shows the other: the first claim that
        # arrives exchanges them, and sent again it finds its own in place.
        secrets = {"secret": self._secret, "ownSecret": os.urandom(32).hex()}
        body = {"op": "claim", "sandbox": self._settings.sandbox, **secrets, "verified": verified}
        while time.monotonic() < leave_at:
            answer: dict[str, Any] = route.call(
                body, answer_seconds=_CLAIM_SECONDS, give_up_seconds=_CLAIM_LOST_SECONDS
            )
            if answer["status"] == "job":
                return answer
            if answer["status"] != "wait":
                return None
        return None

    def _make_folders(self) -> None:
        settings = self._settings
        os.makedirs(settings.root, mode=0o755, exist_ok=True)
        if os.listdir(settings.root):
            raise ValueError(f"{settings.root} is not empty: a sandbox is used once")
        os.chmod(settings.root, 0o755)  # noqa: S103 - the sandbox has to enter it
        for folder in SCRATCH_FOLDERS[:2]:
            # A memory disk of a container may come with a mode that lets nobody but root in.
            if settings.boundary == "user" and os.path.isdir(folder) and os.stat(folder).st_mode & 0o1777 != 0o1777:
                os.chmod(folder, 0o1777)  # noqa: S103 - as /tmp is everywhere
        with tree.folder(os.path.dirname(settings.home)) as parent:
            # A supervisor that was killed may have left one; nothing in it is to be met again.
            tree.remove(os.path.basename(settings.home), parent)
        os.mkdir(settings.home, 0o700)
        fonts = os.path.join(os.path.dirname(os.path.dirname(settings.interpreter)), "share/workbench/matplotlib")
        cache = os.path.join(settings.home, "matplotlib")
        if os.path.isdir(fonts):
            shutil.copytree(fonts, cache)
        else:
            os.mkdir(cache)
        if settings.boundary == "user":
            for folder, _, names in os.walk(settings.home):
                for name in (".", *names):
                    os.chown(os.path.join(folder, name), settings.uid, settings.gid)

    def _leave(self) -> None:
        self._keeper.close()
        self._launch.dismiss()
        self._sweep()

    def _sweep(self) -> None:
        """Leave nothing: not in the root, not in the folders that every user may write to."""
        try:
            with tree.folder(self._settings.root) as top:
                tree.empty(top)
            for path in SCRATCH_FOLDERS:
                if os.path.isdir(path):
                    with tree.folder(path) as top:
                        self._sweep_scratch(top)
        except OSError as error:
            log("not everything could be removed", reason=str(error))

    def _sweep_scratch(self, top: int) -> None:
        mine = self._settings.uid
        for name in os.listdir(top) if self._settings.boundary == "user" else []:
            with suppress(FileNotFoundError):  # others may work in there as well
                if os.lstat(name, dir_fd=top).st_uid == mine:
                    tree.remove(name, top)


def log(event: str, **facts: str) -> None:
    """One line for people; never a secret and nothing that the program printed."""
    print(json.dumps({"event": event, **facts}), file=sys.stderr, flush=True)
