"""The key of a client: it goes into one header, and is never shown."""

from __future__ import annotations

import os
import re
from typing import Final

from agentrail.errors import BadConnection
from agentrail.values.secrets import Secret, secret_name

ADVICE: Final = "give the key that `agentrail serve keys make` has printed, or a `Secret` that names its variable"
_SENDABLE: Final = re.compile(r"[!-~]{1,1024}", re.ASCII)


class HostKey:
    """A key for a host. Nothing but `header` gives its text: it is in no `repr`, no log and no error."""

    __slots__ = ("_text",)

    def __init__(self, given: str | Secret) -> None:
        """Take the key itself, or a `Secret` with the name of the environment variable that has it."""
        name = secret_name(given)
        text: object = given if name is None else os.environ.get(name)
        if text is None:
            raise BadConnection(problem=f"the environment variable `{name}` is not set", advice=ADVICE)
        if not isinstance(text, str) or not _SENDABLE.fullmatch(text):
            raise BadConnection(problem="it is no text of 1 to 1024 characters for a header", advice=ADVICE)
        self._text = text

    def __repr__(self) -> str:
        return "<HostKey>"

    @property
    def header(self) -> tuple[bytes, bytes]:
        """The header that says who calls."""
        return b"authorization", b"Bearer " + self._text.encode()
