"""Heartbeats: every beat shows the output so far, keeps the run alive and learns whether to go on."""

import os
import threading
import time

from sandbox_container.output import Output
from sandbox_container.route import Route, RouteLost, RouteRefused, Session

# Sooner than the regular beat while there is something new to show, so that output can be followed.
_FIRST_LOOK_SECONDS = 1.0
# Cut off for this long, nobody waits for the result any more.
_CUT_OFF_SECONDS = 180.0
_GIVE_UP_SECONDS = 8.0


class Heart:
    """Beats in a thread of its own, on a connection of its own, until :meth:`stop`.

    ``wake`` becomes readable when the program is to be ended; ``why`` says why.
    """

    def __init__(self, url: str, run: str, session: str, seconds: float, output: Output, characters: int) -> None:
        self._route = Route(url)
        self._session = Session(self._route, run, session)
        self._seconds, self._output, self._characters = seconds, output, characters
        self._ended = threading.Event()
        self.wake, self._waker = os.pipe()
        self.why = ""
        self._thread = threading.Thread(target=self._beat_on, name="heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """No beat begins after this."""
        self._ended.set()

    def _beat_on(self) -> None:
        last = last_answer = time.monotonic()
        look, shown = min(_FIRST_LOOK_SECONDS, self._seconds), 0
        while not self._ended.wait(min(look, max(0.0, last + self._seconds - time.monotonic()))):
            now = time.monotonic()
            if self._output.total == shown and now < last + self._seconds:
                continue
            look = min(2 * look, self._seconds)
            shown = self._output.total
            try:
                answer = self._send(shown)
            except RouteRefused as refusal:
                self._end(f"the run is over: {refusal}")
                return
            except RouteLost:
                if time.monotonic() - last_answer > _CUT_OFF_SECONDS:
                    self._end("the route could not be reached")
                    return
                continue
            finally:
                last = now
            last_answer = time.monotonic()
            if answer.get("do") == "stop":
                self._end("the run was asked to stop")
                return

    def _send(self, shown: int) -> dict[str, str]:
        stdout, stderr = self._output.tails(self._characters)
        answer: dict[str, str] = self._session.call(
            "heartbeat",
            {"stdout": stdout, "stderr": stderr, "outputBytes": shown},
            give_up_seconds=_GIVE_UP_SECONDS,
        )
        return answer

    def _end(self, why: str) -> None:
        self.why = why
        os.write(self._waker, b"!")
