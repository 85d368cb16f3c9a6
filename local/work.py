"""What is being done at the moment: counted, refused once closed, and waited for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Closed(Exception):
    """Nothing new is begun any more."""


class Work:
    """Counts the pieces of work that have begun and not ended, in whatever threads they are."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._begun = 0
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    @contextmanager
    def piece(self) -> Iterator[None]:
        """The block is a piece of work; raises :class:`Closed` instead of entering it after :meth:`close`."""
        with self._changed:
            if self._closed:
                raise Closed
            self._begun += 1
        try:
            yield
        finally:
            with self._changed:
                self._begun -= 1
                self._changed.notify_all()

    def close(self) -> None:
        """Let nothing new begin."""
        with self._changed:
            self._closed = True

    def wait(self, seconds: float) -> bool:
        """True as soon as nothing is being done, False after ``seconds``."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._begun, seconds)
