"""`raised`: awaits a call that must raise, for tests of ports."""

from __future__ import annotations

from collections.abc import Awaitable

from agentrail.errors import AgentrailError


async def raised(kind: type[AgentrailError], doing: Awaitable[object]) -> AgentrailError:
    """Await *doing* and return the error of *kind* that it must raise."""
    try:
        answer = await doing
    except kind as error:
        return error
    raise AssertionError(answer)
