"""`PermissionRequests`: asks the person at the editor about calls that wait, and takes back what others decide."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

import trio

from agentrail.api.protocols import AnySession
from agentrail.api.session_values import HeldCall
from agentrail.cli.acp.peer import Peer
from agentrail.cli.acp.protocol import ClientAbilities, Update, change_content, chunk, permission, text_content
from agentrail.cli.acp.rpc_messages import CANCELLED, RpcAnswer
from agentrail.cli.acp.updates import SessionUpdates, inner_id
from agentrail.cli.talk.file_changes import FileChanges
from agentrail.errors import AgentrailError, SessionNotAlive, SessionParked, UnknownApproval
from agentrail.tools.builtin.file_changes import FileChange, Unseen
from agentrail.values.json import EMPTY, Json, JsonObject

ALLOW: Final = "allow_once"
ALWAYS: Final = "allow_always"
REJECT: Final = "reject_once"

NOBODY: Final = "the person has not decided"
"""Why a call is rejected if the editor has taken the question away."""

NO_ANSWER: Final = "the person gave no answer"
"""What a tool gets that has asked a question."""

CANNOT_ASK: Final = "the editor could not ask the person"

NOT_DECIDED: Final = "The decision was not taken"
"""The title of the notice about a decision that was refused."""

WAITS_ON: Final = "The call still waits: decide about it in `agentrail chat` or on the page, or cancel the turn."
"""What follows about a call about which the editor is not asked any more."""

CHANGED: Final = "The file has changed since it was shown, so this is asked again."
"""What an editor is told whose decision was about a file as it is no more."""

MOST_REFUSED: Final = 2
"""How many decisions about a call may be refused before the editor is asked no more: one that decides by itself
would decide the same for ever."""

TOOL_CHANGED: Final = "tool-changed"
"""The code of the error if a call's tool was replaced while the call waited."""

Show: TypeAlias = Callable[[Update], Awaitable[None]]
"""Sends the editor an update."""


class PermissionRequests:
    """Asks the person at the editor about a session's held calls; withdraws requests that others have settled."""

    def __init__(
        self,
        session: AnySession,
        session_id: str,
        peer: Peer,
        updates: SessionUpdates,
        abilities: ClientAbilities,
        show: Show,
        changes: FileChanges,
    ) -> None:
        """Create it; *show* shows the editor an update, and *changes* tells what calls would change in files."""
        self.question: HeldCall | None = None
        """A question that the next prompt answers, since the editor has no form for it."""
        self._session = session
        self._session_id = session_id
        self._peer = peer
        self._updates = updates
        self._abilities = abilities
        self._show = show
        self._changes = changes
        self._request_ids: dict[str, int] = {}  # by call id: the id of the request about the call
        self._decided: set[str] = set()  # ids of calls that were decided here, or are no more asked about
        self._refused_counts: dict[str, int] = {}  # by call id: how many decisions about it were refused

    @property
    def is_waiting(self) -> bool:
        """Whether the person is asked about a call or a question."""
        return bool(self._request_ids) or self.question is not None

    async def withdraw_all(self) -> None:
        """Withdraw all open requests: this object follows the session no longer."""
        while self._request_ids:
            await self._peer.withdraw(self._request_ids.popitem()[1])

    async def look(self, waiting: Sequence[HeldCall], nursery: trio.Nursery) -> HeldCall | None:
        """Send requests about calls that are new in *waiting*; withdraw the requests about calls that are not in it.

        Return the question that the next prompt answers, if it is new.
        """
        ids = {call.id for call in waiting}
        for call_id in [call_id for call_id in self._request_ids if call_id not in ids]:
            await self._peer.withdraw(self._request_ids.pop(call_id))
        self._decided &= ids
        self._refused_counts = {call_id: count for call_id, count in self._refused_counts.items() if call_id in ids}
        if self.question is not None and self.question.id not in ids:
            self.question = None
        new_question = None
        for call in waiting:
            if (
                call.kind == "result"
                or call.id in self._request_ids
                or call.id in self._decided
                or call == self.question
            ):
                continue
            if call.kind == "question" and not call.options and not self._abilities.forms:
                self.question = new_question = self.question or call
            else:
                self._request_ids[call.id] = request_id = self._peer.new_id()
                nursery.start_soon(self._ask, call, request_id)
        return new_question

    async def _ask(self, call: HeldCall, request_id: int) -> None:
        change = await self._changes.of(call)
        if self._request_ids.get(call.id) != request_id:  # it was decided elsewhere meanwhile
            return
        if call.kind != "question":
            method, params = "session/request_permission", self._permission(call, change)
        elif self._abilities.forms:
            method, params = "elicitation/create", self._form(call)
        else:
            method, params = "session/request_permission", self._choice(call)
        answer = await self._peer.ask(request_id, method, {"sessionId": self._session_id, **params})
        if answer is None or self._request_ids.pop(call.id, None) is None:
            return
        self._decided.add(call.id)
        if chosen_option(answer) in {ALLOW, ALWAYS} and await self._changes.of(call) != change:
            await self._show(chunk("agent", f"changed {call.id} {request_id}", CHANGED))
            self._request_ids[call.id] = request_id = self._peer.new_id()
            self._decided.discard(call.id)
            await self._ask(call, request_id)
            return
        try:
            if call.kind == "question":
                await self._respond(call, answer)
            else:
                await self._decide(call, answer)
        except (UnknownApproval, SessionNotAlive, SessionParked):
            pass  # the call was decided elsewhere meanwhile, or the session has ended
        except AgentrailError as error:
            await self._refused(call, error)

    async def _refused(self, call: HeldCall, error: AgentrailError) -> None:
        """Tell why a decision was not taken, and ask once more, for the person may decide otherwise; then never again.

        Reject a call that nobody can approve any more, as its tool is another.
        """
        count = self._refused_counts[call.id] = self._refused_counts.get(call.id, 0) + 1
        why = str(error) if count < MOST_REFUSED else f"{error}. {WAITS_ON}"
        notice = self._updates.notice("error", NOT_DECIDED, why)
        await self._show(notice or chunk("agent", f"decision {call.id} {count}", f"{NOT_DECIDED}: {why}"))
        if count < MOST_REFUSED:
            self._decided.discard(call.id)
        if error.code == TOOL_CHANGED:
            with suppress(AgentrailError):  # as above, or the session has ended
                await self._session.reject(call.id, str(error), auto_resume=True)

    # What is asked

    def _permission(self, call: HeldCall, change: FileChange | Unseen | None) -> JsonObject:
        options = [permission_option(ALLOW, "Allow"), permission_option(REJECT, "Reject")]
        if call.family is not None:
            options.insert(1, permission_option(ALWAYS, f"Always allow {call.family}"))
        tool_call = dict(self._tool_call(call))
        if isinstance(change, FileChange):  # the whole file, so that the editor shows numbers and what is around
            tool_call["content"] = [text_content(call.hint), change_content(change)]
        elif change is not None:
            content = tool_call["content"]
            tool_call["content"] = [text_content(change), *(content if isinstance(content, list) else ())]
        return permission(tool_call, options)

    def _choice(self, call: HeldCall) -> JsonObject:
        options = [
            {"optionId": str(number), "name": option, "kind": ALLOW} for number, option in enumerate(call.options)
        ]
        return permission(self._tool_call(call), [*options, permission_option(REJECT, "None of these")])

    def _tool_call(self, call: HeldCall) -> JsonObject:
        fields = dict(self._updates.call_fields(inner_id(call.path, call.call_id), call.tool, call.args))
        content = fields.get("content", ())
        fields["content"] = [text_content(call.hint), *(content if isinstance(content, list) else ())]
        return fields

    def _form(self, call: HeldCall) -> JsonObject:
        answer: dict[str, Json] = {"type": "string", "title": call.hint}
        if call.options:
            answer["enum"] = list(call.options)
        schema: JsonObject = {"type": "object", "properties": {"answer": answer}, "required": ["answer"]}
        tool_call_id = inner_id(call.path, call.call_id)
        return {"mode": "form", "message": call.hint, "toolCallId": tool_call_id, "requestedSchema": schema}

    # What is answered

    async def _decide(self, call: HeldCall, answer: RpcAnswer) -> None:
        match chosen_option(answer):
            case "allow_once":
                await self._session.approve(call)
            case "allow_always" if call.family is not None:
                await self._session.approve(call, always=True)
            case "reject_once":
                await self._session.reject(call, auto_resume=True)
            case _ if self._updates.is_cancelled or _was_cancelled(answer):  # the turn ends, or the editor leaves
                return
            case _:
                reason = NOBODY if answer.error is None else f"{CANNOT_ASK}: {answer.error.get('message', '')}"
                await self._session.reject(call, reason, auto_resume=True)

    async def _respond(self, call: HeldCall, answer: RpcAnswer) -> None:
        if self._updates.is_cancelled or _was_cancelled(answer):
            return
        text = _form_answer(answer) if self._abilities.forms else _option_answer(call, answer)
        self._updates.expect(text)
        await self._session.respond(call.id, text)


def permission_option(kind: str, name: str) -> JsonObject:
    """Return an answer that the person may choose, of one of the protocol's kinds."""
    return {"optionId": kind, "name": name, "kind": kind}


def _was_cancelled(answer: RpcAnswer) -> bool:
    return answer.error is not None and answer.error.get("code") == CANCELLED


def _result(answer: RpcAnswer) -> JsonObject:
    return answer.result if isinstance(answer.result, Mapping) else EMPTY


def chosen_option(answer: RpcAnswer) -> Json:
    """Return the id of the option that the person chose; `None` if the answer names none."""
    outcome = _result(answer).get("outcome")
    if not isinstance(outcome, Mapping) or outcome.get("outcome") != "selected":
        return None
    return outcome.get("optionId")


def _option_answer(call: HeldCall, answer: RpcAnswer) -> str:
    chosen = chosen_option(answer)
    by_id = {str(number): option for number, option in enumerate(call.options)}
    return by_id.get(chosen, NO_ANSWER) if isinstance(chosen, str) else NO_ANSWER


def _form_answer(answer: RpcAnswer) -> str:
    content = _result(answer).get("content")
    text = content.get("answer") if isinstance(content, Mapping) else None
    return text if isinstance(text, str) and _result(answer).get("action") == "accept" else NO_ANSWER
