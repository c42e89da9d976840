"""The token of `agentrail serve` for this machine: one for each folder that is served, so that a link holds."""

from __future__ import annotations

import logging
import os
import secrets
from hashlib import sha256
from pathlib import Path
from typing import Final

from agentrail.adapters.user_folders import home
from agentrail.cli.command_options import is_token
from agentrail.cli.own_files import NOT_OURS, is_own_file, make_once
from agentrail.errors import FileFailed
from agentrail.host.authentication.authenticators import TOKEN_BYTES

log = logging.getLogger("agentrail.host")

FOLDER: Final = "tokens"
"""Name of the folder, in that of the user, with a file for each folder that was served."""

DELETE_IT: Final = "delete it, and the next start makes a new one"


def kept_token(served: Path) -> str | None:
    """Return the token of the folder *served*, which is made when it is first wanted.

    Return `None` if the user has no folder in which it can be kept: then each start has a token of its own. Raise
    `FileFailed` if others could read it.
    """
    try:
        file = home() / FOLDER / sha256(os.fsencode(served.resolve())).hexdigest()[:32]
        if not file.exists():
            make_once(file, secrets.token_urlsafe(TOKEN_BYTES).encode())
        if not is_own_file(file.lstat()):
            raise FileFailed("use", str(file), f"{NOT_OURS}; {DELETE_IT}")
        token = file.read_text(encoding="ascii", errors="replace")
    except (OSError, RuntimeError) as error:
        log.warning("the token for this machine is new at each start, as it cannot be kept: %s", error)
        return None
    if not is_token(token):
        raise FileFailed("use", str(file), f"it has no token; {DELETE_IT}")
    return token
