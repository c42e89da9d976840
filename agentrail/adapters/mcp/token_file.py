"""The files with the tokens of MCP servers: one for each server and account, in the folder of this user alone.

Sessions and processes share them. A file is replaced whole, under a lock, and says when its token ends: the package
`mcp` forgets that, and would send an old token after a restart.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final, cast

import attrs
import trio

from agentrail.adapters.file_lock import create_private, lock_file, open_lock_file
from agentrail.adapters.mcp.server import McpServer
from agentrail.adapters.user_folders import home
from agentrail.errors import FileFailed
from agentrail.values.json import JsonObject, freeze_object

FOLDER: Final = "mcp"
"""Name of the folder of these files, in `home`, which no agent sees."""

MAX_FILE: Final = 1024 * 1024
"""The most bytes of such a file."""

EARLY: Final = 10.0
"""Seconds before its end from which a token is not used any more: a request takes time, and clocks differ."""

ANEW: Final = "remove it, and sign in again"


@attrs.frozen(repr=False)
class SignedIn:
    """What is kept of a sign-in at one server. Its `repr` shows nothing, since it has tokens."""

    tokens: JsonObject | None = None
    """The tokens, as the authorization server gave them; `None` if there are none any more."""
    ends_at: float | None = None
    """When the access token ends, in seconds since 1970; `None` if the server has not said."""
    client: JsonObject | None = None
    """This client, as it is registered; `None` if it is not."""
    metadata: JsonObject | None = None
    """The description of the authorization server; `None` if it has none."""
    resource: JsonObject | None = None
    """The description of the MCP server as a protected resource; `None` if it has none."""
    scope: str = ""
    """Scopes that the server has asked for since, so that the next sign-in asks for them too."""

    @property
    def access_token(self) -> str:
        """The access token; empty if there is none."""
        return str((self.tokens or {}).get("access_token") or "")

    @property
    def can_refresh(self) -> bool:
        """Whether there is a refresh token, and the client that it was given to."""
        return bool((self.tokens or {}).get("refresh_token")) and self.client is not None

    @property
    def is_over(self) -> bool:
        """Whether the access token has ended."""
        return self.ends_at is not None and time.time() >= self.ends_at - EARLY  # noqa: TID251 - other processes read it


@attrs.frozen
class TokenFile:
    """The file with the tokens of one server and account."""

    server: str
    """URL of the MCP server."""
    account: str = ""
    """`OAuth.account`."""

    @classmethod
    def of(cls, server: McpServer) -> TokenFile:
        """Return the file for *server*."""
        return cls(server.url, "" if server.auth is None else server.auth.account)

    @property
    def path(self) -> Path:
        """Path of the file, whose name tells nothing of the server."""
        key = json.dumps([self.server, self.account])
        return home() / FOLDER / f"{sha256(key.encode(errors='surrogatepass')).hexdigest()[:32]}.json"

    def read(self) -> SignedIn:
        """Return what the file has; raise `FileFailed` if it is damaged, of another user, or of another server."""
        path = self.path
        try:
            content = _content(path)
        except FileNotFoundError:
            return SignedIn()
        fields = _parsed(path, content)
        if (fields.get("server"), fields.get("account")) != (self.server, self.account):
            raise FileFailed("use", str(path), f"it has the tokens of another server; {ANEW}")
        try:
            values = {name: fields[name] for name in _KINDS}
        except KeyError as error:
            raise _damaged(path) from error
        if not all(isinstance(values[name], kinds) for name, kinds in _KINDS.items()):
            raise _damaged(path)
        objects = {
            name: freeze_object(values[name]) if isinstance(values[name], dict) else values[name] for name in values
        }
        return SignedIn(**objects)  # type: ignore[arg-type]  # their types were checked

    def write(self, signed_in: SignedIn) -> None:
        """Replace the file by *signed_in*, whole or not at all; call it under the lock."""
        path = self.path
        fields = {name: getattr(signed_in, name) for name in _KINDS}
        content = json.dumps({"server": self.server, "account": self.account, **fields}, default=dict)
        new = path.with_suffix(".new")
        try:
            with os.fdopen(create_private(new), "wb") as opened:
                opened.write(content.encode(errors="surrogatepass"))
                opened.flush()
                os.fsync(opened.fileno())
            new.replace(path)
        except OSError as error:
            raise FileFailed("write", str(path), str(error.strerror or error)) from error

    def changed_at(self) -> int:
        """Return when the file was last replaced, in nanoseconds since 1970; 0 if there is none."""
        try:
            return self.path.stat().st_mtime_ns
        except OSError:
            return 0

    def delete(self) -> bool:
        """Delete the file; return whether there was one."""
        try:
            self.path.unlink()
        except FileNotFoundError:
            return False
        return True

    @asynccontextmanager
    async def locked(self) -> AsyncGenerator[None]:
        """Lock the file for the `async with` block, against other sessions and processes; nobody thinks within it."""
        opened = await trio.to_thread.run_sync(self._lock)
        try:
            yield
        finally:
            os.close(opened)  # this also releases the lock

    def _lock(self) -> int:
        lock = self.path.with_suffix(".lock")
        try:
            lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            opened = open_lock_file(lock)
        except OSError as error:
            raise FileFailed("lock", str(lock), str(error.strerror or error)) from error
        try:
            lock_file(opened, lock)
        except BaseException:
            os.close(opened)
            raise
        return opened


_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "tokens": (dict, type(None)),
    "ends_at": (float, int, type(None)),
    "client": (dict, type(None)),
    "metadata": (dict, type(None)),
    "resource": (dict, type(None)),
    "scope": (str,),
}
"""The fields of `SignedIn`, with the types that they have in the file."""


def signed_in_servers() -> Iterator[tuple[TokenFile, SignedIn | FileFailed]]:
    """Yield the files that there are, in order of their servers, each with what it has or what is wrong with it."""
    folder = home() / FOLDER
    for path in sorted(folder.glob("*.json")):
        try:
            fields = _parsed(path, _content(path))
            file = TokenFile(str(fields.get("server")), str(fields.get("account")))
            yield file, file.read()
        except FileFailed as error:
            yield TokenFile(str(path)), error
        except OSError as error:
            yield TokenFile(str(path)), FileFailed("read", str(path), str(error.strerror or error))


def _content(path: Path) -> bytes:
    try:
        opened = open_lock_file(path, os.O_RDONLY)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise FileFailed("read", str(path), str(error.strerror or error)) from error
    with os.fdopen(opened, "rb") as file:
        status = os.fstat(file.fileno())
        if sys.platform != "win32" and status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise FileFailed("use", str(path), f"other users may read or write it; {ANEW}")
        return file.read(MAX_FILE + 1)


def _parsed(path: Path, content: bytes) -> dict[str, object]:
    try:
        fields: object = json.loads(content) if len(content) <= MAX_FILE else None
    except (ValueError, RecursionError) as error:
        raise _damaged(path) from error
    if not isinstance(fields, dict):
        raise _damaged(path)
    return cast("dict[str, object]", fields)


def _damaged(path: Path) -> FileFailed:
    return FileFailed("read", str(path), f"it is damaged; {ANEW}")
