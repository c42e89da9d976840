"""`AgentSeal`: a code in the name of an agent that shows that this user has begun it, in one journal.

Sessions come from elsewhere too: by an import, a copy, or with a journal that was cloned. What their agent is made of
is a text in them, and a list of the texts that this user has begun would be of no use: a folder, a mode and a model can
be guessed. So the name ends with a code (HMAC) of journal and text, by a key that only this user can read.
"""

from __future__ import annotations

import hmac
import os
import secrets
from hashlib import sha256
from pathlib import Path
from typing import Final

from agentrail.adapters.journals.sql.sqlite_journal import SqliteJournal
from agentrail.adapters.user_folders import home
from agentrail.cli.agents.agent_source import AgentSource
from agentrail.cli.own_files import ANOTHER_HOME, NOT_OURS, is_own_file, make_once
from agentrail.errors import FileFailed
from agentrail.values.json import canonical

NAME: Final = "agents.key"
"""Name of the file with the key, in the user's folder."""

KEY_BYTES: Final = 32
"""The number of bytes of the key."""

DELETE_IT: Final = "delete it, and sessions begun before are asked about once"


class AgentSeal:
    """Seals the agents that this user begins in one journal, and tells them from others."""

    def __init__(self, journal: Path | None) -> None:
        """Create it for the file of a journal, by default the user's."""
        self.journal = SqliteJournal(journal).path
        """The file of the journal, with links resolved."""

    def begun(self, source: AgentSource) -> AgentSource:
        """Return *source* with the seal of this user: only its name begins a session, and brings one back."""
        return source.but(seal=self._code(source))

    def fits(self, source: AgentSource) -> bool:
        """Whether this user has begun *source* in this journal; the key is not read for one without a seal."""
        if not source.seal:
            return False
        return hmac.compare_digest(source.seal.encode(errors="surrogatepass"), self._code(source).encode())

    def _code(self, source: AgentSource) -> str:
        text = canonical([os.fsencode(self.journal).hex(), source.but(seal="").id])
        return hmac.new(user_key(), text.encode(), sha256).hexdigest()


def user_key() -> bytes:
    """Return the key of this user, which is made when it is first wanted.

    Raise `FileFailed` if it cannot be read or made, or if others could read it.
    """
    file = home() / NAME
    verb = "read"
    try:
        if not file.exists():
            verb = "make"
            make_once(file, secrets.token_bytes(KEY_BYTES))
        if not is_own_file(file.lstat()):
            raise FileFailed("use", str(file), f"{NOT_OURS}; {DELETE_IT}")
        key = file.read_bytes()
    except OSError as error:
        raise FileFailed(verb, str(file), f"{error.strerror or error}; {ANOTHER_HOME}") from error
    if len(key) != KEY_BYTES:
        raise FileFailed("use", str(file), f"it is no key; {DELETE_IT}")
    return key
