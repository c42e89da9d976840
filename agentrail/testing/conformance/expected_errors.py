"""`raised`: awaits a call that must raise, for tests of ports."""

from __future__ import annotations

from collections.abc import Awaitable

from agentrail.errors import AgentrailError


async def raised(kind: type[AgentrailError], doing: Awaitable[object]) -> AgentrailError:
    """Await *doing*, which must raise an error of *kind*; return this error."""
    try:
        answer = await doing
    except kind as error:
        return error
    raise AssertionError(answer)
