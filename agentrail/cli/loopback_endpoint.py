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
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Final, cast

import h11
import msgspec
import trio

from agentrail.adapters.journals.sqlite.writer_lock import home
from agentrail.api.operation_table import CALLS
from agentrail.cli.own_files import ANOTHER_PLACE, NOT_OURS, is_own_file, is_own_folder
from agentrail.errors import CannotListen, NotAuthenticated
from agentrail.host.authentication.authenticators import LOCAL
from agentrail.host.authentication.identity import Authenticator, Identity, bearer
from agentrail.host.host_server import Host
from agentrail.remote.transport.host_address import HostKey
from agentrail.values.value import learned

LOOPBACK: Final = "127.0.0.1"

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
NOTHING: Final = "the file does not say where the journal is served"

_CHALLENGE: Final = re.compile(r"[0-9a-f]{64}")


class HolderFile(msgspec.Struct, frozen=True):
    """The content of the file that says where a journal is served."""

    port: int
    """The port at the loopback address."""
    token: str
    """The token of the process that serves there."""


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = cast("msgspec.json.Decoder[HolderFile]", msgspec.json.Decoder(learned(HolderFile))).decode


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
        holder = self._holder()
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

    def _holder(self) -> HolderFile:
        if not is_own_file(self.file.lstat()):
            raise CannotListen(str(self.file), NOT_OURS, ANOTHER_PLACE)
        try:
            holder = _decode(self.file.read_bytes())
        except msgspec.MsgspecError as error:  # it is just being written
            raise ConnectionRefusedError(NOTHING) from error
        if not 0 < holder.port < 1 << 16:
            raise ConnectionRefusedError(NOTHING)
        return holder

    @asynccontextmanager
    async def serving(self, host_for: Callable[[Authenticator], Host]) -> AsyncGenerator[None, None]:
        """Serve the host of an authenticator at a free port until the `async with` is left."""
        token = secrets.token_urlsafe(32)
        async with host_for(TokenOwner(token)).serving(host=LOOPBACK) as serving:
            content = _encode(HolderFile(int(serving.url.rpartition(":")[2]), token))
            self._put(content)
            try:
                yield
            finally:
                # The next process can serve only when this one has closed the journal: the file is still ours
                with suppress(OSError):
                    self.file.unlink()

    def _put(self, content: bytes) -> None:
        """Write a new file: an older one, of a process that was killed, may be open to others."""
        self.file.unlink(missing_ok=True)
        with os.fdopen(os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)


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
        raise CannotListen(str(folder), NOT_OURS, ANOTHER_PLACE)
    return folder / f"{sha256(os.fsencode(journal)).hexdigest()[:32]}.json"
