"""`stop_orphan`: stops a session whose handle nobody gets."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from agentrail.errors import AgentrailError

if TYPE_CHECKING:
    from agentrail.runtime.handle import SessionHandle

log = logging.getLogger("agentrail.bridge")


async def stop_orphan(handle: SessionHandle) -> None:
    """Stop a session that was started for a caller who was cancelled, so that nobody has its handle."""
    try:
        await handle.stop("its caller was cancelled")
    except AgentrailError as error:
        log.warning("session %s, whose caller was cancelled, could not be stopped: %s", handle.id, error)
