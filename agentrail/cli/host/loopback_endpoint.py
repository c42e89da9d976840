"""`LoopbackEndpoint`: a journal is served at a port of this machine, for processes that can read a file of the user.

It is for systems without unix sockets. The file has the port, and a token that is new whenever another process serves.
A process that is killed leaves the file, and another program may then get the port. So the program that listens there
has to prove first that it knows the token, by the code (HMAC) of a random text of the client. Only after that does the
client send the token, on the same connection.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final

import h11
import trio

from agentrail.adapters.user_folders import home
from agentrail.api.operation_table import CALLS
from agentrail.cli.host.holder_file import LOOPBACK, HolderFile, holding, read_holder
from agentrail.cli.own_files import ANOTHER_FOLDER, NOT_OURS, is_own_folder
from agentrail.errors import CannotListen, NotAuthenticated
from agentrail.host.authentication.authenticators import LOCAL, TOKEN_BYTES
from agentrail.host.authentication.identity import Authenticator, Identity, bearer
from agentrail.host.host_server import Host
from agentrail.remote.transport.host_address import HostKey

FOLDER: Final = "served"
"""Name of the folder, in that of the user, with a file for each journal that is served."""

CHALLENGE: Final = "agentrail-challenge"
"""Name of the header with the random text of which the process that serves makes a code."""

PROVE_SECONDS: Final = 3.0
"""Seconds within which a process that listens has to prove that it knows the token."""

MAX_RESPONSE: Final = 64 * 1024
"""The most bytes of the response with the proof."""

WRONG: Final = "the token is not the one in the file of this journal"
STRANGER: Final = "another program listens at the port"

_CHALLENGE: Final = re.compile(r"[0-9a-f]{64}")


def proof_of(token: str, challenge: str) -> str:
    """Return the code that only a process with *token* can make of *challenge*."""
    return hmac.new(token.encode(), f"agentrail host {challenge}".encode(), sha256).hexdigest()


class TokenOwner:
    """Authenticates requests that bear the token as the one user; answers a challenge with its proof."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __repr__(self) -> str:
        return "<TokenOwner>"

    async def identify(self, headers: Sequence[tuple[str, str]]) -> Identity:
        """Return the one user; raise `NotAuthenticated`, with the proof if the request has a challenge."""
        await trio.lowlevel.checkpoint()
        for name, challenge in headers:
            if name == CHALLENGE and _CHALLENGE.fullmatch(challenge):
                raise NotAuthenticated(proof_of(self._token, challenge))
        if not hmac.compare_digest(bearer(headers).encode(errors="surrogatepass"), self._token.encode()):
            raise NotAuthenticated(WRONG)
        return LOCAL


class LoopbackEndpoint:
    """The port of one journal, and the file that says which it is."""

    def __init__(self, journal: Path) -> None:
        self.file = file_of(journal)
        """The path of the file with port and token (mode 0600)."""
        self.url = "http://localhost"
        """The URL of the host there; the port differs each time."""
        self.key = HostKey(secrets.token_urlsafe())
        """The key for the host; `reach` replaces it by the token of the process that it has reached."""

    async def reach(self) -> trio.abc.Stream:
        """Connect to the process that serves.

        Raise `OSError` if none does, also if another program has its port; `CannotListen` if the file is another
        user's.
        """
        holder = read_holder(self.file)
        stream = await trio.open_tcp_stream(LOOPBACK, holder.port)
        try:
            with trio.fail_after(PROVE_SECONDS):
                await _check_proof(stream, holder.token)
        except (trio.TooSlowError, trio.BrokenResourceError, h11.RemoteProtocolError) as error:
            await trio.aclose_forcefully(stream)
            raise ConnectionRefusedError(STRANGER) from error
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise
        self.key.replace(holder.token)
        return stream

    @asynccontextmanager
    async def serving(self, host_for: Callable[[Authenticator], Host], *, has_page: bool) -> AsyncGenerator[None, None]:
        """Serve the host of an authenticator at a free port, its page included, until the `async with` is left."""
        del has_page  # the port is there anyway
        token = secrets.token_urlsafe(TOKEN_BYTES)
        async with host_for(TokenOwner(token)).serving(host=LOOPBACK) as serving:
            with holding(self.file, HolderFile.of_url(serving.url, token)):
                yield


async def _check_proof(stream: trio.abc.Stream, token: str) -> None:
    """Challenge the process at the other end of *stream*; raise `ConnectionRefusedError` unless it knows *token*."""
    http = h11.Connection(h11.CLIENT)
    challenge = secrets.token_hex(32)
    headers = [("Host", LOOPBACK), (CHALLENGE, challenge)]
    method, _, path = CALLS["list_sessions"].route.partition(" ")
    request = h11.Request(method=method, target=path, headers=headers)
    await stream.send_all((http.send(request) or b"") + (http.send(h11.EndOfMessage()) or b""))
    body = bytearray()
    while len(body) <= MAX_RESPONSE:
        event = http.next_event()
        if event is h11.NEED_DATA:
            http.receive_data(bytes(await stream.receive_some(MAX_RESPONSE)))
        elif isinstance(event, h11.Data):
            body += event.data
        elif not isinstance(event, h11.InformationalResponse | h11.Response):  # the end of the response
            break
    if proof_of(token, challenge).encode() not in body:
        raise ConnectionRefusedError(STRANGER)


def file_of(journal: Path) -> Path:
    """Return the path of the file that says where *journal* is served, in a folder that only the user can enter.

    It is not beside the journal: that folder may be one of several users, and on Windows it decides who can read.
    """
    folder = home() / FOLDER
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    if not is_own_folder(folder.lstat()):
        raise CannotListen(str(folder), NOT_OURS, ANOTHER_FOLDER)
    return folder / f"{sha256(os.fsencode(journal)).hexdigest()[:32]}.json"
