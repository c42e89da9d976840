"""Calls about uploaded files, and the files that a prompt names."""

from __future__ import annotations

from agentrail.api.bodies import FileQuery
from agentrail.api.limits import PROMPT_FILES
from agentrail.api.public_ids import SessionName
from agentrail.api.views import FileView
from agentrail.errors import FilesNotTaken, UnknownSession, UsageError
from agentrail.errors.agentrail_error import cut
from agentrail.host.hosted_sessions import HostedSessions
from agentrail.host.operations.call import Answer, OperationCall, Upload
from agentrail.host.uploads.prompt_files import NO_FILES, PromptFiles
from agentrail.host.uploads.session_files import SessionFiles, said_media


class FileCalls:
    """Carries out the call `upload`, and finds files for others."""

    def __init__(self, sessions: HostedSessions, files: SessionFiles) -> None:
        self._sessions = sessions
        self._files = files

    async def upload(self, call: OperationCall) -> Answer:
        """Store the body as a file of the session; if the connection breaks, nothing of it is kept."""
        query = call.query(FileQuery)
        name = self._sessions.name(call.row, call.who, call.session)
        upload = call.body(Upload)
        media = said_media(upload.media_type)
        with self._files.taking(name) as intake:
            sandbox = await self._sessions.storage(name, call.watch)
            file = await self._files.receive(name.internal, sandbox, intake, upload.content, query.name, media)
        return call.view_answer(FileView(file.name, file.note.media_type, file.size))

    async def named(self, call: OperationCall, session: SessionName, names: tuple[str, ...]) -> PromptFiles:
        """Return the files of *session* that a prompt names; raise `UsageError` for one that is not there."""
        if not names:
            return NO_FILES
        most = PROMPT_FILES
        if len(names) > most:
            raise UsageError("bad-body", call.row.name, "its `files`", f"are {len(names)}, and {most} are the most")
        try:
            sandbox = await self._sessions.storage(session, call.watch)
        except UnknownSession:
            if session.user != call.who.user or call.session:
                raise
            raise UsageError(
                "unknown-file", cut(names[0])
            ) from None  # there is no session yet: the prompt will open it
        except FilesNotTaken:
            raise UsageError("unknown-file", cut(names[0])) from None
        return PromptFiles(sandbox, await self._files.find(session.internal, sandbox, names))
