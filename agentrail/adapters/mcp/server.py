"""`McpServer`: the user's description of an MCP server, given to a session among its tools.

This module does not import the package `mcp`, because that takes most of a second. It is imported in a thread when the
server is started.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Final, TypeAlias, cast
from urllib.parse import urlsplit

import attrs
import trio

from agentrail.adapters.extras import need_extra
from agentrail.adapters.mcp.oauth import OAuth, is_safe_url
from agentrail.adapters.system import HAS_FOLDERS
from agentrail.errors import UsageError
from agentrail.ports.tool import Offer
from agentrail.reprs import in_brackets
from agentrail.values.argument_checks import spelt
from agentrail.values.tools import cut_time
from agentrail.values.untrusted_values import is_time

Serve: TypeAlias = "Callable[[McpServer, str, Offer], Awaitable[None]]"

CONNECTION: Final = "agentrail.adapters.mcp.connection"
PROMPT: Final = "prompt_"
"""What stands before the name of a server's prompt in that of the tool that gets it."""
NOTHING: Final[Mapping[str, str]] = MappingProxyType({})

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,32}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _words(words: Iterable[str]) -> tuple[str, ...]:
    return (words,) if isinstance(words, str) else tuple(words)


def _texts(texts: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType(dict(texts))


def _nothing() -> None:
    """No-op: the default of `ServerProgram.leave`."""


@attrs.frozen
class ServerProgram:
    """What is started as a server, and what is to be done after its end."""

    argv: tuple[str, ...]
    """The program and its arguments."""
    env: Mapping[str, str]
    """The whole environment of the program."""
    leave: Callable[[], None] = _nothing
    """Function that is called in a thread after all its processes have ended."""
    note: str = ""
    """What a person should know if the program fails, in words after the reason; empty if there is nothing."""


@spelt
@attrs.frozen(repr=False)
class McpServer:
    """An MCP server, run as a command or reached at a URL; the session gets its tools under the names `name__tool`."""

    command: Sequence[str] = attrs.field(default=(), converter=_words)
    """The program and its arguments, run directly, without a shell; empty if the server is reached by `url`."""
    url: str = attrs.field(default="", kw_only=True)
    """URL of a server that speaks streamable HTTP; empty if the server is run by `command`."""
    name: str = attrs.field(default="mcp", kw_only=True)
    """Name of the server, and prefix of its tools' names."""
    env: Mapping[str, str] = attrs.field(default=NOTHING, converter=_texts, kw_only=True)
    """Environment variables for the command, in addition to a few harmless ones of this process."""
    inherit: Sequence[str] = attrs.field(default=(), converter=_words, kw_only=True)
    """Names of environment variables of this process that the command gets too, such as API keys."""
    headers: Mapping[str, str] = attrs.field(default=NOTHING, converter=_texts, kw_only=True)
    """HTTP headers of each request to the URL."""
    auth: OAuth | None = attrs.field(default=None, kw_only=True)
    """How the session signs in at the URL; `None` if it does not, or `headers` have a token."""
    working_dir: str | None = attrs.field(default=None, kw_only=True)
    """Folder in which the command runs; `None` if it is the session's working directory."""
    timeout: float = attrs.field(default=60.0, converter=cut_time, kw_only=True)
    """The most seconds that one call of a tool may take: the `timeout` of each of the server's tools."""
    start_timeout: float = attrs.field(default=30.0, converter=cut_time, kw_only=True)
    """The most seconds that the server may take to start and list its tools; the session's start waits for that."""
    trust_hints: bool = attrs.field(default=False, kw_only=True)
    """Whether the server's hints about the effects of its tools count; if not, the effect of each is `unsafe`."""
    requires: Sequence[str] = attrs.field(default=("mcp",), converter=_words, kw_only=True)
    """The `requires` of the server's tools: labels that tell plugins what the tools have access to."""

    deferred: bool = attrs.field(default=False, kw_only=True)
    """Whether the model gets only the names of the server's tools until it has found them with `find_tools`."""

    def __attrs_post_init__(self) -> None:
        for holds, problem in _RULES:
            if not holds(self):
                raise UsageError("bad-mcp-server", str(self.name), problem)

    @in_brackets
    def __repr__(self) -> str:
        return repr(self.name)  # only these: arguments, headers and variables may contain secrets

    def check(self) -> None:
        """Raise `ExtraMissing` without the package for the protocol, `UsageError` for a command on Windows."""
        need_extra("mcp", "mcp", "use an MCP server")
        if self.command and not HAS_FOLDERS:
            raise UsageError("bad-mcp-server", self.name, NO_COMMANDS)

    def before_start(self, program: ServerProgram) -> ServerProgram:
        """Return *program* as it is to be started: the program that made this server answers for its command.

        A subclass may return another one, or refuse by an exception. It is called in a thread, right before each start.
        """
        return program

    async def supply(self, working_dir: str, offer: Offer) -> None:
        """Connect to the server, offer its tools, and again when they change; end by an exception that says why."""
        module = await trio.to_thread.run_sync(import_module, CONNECTION)
        await cast("Serve", module.serve)(self, working_dir, offer)


NO_COMMANDS: Final = (
    "on Windows, agentrail starts no commands; reach it by a `url`, or work in the Windows Subsystem for Linux"
)


def _is_url(url: object) -> bool:
    if not isinstance(url, str):
        return False
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname)


_COMMAND_LINE: Final = re.compile(r"[^\s/\\]+\s+\S")
"""Matches a program with its arguments in one text; a path may have spaces."""

_RULES: Final[tuple[tuple[Callable[[McpServer], bool], str], ...]] = (
    (
        lambda server: _NAME.fullmatch(server.name) is not None,
        "its `name` goes before the names of its tools; use 1 to 32 letters, digits, `_` and `-`",
    ),
    (
        lambda server: bool(server.command) != bool(server.url),
        'give it either a command, as in `McpServer(["npx", "…"])`, or `url="https://…"`',
    ),
    (
        lambda server: all(server.command[:1]) and not any("\0" in word for word in server.command),
        "its command must begin with the name of a program, and have no NUL character",
    ),
    (
        lambda server: not _COMMAND_LINE.match("".join(server.command[:1])),
        'its command is a list of words, run without a shell; write `McpServer(["npx", "-y", "…"])`',
    ),
    (lambda server: not server.url or _is_url(server.url), "its `url` must begin with `https://` or `http://`"),
    (
        lambda server: (
            all(_VARIABLE.fullmatch(name) for name in (*server.env, *server.inherit))
            and not any("\0" in text for text in server.env.values())
        ),
        "its `env` and `inherit` must name variables of an environment",
    ),
    (
        lambda server: is_time(server.timeout) and is_time(server.start_timeout),
        "its `timeout` and `start_timeout` must be seconds above 0",
    ),
    (lambda server: type(server.deferred) is bool, "its `deferred` must be true or false"),
    (
        lambda server: server.auth is None or is_safe_url(server.url),
        "`auth` is an `OAuth(…)`, and needs an `https://` URL, so that nobody else reads a token",
    ),
    (
        lambda server: server.auth is None or not any(name.lower() == "authorization" for name in server.headers),
        "give it `auth` or a header `Authorization`, and not both",
    ),
)
