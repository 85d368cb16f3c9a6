"""One job from its inputs to its report: lay out, run, end everything, read back, report once."""

import os
import time
from typing import Any

from sandbox_container import layout, reach, reap, scan, tree
from sandbox_container.beat import Heart
from sandbox_container.changes import Changes
from sandbox_container.job import Job
from sandbox_container.launcher import Launch, Order
from sandbox_container.output import Output, root_hint
from sandbox_container.packs import PACK_BYTES, Packs, send_lines
from sandbox_container.route import RouteLost, RouteRefused, Session
from sandbox_container.settings import Settings
from sandbox_container.watch import Disks, Watch

# Where every user may write: watched while a program runs, and looked through for what it left.
SCRATCH_FOLDERS = ("/tmp", "/dev/shm", "/var/tmp")  # noqa: S108
_REPORT_SECONDS = 180.0
_PROGRAM_NAMES = {"python": "program.py", "javascript": "program.js", "shell": "program.sh"}
# Node.js reserves far more address space than it uses; what it uses is counted all the same.
_NODE_ADDRESS_SPACE = 2 * 1024**3
_CPU_GRACE_SECONDS = 10


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
        if job.reach:
            self._report["verified"] = {**self._report["verified"], "reach": reach.look(job.reach)}
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
            "stderr": stderr if job.directory else stderr + root_hint(stderr, self._settings.root),
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
        disks = Disks([root, *SCRATCH_FOLDERS, self._settings.home])
        watch = Watch(self._settings.uid, launch, keeper, self._output, limits, disks, heart.wake)
        launch.start(self._order())
        began = time.monotonic()
        try:
            outcome = watch.until_end(self._job.timeout_seconds)
            self._report["seconds"] = round(time.monotonic() - began, 3)
        finally:
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
            directory=os.path.join(root, job.directory),
            writable=[os.path.join(root, layout.WORKSPACE), settings.home, *SCRATCH_FOLDERS],
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
            if isinstance(refusal, scan.TooLarge):
                self._report["tree"] = "too_large"
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
