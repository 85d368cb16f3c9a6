"""The end of moto's state machine executions: each is some threads that nothing else would end."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from local.functions import ACCOUNT, REGION

# How long a look at one of the threads may take before all executions are looked at again.
LOOK_SECONDS = 0.05


def end(seconds: float) -> bool:
    """Abort every execution and wait until their threads have ended, at most ``seconds``; False when some have not."""
    # moto's Step Functions is loaded by the adaptations, in their own way.
    from moto.stepfunctions.parser.models import stepfunctions_parser_backends
    from moto.stepfunctions.parser.utils import TMP_THREADS

    deadline = time.monotonic() + seconds
    backend: Any = stepfunctions_parser_backends[ACCOUNT][REGION]
    while alive := [thread for thread in TMP_THREADS if thread.is_alive()]:
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        # Again and again: one that has only just started cannot be aborted yet, and may miss being woken.
        for machine in backend.state_machines:
            for execution in machine.executions:
                _abort(execution)
        alive[0].join(min(LOOK_SECONDS, left))
    # moto never forgets a thread.
    TMP_THREADS.clear()
    return True


def _abort(execution: Any) -> None:
    environment = execution.exec_worker.env if execution.exec_worker else None
    if environment is None:
        return
    environment.set_stop(stop_date=datetime.now(UTC), cause=None, error=None)
    # Who waits for time to pass or for a task token looks again whether the execution runs.
    environment.program_state_event.set()
    environment.program_state_event.clear()
    for endpoint in list(environment.callback_pool_manager._pool.values()):
        endpoint.interrupt_all()
