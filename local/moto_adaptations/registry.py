"""Which adaptations there are, and what applies and undoes them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol


class Functions(Protocol):
    """Where Invoke goes: :class:`local.functions.LocalFunctions`."""

    def invoke(self, name: str, payload: bytes) -> tuple[bytes, bool]: ...

    def invoke_later(self, name: str, payload: bytes) -> None: ...


class Tasks(Protocol):
    """Where ECS goes: :class:`local.tasks.LocalTasks`. Requests and answers have the shapes of the ECS API."""

    def run(self, request: Mapping[str, Any]) -> dict[str, Any]: ...

    def stop(self, task: str, reason: str) -> dict[str, Any]: ...

    def describe(self, tasks: Collection[str]) -> dict[str, Any]: ...


class Patches:
    """Attributes replaced on moto's classes and modules, and how to put them back."""

    def __init__(self, functions: Functions, tasks: Tasks) -> None:
        self.functions = functions
        self.tasks = tasks
        self._originals: list[tuple[Any, str, Any]] = []

    def replace(self, owner: Any, name: str, value: Any) -> Any:
        """Set ``owner.name`` and return what it resolved to before."""
        resolved = getattr(owner, name)
        self._originals.append((owner, name, vars(owner).get(name, _INHERITED)))
        setattr(owner, name, value)
        return resolved

    def wrap(self, owner: Any, name: str, wrapper: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Replace ``owner.name`` by ``wrapper(its present value)``."""
        self.replace(owner, name, wrapper(getattr(owner, name)))

    def undo(self) -> None:
        while self._originals:
            owner, name, original = self._originals.pop()
            if original is _INHERITED:
                delattr(owner, name)
            else:
                setattr(owner, name, original)


_INHERITED = object()
Adaptation = Callable[[Patches], None]
ADAPTATIONS: dict[str, Adaptation] = {}


def adaptation(function: Adaptation) -> Adaptation:
    ADAPTATIONS[function.__name__] = function
    return function


def adapt(functions: Functions, tasks: Tasks, *, without: Collection[str] = ()) -> Callable[[], None]:
    """Apply every adaptation but those named in ``without``; call the result to undo them all."""
    unknown = set(without) - set(ADAPTATIONS)
    if unknown:
        raise ValueError(f"no such adaptation: {sorted(unknown)}")
    patches = Patches(functions, tasks)
    for name, apply in ADAPTATIONS.items():
        if name not in without:
            apply(patches)
    return patches.undo
