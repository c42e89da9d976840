"""`OAuth`: how a session signs in at an MCP server, by a person once or as itself. It imports no package `mcp`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final
from urllib.parse import urlsplit

import attrs

from agentrail.errors import UsageError
from agentrail.reprs import in_brackets
from agentrail.values.argument_checks import spelt

HERE: Final = frozenset({"localhost", "127.0.0.1", "::1"})
"""Names of this machine, to which a connection needs no TLS."""

MAX_PORT: Final = 65_535
MAX_ACCOUNT: Final = 200
"""The most characters of the name of an account."""


def _words(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(words.split()) if isinstance(words, str) else tuple(words)


@spelt
@attrs.frozen(repr=False, kw_only=True)
class OAuth:
    """Signs in by OAuth 2.1: a person once in a browser, then by refreshed tokens; or as itself, by a secret or key."""

    account: str = ""
    """Whose tokens they are, if one user of this machine signs in for several people; part of where they are kept."""
    issuer: str = ""
    """URL of the authorization server; needed if it is on another host than the MCP server, or gets a secret."""
    scopes: Sequence[str] = attrs.field(default=(), converter=_words)
    """Scopes to ask for, in addition to those that the server names."""
    client_id: str = ""
    """Id of this client, if it was registered by hand; empty: it registers itself."""
    client_secret: str = ""
    """Secret of the client of `client_id`, if it has one."""
    private_key: str = ""
    """Private key (PEM) with which the client of `client_id` signs in place of a secret."""
    key_algorithm: str = "ES256"
    """Algorithm of the private key."""
    metadata_url: str = ""
    """URL at which this client describes itself, for servers that take one as the client's id."""
    redirect_port: int = 0
    """Port of this machine to which the browser comes back; 0 if any free one will do."""
    without_person: bool = False
    """Whether the client signs in as itself (client credentials): nobody is asked."""

    def __attrs_post_init__(self) -> None:
        for holds, problem in _RULES:
            if not holds(self):
                raise UsageError("bad-mcp-server", "OAuth", problem)

    @in_brackets
    def __repr__(self) -> str:
        return repr(self.account)  # only this: there are a secret and a key


def is_safe_url(url: str) -> bool:
    """Whether *url* is an https address of a page, or an http one of this machine."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    has_scheme = parts.scheme == "https" or (parts.scheme == "http" and host in HERE)
    return has_scheme and bool(host) and "@" not in parts.netloc and url.isprintable() and " " not in url


def _texts(auth: OAuth) -> tuple[object, ...]:
    """Return what has to be texts."""
    return (
        *(auth.account, auth.issuer, auth.client_id, auth.client_secret),
        *(auth.private_key, auth.key_algorithm, auth.metadata_url, *auth.scopes),
    )


_RULES: Final[tuple[tuple[Callable[[OAuth], bool], str], ...]] = (
    (
        lambda auth: all(type(text) is str for text in _texts(auth)),
        "its options must be texts",
    ),
    (
        lambda auth: auth.account.isprintable() and len(auth.account) <= MAX_ACCOUNT,
        "its `account` must be a short name",
    ),
    (lambda auth: not auth.issuer or is_safe_url(auth.issuer), "its `issuer` must begin with `https://`"),
    (
        lambda auth: not auth.metadata_url or auth.metadata_url.startswith("https://"),
        "its `metadata_url` must begin with `https://`",
    ),
    (
        lambda auth: not (auth.client_secret or auth.private_key or auth.without_person) or bool(auth.client_id),
        "a secret, a key and `without_person` need the `client_id` that they belong to",
    ),
    (
        lambda auth: not (auth.client_secret or auth.private_key) or bool(auth.issuer),
        "a secret or key needs the `issuer` that it is for, so that it goes nowhere else",
    ),
    (
        lambda auth: auth.without_person == bool(auth.private_key) or bool(auth.client_secret),
        "`without_person` needs a `client_secret` or a `private_key`, and a key needs `without_person=True`",
    ),
    (lambda auth: not (auth.client_secret and auth.private_key), "give it a secret or a key, and not both"),
    (
        lambda auth: type(auth.redirect_port) is int and 0 <= auth.redirect_port <= MAX_PORT,
        f"its `redirect_port` must be a number of 0 to {MAX_PORT}",
    ),
    (lambda auth: type(auth.without_person) is bool, "its `without_person` must be true or false"),
)
