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

from sandbox_container import kernel, layout, probe, reap, scan, tree
from sandbox_container import settings as settings_module
from sandbox_container.beat import Heart
from sandbox_container.changes import Changes
from sandbox_container.job import Job, parse
from sandbox_container.launcher import Launch, Order, StartFailed
from sandbox_container.output import Output, root_hint
from sandbox_container.packs import PACK_BYTES, Packs, send_lines
from sandbox_container.route import Route, RouteLost, RouteRefused, Session
from sandbox_container.settings import Settings
from sandbox_container.watch import Disks, Watch

LIFE_SECONDS = 4 * 3600.0
_CLAIM_SECONDS = 35.0
_CLAIM_LOST_SECONDS = 60.0
_REPORT_SECONDS = 180.0
_PROGRAM_NAMES = {"python": "program.py", "javascript": "program.js", "shell": "program.sh"}
_SCRATCH_FOLDERS = ("/tmp", "/dev/shm", "/var/tmp")  # noqa: S108 - looked through for what a program leaves there
# Node.js reserves far more address space than it uses; what it uses is counted all the same.
_NODE_ADDRESS_SPACE = 2 * 1024**3
_CPU_GRACE_SECONDS = 10

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
        self._keeper: reap.Keeper = (
            reap.ByUser(settings) if settings.boundary == "user" else reap.ByDescent(frozenset())
        )
        self._trial, self._used = trial, False
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
            self._used = True
            Run(self._settings, job, Session(route, job.run, job.session), verified).carry_out(
                self._launch, self._keeper
            )
            log("reported", run=job.run)
            return LEFT
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
        body = {"op": "claim", "sandbox": self._settings.sandbox, "secret": self._secret, "verified": verified}
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
        for folder in _SCRATCH_FOLDERS[:2]:
            # A memory disk of a container may come with a mode that lets nobody but root in.
            if settings.boundary == "user" and os.path.isdir(folder) and os.stat(folder).st_mode & 0o1777 != 0o1777:
                os.chmod(folder, 0o1777)  # noqa: S103 - as /tmp is everywhere
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
        if not self._used:
            self._launch.dismiss()
        self._sweep()

    def _sweep(self) -> None:
        """Leave nothing: not in the root, not in the folders that every user may write to."""
        try:
            with tree.folder(self._settings.root) as top:
                tree.empty(top)
            for path in _SCRATCH_FOLDERS:
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


class Run:
    """One job from its inputs to its report."""

    def __init__(self, settings: Settings, job: Job, session: Session, verified: dict[str, Any]) -> None:
        self._settings, self._job, self._session = settings, job, session
        self._output = Output(job.limits.output_bytes)
        self._report: dict[str, Any] = {
            "outcome": "failed",
            "exitCode": None,
            "signal": None,
            "seconds": 0.0,
            "outputBytes": 0,
            "truncated": False,
            "spill": None,
            "tree": "unreadable",
            "reason": None,
            "packParts": 0,
            "changeParts": 0,
            "mounted": [],
            "verified": verified,
        }

    def carry_out(self, launch: Launch, keeper: reap.Keeper) -> None:
        """Run the job and report it once. Raises RouteRefused and RouteLost; everything else is in the report."""
        job = self._job
        heart = Heart(
            self._settings.route,
            job.run,
            job.session,
            job.heartbeat_seconds,
            self._output,
            job.limits.output_characters,
        )
        heart.start()
        try:
            plan = self._lay_out()
            self._execute(launch, keeper, heart)
            self._read_back(plan)
        except (RouteRefused, RouteLost):
            raise
        except Exception as error:  # noqa: BLE001 - whatever it was, it is reported and nothing of the run is taken
            self._report |= {"outcome": "failed", "tree": "unreadable", "reason": str(error)}
        finally:
            heart.stop()
        stdout, stderr = self._output.tails(job.limits.output_characters)
        self._report |= {
            "stdout": stdout,
            "stderr": stderr + root_hint(stderr, self._settings.root),
            "outputBytes": self._output.total,
        }
        self._session.call("report", {"report": self._report}, give_up_seconds=_REPORT_SECONDS)

    def _lay_out(self) -> list[layout.Planned]:
        job, session = self._job, self._session
        text = b"".join(session.input("plan", part) for part in range(job.plan_parts))
        plan = layout.parse_plan(text)
        self._report["mounted"] = layout.mounted(plan)
        data = layout.DataStream(lambda part: session.input("data", part), job.data_parts)
        owner = layout.Owner(self._settings.uid, self._settings.gid)
        layout.Layout(self._settings.root, owner).write(plan, data, _PROGRAM_NAMES[job.language])
        return plan

    def _execute(self, launch: Launch, keeper: reap.Keeper, heart: Heart) -> None:
        root, limits = self._settings.root, self._job.limits
        disks = Disks([root, *_SCRATCH_FOLDERS, self._settings.home])
        watch = Watch(self._settings.uid, launch, keeper, self._output, limits, disks, heart.wake)
        launch.start(self._order())
        began = time.monotonic()
        outcome = watch.until_end(self._job.timeout_seconds)
        self._report["seconds"] = round(time.monotonic() - began, 3)
        reap.end_all(keeper, watch.statuses)
        watch.drain()
        if outcome == "finished" and self._output.too_large:
            outcome = "output"
        status = launch.true_status(watch.statuses.get(launch.pid, 0))
        code = os.waitstatus_to_exitcode(status)
        self._report |= {"outcome": outcome, "reason": heart.why or None}
        if outcome == "finished":
            self._report |= {"exitCode": code} if code >= 0 else {"signal": -code}
        else:
            self._report["signal"] = -code if code < 0 else None

    def _order(self) -> Order:
        settings, job, root = self._settings, self._job, self._settings.root
        program = os.path.join(root, _PROGRAM_NAMES[job.language])
        argv = {
            # -I: nothing in the workspace is imported by accident. -u: what was printed before a kill is kept.
            "python": [settings.interpreter, "-I", "-B", "-u", program],
            "javascript": [settings.node, program],
            "shell": ["/bin/sh", program],
        }[job.language]
        folders = [os.path.dirname(settings.interpreter), os.path.dirname(settings.node)]
        path = dict.fromkeys([*folders, "/usr/local/bin", "/usr/bin", "/bin"])
        extra = 0 if job.language == "python" else _NODE_ADDRESS_SPACE
        return Order(
            argv=argv,
            environment={
                "PATH": ":".join(path),
                "HOME": settings.home,
                "LANG": "C.UTF-8",
                "LC_ALL": "C.UTF-8",
                "TZ": "UTC",
                "TERM": "dumb",
                "NO_COLOR": "1",
                "MPLCONFIGDIR": os.path.join(settings.home, "matplotlib"),
                **job.environment,
            },
            directory=root,
            writable=[os.path.join(root, layout.WORKSPACE), settings.home, *_SCRATCH_FOLDERS],
            memory_bytes=job.limits.memory_bytes + extra,
            processes=job.limits.processes,
            file_bytes=job.limits.file_bytes,
            open_files=job.limits.open_files,
            cpu_seconds=int(job.timeout_seconds * (os.cpu_count() or 1)) + _CPU_GRACE_SECONDS,
        )

    def _read_back(self, plan: list[layout.Planned]) -> None:
        packs = Packs(lambda part, raw: self._session.output("packs", part, raw))
        changes = Changes(plan, packs)
        spilled: set[int] = set()
        try:
            with tree.folder(os.path.join(self._settings.root, layout.WORKSPACE)) as top:
                walk = scan.Scan(top, self._job.limits, PACK_BYTES)
                for found in walk.found():
                    changes.take(found)
                    name = scan.SPILL.fullmatch(found.path)
                    if name:
                        spilled.add(int(name[1]))
        except scan.Refused as refusal:
            self._report["reason"] = str(refusal)
            return
        except OSError as error:
            self._report["reason"] = f"the tree could not be read: {error.strerror}"
            return
        self._spill(changes, spilled)
        packs.flush()
        sent = send_lines(changes.lines(walk.left_out), lambda part, raw: self._session.output("changes", part, raw))
        self._report |= {"tree": "ok", "packParts": packs.parts, "changeParts": sent}

    def _spill(self, changes: Changes, taken: set[int]) -> None:
        """Long output becomes a file of the workspace. What was cut off at its cap is no whole, so it does not."""
        if self._output.too_large:
            self._report["truncated"] = True
            return
        if self._output.total <= self._job.limits.output_characters:
            return
        if self._output.characters() <= self._job.limits.output_characters:
            return
        number = next(n for n in range(1, len(taken) + 2) if n not in taken)
        found = scan.Found.of_data(f".spill-{number}.txt", self._output.whole())
        changes.take(found)
        self._report |= {"truncated": True, "spill": found.path}


def log(event: str, **facts: str) -> None:
    """One line for people; never a secret and nothing that the program printed."""
    print(json.dumps({"event": event, **facts}), file=sys.stderr, flush=True)
