"""`play_case`: the session of one run of a case: its prompts, and the decisions about what is held."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from agentrail import SessionHandle, SessionSpec, Supervisor
from agentrail.evals.cases import Case, RecordedCall, is_same_json
from agentrail.events import ApprovalRequired, AskUser

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
            await session.approve(approval.approval_id)
        else:
            await session.reject(approval.approval_id, call.reason)

    def response(self) -> str:
        """Return the next recorded answer to a question."""
        return self._responses.pop(0) if self._responses else NOBODY


async def begin_session(supervisor: Supervisor, spec: SessionSpec, session_id: str, label: str) -> SessionHandle:
    """Start the session of a run, which is not started again if it crashes."""
    return await supervisor.spawn(spec, session_id, restart="temporary", labels=[label])
