"""Ids of a host's sessions: made of tenant, user and name, so that a client cannot name another tenant's session.

The journal has the id `h.TENANT.USER.NAME`. A client sees `USER.NAME`, and its tenant comes from its key. To its own
sessions it may say `NAME` alone. In tenant and user, each byte other than a letter, a digit or a dash is written as `_`
and two hexadecimal digits, so a dot always separates. The id of a sub-agent is that of its parent, a dot and more.

Who looks at a journal as a whole sees the sessions of all tenants, and those of programs without a host, by the ids
that they have there: see `WHOLE_JOURNAL`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha256
from typing import Final, NamedTuple

from agentrail.errors import BadName, UnknownSession

MAX_TENANT: Final = 32
"""The most characters of a tenant as it is written in an id."""

MAX_USER: Final = 40
"""The most characters of a user as it is written in an id."""

MAX_NAME: Final = 36
"""The most characters of a session's own name."""

MAX_INTERNAL: Final = 128
"""The most characters of a whole id, those of sub-agents included: see `agentrail.values.session_ids`."""

KEPT: Final = 4_096
"""How many ids and parts of ids are kept as they are written."""

MARK: Final = "h"
"""First part of the id of each session of a host."""

WHOLE_JOURNAL: Final = ""
"""In place of a tenant: a client sees every session of the journal, by its id there. No tenant has this name."""

_NAME: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_-]{{0,{MAX_NAME - 1}}}", re.ASCII)
_BELOW: Final = re.compile(r"[A-Za-z0-9._-]*", re.ASCII)
_PLAIN: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-")
_WRITTEN: Final = re.compile(r"(?:[A-Za-z0-9-]|_[0-9a-f]{2})+", re.ASCII)
_NAME_WANTED: Final = f"give 1 to {MAX_NAME} letters, digits, `_` and `-`, beginning with a letter or digit"


class SessionName(NamedTuple):
    """The id of a session in parts: tenant, user and name; the name of a sub-agent goes on after a dot."""

    tenant: str
    """The tenant, as its key says."""
    user: str
    """The user, as the key says."""
    name: str
    """The name that the user has given, or the host."""

    @property
    def internal(self) -> str:
        """The id in the journal."""
        if self.tenant == WHOLE_JOURNAL:
            return self.name
        return f"{MARK}.{escaped(self.tenant)}.{escaped(self.user)}.{self.name}"

    @property
    def root(self) -> SessionName:
        """The session without parent at the top: this session itself, unless it is a sub-agent.

        In a whole journal, an id does not say that.
        """
        return self if self.tenant == WHOLE_JOURNAL else self._replace(name=self.name.partition(".")[0])

    @property
    def visible(self) -> str:
        """The id that clients of the tenant see."""
        if self.tenant == WHOLE_JOURNAL:
            return self.name
        return f"{escaped(self.user)}.{self.name}"


def new_name(tenant: str, user: str, name: str) -> SessionName:
    """Return the id of a session to be opened; raise `BadName` for parts that break the grammar."""
    check_owner(tenant, user)
    if not _NAME.fullmatch(name):
        raise BadName("session", name, _NAME_WANTED)
    return SessionName(tenant, user, name)


def user_in_ids(tenant: str, user: str) -> str:
    """Return *user* as the ids of its sessions begin, without the dot; empty in a whole journal, whose ids have none.

    A host tells it to each client, for `whole_id`.
    """
    return "" if tenant == WHOLE_JOURNAL else escaped(user)


def whole_id(user: str, session: str) -> str:
    """Return the id that clients see of a *session*, which a *user*, as `user_in_ids` has it, may call by its name."""
    return f"{user}.{session}" if user and "." not in session else session


def inner_command(user: str, command: str) -> str:
    """Return the id in the journal of a *command* id of a user: each user has their own."""
    digest = sha256(f"{user}\n{command}".encode(errors="surrogatepass"))
    return f"k-{digest.hexdigest()}"


def name_of_command(inner: str) -> str:
    """Return the name of a session that a command opens without one, by the command's id in the journal."""
    return f"s-{inner[2:34]}"


def check_owner(tenant: str, user: str) -> None:
    """Raise `BadName` if a tenant and a user of these names cannot have sessions."""
    for what, text, most in (("tenant", tenant, MAX_TENANT), ("user", user, MAX_USER)):
        if not text or not text.isprintable():
            raise BadName(what, text, "give a text that can be printed")
        if len(escaped(text)) > most:
            problem = f"it is too long; have at most {most} characters, of which others than A-Z a-z 0-9 - count thrice"
            raise BadName(what, text, f"{problem} for each byte")


def named(tenant: str, user: str, visible: str) -> SessionName:
    """Return the id that a *user* of *tenant* means by *visible*.

    A text that is no id raises `UnknownSession`, as for an id without a session.
    """
    if len(visible) > MAX_INTERNAL:
        raise UnknownSession(visible)
    if tenant == WHOLE_JOURNAL:
        if not _BELOW.fullmatch(visible) or not visible:
            raise UnknownSession(visible)
        return SessionName(tenant, user, visible)
    owner, dot, name = visible.partition(".")
    session_name = SessionName(tenant, user, visible) if not dot else SessionName(tenant, _plain(owner) or "", name)
    root_name, _, below = session_name.name.partition(".")
    fits = (
        session_name.user
        and _NAME.fullmatch(root_name)
        and _BELOW.fullmatch(below)
        and not session_name.name.endswith(".")
    )
    if not fits or len(session_name.internal) > MAX_INTERNAL:
        raise UnknownSession(visible)
    return session_name


def held_id(session: SessionName, user: str, visible: str) -> str | None:
    """Return the id in the journal of a call or question that waits in *session* or in one of its sub-agents.

    *visible* is the id that the *user* sees. Return `None` if it can be none of this session.
    """
    head, _, own_id = visible.rpartition(":")
    try:
        whose = named(session.tenant, user, head).internal
    except UnknownSession:
        return None
    return f"{whose}:{own_id}" if own_id and is_within(whose, session.internal) else None


def is_within(session_id: str, root: str) -> bool:
    """Whether a session is *root* or one of its sub-agents, of any depth; both by their ids in the journal."""
    return session_id == root or session_id.startswith(f"{root}.")


def beginning(tenant: str, user: str | None = None) -> str:
    """Return the prefix of the journal ids of all sessions of a tenant, or of one of its users."""
    if tenant == WHOLE_JOURNAL:
        return ""
    return f"{MARK}.{escaped(tenant)}." + ("" if user is None else f"{escaped(user)}.")


def read_internal(internal: str) -> SessionName | None:
    """Parse *internal*, an id in the journal; return `None` if it is not the id of a host's session."""
    mark, *parts = internal.split(".", 3)
    if mark != MARK or len(parts) != len(SessionName._fields):
        return None
    tenant, user = _plain(parts[0]), _plain(parts[1])
    return SessionName(tenant, user, parts[2]) if tenant and user and parts[2] else None


@lru_cache(KEPT)  # cached, because it is called for each event
def visible(internal: str) -> str:
    """Return an id in the journal, of a session or of what waits in it, as clients see it; others stay as they are."""
    session_name = read_internal(internal)
    return internal if session_name is None else session_name.visible


def without_tenant(text: str, tenant: str) -> str:
    """Return *text* with the ids of the tenant's sessions as clients of the tenant see them."""
    return re.sub(rf"(?<![A-Za-z0-9._-]){MARK}\.{re.escape(escaped(tenant))}\.(?=[A-Za-z0-9_-])", "", text)


@lru_cache(KEPT)
def escaped(part: str) -> str:
    """Return a tenant or a user as it is written in an id."""
    encoded = part.encode(errors="surrogatepass")
    return "".join([chr(byte) if byte in _PLAIN else f"_{byte:02x}" for byte in encoded])


def _plain(escaped_part: str) -> str | None:
    """Undo `escaped`: return the name of a tenant or user; `None` if no name is escaped as *escaped_part*."""
    if not _WRITTEN.fullmatch(escaped_part):
        return None
    head, *rest = escaped_part.split("_")
    try:
        part = b"".join([head.encode(), *[bytes([int(piece[:2], 16)]) + piece[2:].encode() for piece in rest]]).decode()
    except UnicodeDecodeError:
        return None
    return part if escaped(part) == escaped_part else None
