"""A plain typed function becomes a tool: named, versioned, published from its signature and checked before each call.

::

    @tool(step="search", version="1.0.0", tags={"search", "read"}, budget=1.0)
    def search_docs(turn: Turn, query: Annotated[str, Field(min_length=2)], k: Count = 3) -> Answer:
        \"\"\"Search the documents this turn may use and return the best passages.

        Args:
            query: What to look for, in natural language.
            k: How many passages to return.
        \"\"\"

The first parameter is the turn: it is injected and never published. Names are published in camelCase. Nothing is
derived at import: the validator is built at a tool's first call, the schema and the docstring only for publishing.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ValidationError, create_model

from workbench.tools.arguments import ArgumentObject, Given, InvalidArguments
from workbench.tools.rules import problems_of
from workbench.tools.shapes import Notes, Object, object_of

if TYPE_CHECKING:
    from workbench.tools.answer import Answer

Step = Literal["read", "write", "run", "compute", "search", "export"]
Risk = Literal["low", "moderate", "high", "dangerous"]

# What these do, they must not do twice; only a call that changes nothing may be repeated without asking.
_ONCE_ONLY = frozenset({"write", "run", "export"})
_VERSION = re.compile(r"\d+\.\d+\.\d+")


@dataclass(frozen=True, slots=True)
class Bound:
    """Arguments ready for the function: ``function(turn, **values)``.

    ``conversions`` are ``{"argument", "from", "to"}`` as the answer carries them; ``digest`` is of the decoded JSON
    before any conversion, which is what makes two calls the same.
    """

    values: dict[str, Any]
    conversions: list[dict[str, Any]]
    digest: str


class Tool:
    """One version of one tool. Made by :func:`tool`; everything else about tools derives from these."""

    def __init__(
        self,
        function: Callable[..., Answer],
        *,
        name: str,
        version: str,
        step: Step,
        tags: Iterable[str],
        budget: float,
        retries: int,
        risk: Risk,
        breaker: int,
        exact: bool,
    ) -> None:
        if not _VERSION.fullmatch(version):
            raise TypeError(f"{name}: the version must be three numbers, like 1.0.0")
        if step not in typing.get_args(Step) or risk not in typing.get_args(Risk):
            raise TypeError(f"{name}: unknown step {step!r} or risk {risk!r}")
        if retries and step in _ONCE_ONLY:
            raise TypeError(f"{name}: a tool that may have done half its work must not be tried again")
        self.function = function
        self.name = name
        self.version = version
        self.step: Step = step
        self.tags = frozenset(tags)
        self.budget_seconds = budget
        self.retries = retries
        self.risk: Risk = risk
        self.breaker_after = breaker
        # An exact tool's text is never replaced by a preview: it keeps within a budget of its own.
        self.exact = exact

    def __repr__(self) -> str:
        return f"Tool({self.id})"

    @property
    def id(self) -> str:
        """``name@version``."""
        return f"{self.name}@{self.version}"

    @cached_property
    def model(self) -> type[BaseModel]:
        """The parameters as a pydantic model; raises TypeError when the function cannot be a tool."""
        parameters = list(inspect.signature(self.function).parameters.values())
        if not parameters or parameters[0].name != "turn":
            raise TypeError(f"{self.name}: the first parameter of a tool is `turn`")
        annotations = dict(self.function.__annotations__)
        # The turn's type may be known to type checkers only; it takes no part in the contract.
        for injected in ("turn", "return"):
            annotations.pop(injected, None)
        hints = typing.get_type_hints(
            SimpleNamespace(__annotations__=annotations), inspect.unwrap(self.function).__globals__, include_extras=True
        )
        fields: dict[str, Any] = {}
        for parameter in parameters[1:]:
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise TypeError(f"{self.name}: a tool takes no *arguments")
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[parameter.name] = (hints[parameter.name], default)
        return create_model(f"{self.name}_arguments", __base__=ArgumentObject, **fields)

    @cached_property
    def shape(self) -> Object:
        """What JSON the parameters take."""
        return object_of(self.model)

    def bind(self, arguments: object) -> Bound:
        """Check ``arguments`` (an object, a JSON string of one, or a :class:`Given`) and make them the function's.

        Raises :class:`InvalidArguments` naming every problem.
        """
        given = arguments if isinstance(arguments, Given) else Given.read(arguments)
        if given.problem:
            raise InvalidArguments([given.problem])
        notes = Notes()
        read = self.shape.read(given.values, "", notes)
        if notes.problems:
            # What could not be read is left out, so that bounds and missing parameters are still named in one answer.
            faulty = {_first_part(problem.argument) for problem in notes.problems}
            read = {name: value for name, value in read.items() if name not in faulty}
        else:
            faulty = set()
        try:
            checked = self.model.model_validate(read)
        except ValidationError as error:
            notes.problems += problems_of(error, self.shape, leave_out=faulty)
        if notes.problems:
            raise InvalidArguments(notes.problems)
        return Bound(dict(vars(checked)), notes.conversions, given.digest)


def tool(
    *,
    step: Step,
    version: str = "1.0.0",
    tags: Iterable[str] = (),
    budget: float = 1.0,
    retries: int = 0,
    risk: Risk = "low",
    breaker: int = 3,
    exact: bool = False,
    name: str | None = None,
) -> Callable[[Callable[..., Answer]], Tool]:
    """Make the decorated function a :class:`Tool`.

    Args:
        step: What the trace records; with the name it answers two of a tool route's four questions.
        version: Three numbers. A changed default is a major bump, because conversations pin what they were offered.
        tags: Words for people to filter by.
        budget: Seconds the work may take.
        retries: Further attempts after a retryable failure; only for tools that may be repeated without harm.
        risk: The least rating that the gate gives a call.
        breaker: Refusals or failures of any kind in a row that take the tool out of service for a while.
        exact: The text is never shortened to a preview.
        name: The published name where it is not the function's (a second version).
    """

    def made(function: Callable[..., Answer]) -> Tool:
        return Tool(
            function,
            name=name or function.__name__,
            version=version,
            step=step,
            tags=tags,
            budget=budget,
            retries=retries,
            risk=risk,
            breaker=breaker,
            exact=exact,
        )

    return made


def _first_part(argument: str) -> str:
    return re.split(r"[.\[]", argument, maxsplit=1)[0]
