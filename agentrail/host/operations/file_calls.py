"""Calls about uploaded files, and the files that a prompt names."""

from __future__ import annotations

from agentrail.api.bodies import FileQuery
from agentrail.api.public_ids import SessionName
from agentrail.api.views import FileView
from agentrail.errors import FilesNotTaken, UnknownSession, UsageError
from agentrail.errors.agentrail_error import cut
from agentrail.host.hosted_sessions import HostedSessions
from agentrail.host.operations.answers import Answer
from agentrail.host.operations.call_request import CallRequest
from agentrail.host.uploads.file_kinds import said_media
from agentrail.host.uploads.prompt_files import NO_FILES, PromptFiles
from agentrail.host.uploads.session_files import SessionFiles


class FileCalls:
    """Carries out the call `upload`, and finds files for others."""

    def __init__(self, sessions: HostedSessions, files: SessionFiles) -> None:
        self._sessions = sessions
        self._files = files

    async def upload(self, request: CallRequest) -> Answer:
        """Store the body as a file of the session; if the connection breaks, nothing of it is kept."""
        query = request.query(FileQuery)
        name = self._sessions.name(request.call, request.who, request.session)
        media = said_media(request.http.header("content-type") or "")
        with self._files.taking(name) as intake:
            sandbox = await self._sessions.storage(name, request.watch)
            body = request.http.body
            file = await self._files.receive(name.internal, sandbox, intake, body, query.name, media)
        return request.shown(FileView(file.name, file.note.media_type, file.size))

    async def named(self, request: CallRequest, session: SessionName, names: tuple[str, ...]) -> PromptFiles:
        """Return the files of *session* that a prompt names; raise `UsageError` for one that is not there."""
        if not names:
            return NO_FILES
        most = request.limits.prompt_files
        if len(names) > most:
            raise UsageError("bad-body", request.call.name, "its `files`", f"are {len(names)}, and {most} are the most")
        try:
            sandbox = await self._sessions.storage(session, request.watch)
        except UnknownSession:
            if session.user != request.who.user or request.session:
                raise
            raise UsageError(
                "unknown-file", cut(names[0])
            ) from None  # there is no session yet: the prompt will open it
        except FilesNotTaken:
            raise UsageError("unknown-file", cut(names[0])) from None
        return PromptFiles(sandbox, await self._files.find(session.internal, sandbox, names))
