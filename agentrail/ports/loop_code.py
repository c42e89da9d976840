"""Code that runs in the asyncio loop of the program, and so needs a supervisor that has one.

Such a tool, service or model has a method `check_loop`, which raises `NoHostLoop` if there is none. There is no
Protocol for it, because `isinstance` with one is slow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast


def refuse_without_loop(*code: object) -> None:
    """Raise `NoHostLoop` if some of *code* needs an asyncio loop and the supervisor of the caller has none."""
    for item in code:
        check: object = getattr(item, "check_loop", None)
        if check is not None:
            cast("Callable[[], None]", check)()
