"""`WrittenFileCalls`: the calls that list the files which an agent wrote, and send one of them.

What is sent is data from a model. A browser saves it, and never shows it as a page of the host.
"""

from __future__ import annotations

from base64 import b64encode
from codecs import getincrementaldecoder
from hashlib import sha256
from itertools import takewhile
from typing import Final
from urllib.parse import quote

import trio
from attrs import frozen

from agentrail.adapters.sandboxes.globs import Glob
from agentrail.adapters.sandboxes.searching import limited_meter
from agentrail.api.bodies import FilePieceQuery, WrittenFileQuery, WrittenFilesQuery
from agentrail.api.limits import page_of
from agentrail.api.views import FilePieceView, WrittenFilesView, WrittenFileView
from agentrail.errors import FileFailed, FileMissing, PathRefused, RefusedError, UsageError
from agentrail.errors.agentrail_error import cut
from agentrail.host.hosted_sessions import HostedSessions
from agentrail.host.operations.call import Answer, OperationCall, SentFile
from agentrail.host.operations.host_calls import is_known
from agentrail.host.requests.http_messages import EndableSend, Headers, Send
from agentrail.host.uploads.session_files import FOLDER, UNKNOWN, shown_media
from agentrail.host.uploads.written_files import WrittenPaths
from agentrail.ports.sandbox import KIB, Kind, Sandbox

HEAD: Final = KIB
"""How many bytes of a file tell what it is."""

PIECE: Final = 256 * KIB
"""The most bytes of a file that are read, hashed or sent at once."""

TEXT: Final = "text/plain"

DOWNLOAD: Final[Headers] = (
    ("x-content-type-options", "nosniff"),
    ("content-security-policy", "default-src 'none'; sandbox"),
    ("cross-origin-resource-policy", "same-origin"),
)
"""Headers of each file: whatever a model wrote, no browser runs it."""

CACHING: Final = ("cache-control", "private, no-cache")
NOT_MODIFIED: Final = 304
WILD: Final = frozenset("*?[]{}")
CHANGED: Final = "it was changed meanwhile"


@frozen
class WrittenList:
    """The paths of the files that users may fetch, before it is looked at what is there."""

    sandbox: Sandbox
    paths: frozenset[str]
    cut: bool
    """Whether there may be more."""


class WrittenFileCalls:
    """Carries out the calls about files that agents wrote; no session is started or woken for that."""

    def __init__(self, sessions: HostedSessions, written_paths: WrittenPaths) -> None:
        self._sessions = sessions
        self._written_paths = written_paths

    async def files(self, call: OperationCall) -> Answer:
        """List the files that the agent wrote and that are there, by path."""
        query = call.query(WrittenFilesQuery)
        listing = await self._listing(call)
        limit = page_of(query.limit)
        items: list[WrittenFileView] = []
        for path in sorted(listing.paths):
            if query.after is not None and path <= query.after:
                continue
            item = await _item(listing.sandbox, path)
            if item is not None:
                items.append(item)
            if len(items) > limit:
                break
        following = items[limit - 1].path if len(items) > limit else None
        return call.view_answer(WrittenFilesView(tuple(items[:limit]), following, listing.cut))

    async def file(self, call: OperationCall) -> Answer:
        """Send a file that the agent wrote."""
        file = await self._file_at(call, call.query(WrittenFileQuery).path)
        digest = await file.send()
        headers: Headers = (("etag", f'"{digest}"'), CACHING)
        if is_known(headers[0][1], call.header("if-none-match")):
            return SentFile(NOT_MODIFIED, headers)
        media = f"{TEXT}; charset=utf-8" if file.media_type == TEXT else file.media_type
        headers += (("content-type", media), ("content-disposition", _saved_as(file.path)), *DOWNLOAD)

        async def write(send: EndableSend) -> None:
            if await file.send(send) != digest:  # the answer is cut, as its client would have a mixture
                raise FileFailed("send", file.path, CHANGED)

        return SentFile(call.row.status, headers, write)

    async def file_piece(self, call: OperationCall) -> Answer:
        """Send a piece of a file that the agent wrote as JSON, for clients on a WebSocket."""
        query = call.query(FilePieceQuery)
        file = await self._file_at(call, query.path)
        digest = None if query.offset else await file.send()
        content = await file.sandbox.read(file.path, query.offset, PIECE)
        data = b64encode(content.data).decode()
        return call.view_answer(FilePieceView(file.path, query.offset, content.size, data, digest))

    async def _listing(self, call: OperationCall) -> WrittenList:
        name = self._sessions.name(call.row, call.who, call.session)
        stored = await self._sessions.stored(name)
        most = call.limits.session_files
        if "." in name.name:  # a sub-agent: its own sandbox, if it has one, is known to its parent alone
            raise UsageError("no-written-file", cut(name.visible))
        sandbox = await self._sessions.folder(name)
        paths, is_cut = await self._written_paths.find(name.internal, stored.head)
        for pattern in await self._sessions.outputs(name):
            matches, has_more = await _matching(sandbox, pattern, most)
            paths, is_cut = paths | matches, is_cut or has_more
        return WrittenList(sandbox, paths, is_cut)

    async def _file_at(self, call: OperationCall, path: str) -> WrittenFile:
        """Return the file at *path*; raise an error if the agent did not write it, or it is gone or too large."""
        listing = await self._listing(call)
        item = await _item(listing.sandbox, path) if path in listing.paths else None
        if item is None:
            raise UsageError("no-written-file", cut(path))
        if item.size > call.limits.file_bytes:
            raise RefusedError("file-too-large", cut(path), item.size, call.limits.file_bytes)
        return WrittenFile(listing.sandbox, path, item.media_type, call.limits.file_bytes)


async def drop(_: bytes) -> None:
    """Let other tasks run: only the digest is wanted."""
    await trio.lowlevel.checkpoint()


@frozen
class WrittenFile:
    """A file that an agent wrote."""

    sandbox: Sandbox
    path: str
    media_type: str
    most: int
    """The most bytes that are sent: it may grow meanwhile."""

    async def send(self, give: Send = drop) -> str:
        """Hand the content to *give*, piece by piece, and return its SHA-256."""
        offset, hashed = 0, sha256()
        while piece := (await self.sandbox.read(self.path, offset, PIECE)).data:
            offset += len(piece)
            if offset > self.most:
                raise RefusedError("file-too-large", cut(self.path), offset, self.most)
            hashed.update(piece)
            await give(piece)
        return hashed.hexdigest()


async def _matching(sandbox: Sandbox, pattern: str, most: int) -> tuple[frozenset[str], bool]:
    """Return up to *most* paths of files that match *pattern*, without uploads, and whether there may be more."""
    glob, meter = Glob(pattern), limited_meter()
    parts = pattern.split("/")
    plain = list(takewhile(WILD.isdisjoint, parts[:-1]))  # only this folder is looked through
    try:
        rest = "/".join(parts[len(plain) :])
        listing = await sandbox.glob(rest, "/".join(plain) or ".", ignored=True, limit=most)
    except (FileMissing, PathRefused):
        return frozenset(), False
    paths = [entry.path for entry in listing.entries if entry.kind is Kind.FILE]
    fitting = [path for path in paths if glob.matches(tuple(path.split("/")), meter)]
    return frozenset([path for path in fitting if not path.startswith(f"{FOLDER}/")]), listing.cut


async def _item(sandbox: Sandbox, path: str) -> WrittenFileView | None:
    """Return what is said of the file at *path*; `None` if there is none, or it is hidden."""
    try:
        content = await sandbox.read(path, 0, HEAD)
    except (FileMissing, PathRefused, FileFailed):
        return None
    return WrittenFileView(path, content.size, _media_of(content.data))


def _media_of(head: bytes) -> str:
    """Return the media type of a file that begins with *head*: none that a browser would run."""
    media = shown_media(head)
    if media is not None:
        return media
    try:
        getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return UNKNOWN
    return UNKNOWN if b"\0" in head else TEXT


def _saved_as(path: str) -> str:
    """Return a value of `Content-Disposition` with which a browser saves the file at *path* under its name."""
    return f"attachment; filename*=UTF-8''{quote(path.rpartition('/')[2], safe='')}"
