"""What adaptations keep of requests gone by: the latest ones."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

REMEMBERED = 10_000


def remember_in(memory: OrderedDict[str, Any], key: str, value: Any) -> None:
    memory[key] = value
    while len(memory) > REMEMBERED:
        memory.popitem(last=False)
