"""`play_case`: the session of one run of a case: its prompts, and the decisions about what is held."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, cast

import trio

from agentrail import SessionHandle, SessionSpec, Supervisor
from agentrail.errors import UsageError
from agentrail.evals.calls import RecordedCall, is_same_json
from agentrail.evals.cases import Case, CasePast
from agentrail.events import ApprovalRequired, AskUser
from agentrail.journals import Journal, MemoryJournal, Record, import_session
from agentrail.models import JsonObject

LABEL: Final = "evaluation"
"""Label of all sessions of experiments."""

OWNER: Final = "evals"
"""Who claims the session of a past while it is written."""

PAGE: Final = 1000
"""The most records that one call reads."""

NOBODY: Final = "nobody is there to decide: this is an evaluation"
"""Why a call is rejected, or what a question is answered by, for which the case has nothing."""


async def play_case(session: SessionHandle, case: Case) -> None:
    """Say the prompts of *case*, one turn after the other, and decide about held calls as people did then."""
    people = _People(case.recorded)
    for prompt in case.prompts:
        async with session.stream(prompt, until="end") as turn:
            async for event in turn:
                match event:
                    case ApprovalRequired() as approval:
                        await people.decide(session, approval)
                    case AskUser() as question:
                        await session.respond(question.ref, people.response())
                    case _:
                        pass


class _People:
    """Decides about held calls and answers questions as the people of a real session did."""

    def __init__(self, recorded: Iterable[RecordedCall]) -> None:
        recorded = tuple(recorded)
        self._decided = [call for call in recorded if call.decision]
        """The calls that were decided, and not yet again."""
        self._responses = [response for call in recorded for response in call.responses]
        """The answers to questions that were not yet given again."""

    async def decide(self, session: SessionHandle, approval: ApprovalRequired) -> None:
        """Approve or reject a held call as an equal one was; reject it if there was none."""
        for index, call in enumerate(self._decided):
            if call.name == approval.tool and is_same_json(call.args, approval.args):
                del self._decided[index]
                break
        else:
            call = RecordedCall(approval.tool, decision="rejected", reason=NOBODY)
        if call.decision == "approved":
            await session.approve(approval.approval_id, args=cast("JsonObject | None", call.edited))
        else:
            await session.reject(approval.approval_id, call.reason)

    def response(self) -> str:
        """Return the next recorded answer to a question."""
        return self._responses.pop(0) if self._responses else NOBODY


async def begin_session(
    supervisor: Supervisor, spec: SessionSpec, case: Case, past: str, session_id: str
) -> tuple[SessionHandle, tuple[str, ...]]:
    """Start the session of a run: a new one, or a fork of the case's past, which is stored as *past*.

    A new one is not started again if it crashes. Also return the keys of the plugins of the past that have a state and
    that *spec* lacks: these states are left out.
    """
    if case.past is None:
        return await supervisor.spawn(spec, session_id, restart="temporary", labels=[LABEL]), ()
    session = await supervisor.fork(past, spec, id=session_id, as_spec=True)
    await session.label(add=[LABEL])
    kept_keys = {attached.key for attached in session.inspect().plugins}
    old = await supervisor.state(past)
    states = zip(old.plugins, old.plugin_states, strict=True)
    return session, tuple(
        attached.key for attached, state in states if attached.key not in kept_keys and state is not None
    )


async def store_past(journal: Journal, case: Case, folder: Path, session_id: str) -> None:
    """Store what was before *case* in *journal* as the session *session_id*; no-op if an earlier experiment did."""
    if case.past is None or await journal.read(session_id, 0, 1):
        return
    records = await past_records(case.past, case, folder)
    claim = await journal.claim(session_id, OWNER)
    await journal.append(claim, 0, [_of_session(record, session_id) for record in records])
    await journal.release((claim,))


async def all_records(journal: Journal, session_id: str) -> list[Record]:
    """Return all records of a session; none if it is not stored."""
    records = list[Record]()
    while page := await journal.read(session_id, len(records), PAGE):
        records.extend(page)
    return records


async def past_records(past: CasePast, case: Case, folder: Path) -> list[Record]:
    """Return the records up to the one after which *case* begins; raise `UsageError` if they are not there."""
    path, journal = folder / past.file, MemoryJournal()
    if not await trio.Path(path).exists():
        raise UsageError("bad-case", case.name, f"its past is not there: {path}")
    records = await all_records(journal, await import_session(journal, path))
    if not 0 < past.record <= len(records):
        problem = f"its past begins after record {past.record}, and {path} has {len(records)}"
        raise UsageError("bad-case", case.name, problem)
    return records[: past.record]


def _of_session(record: Record, session_id: str) -> Record:
    """Return *record* as one of the session *session_id*."""
    opening = None if record.opening is None else record.opening.but(session_id=session_id)
    return record.but(session_id=session_id, opening=opening)
