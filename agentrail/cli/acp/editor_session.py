"""`EditorSession`: a session that an editor has open; what it sends goes there in order, what happens comes back."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple, TypeAlias

import trio

from agentrail.api.session_values import Status
from agentrail.cli.acp.params import objects_in, text_in, text_or_none
from agentrail.cli.acp.peer import Peer
from agentrail.cli.acp.permissions import PermissionRequests
from agentrail.cli.acp.prompt_content import parts_of, words_of
from agentrail.cli.acp.protocol import ClientAbilities, Update, chunk
from agentrail.cli.acp.rpc_failures import FAILURES, error_of
from agentrail.cli.acp.rpc_messages import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    NOT_FOUND,
    RpcError,
    RpcId,
    RpcRequest,
)
from agentrail.cli.acp.server_requests import NamedServers, ServerRequests
from agentrail.cli.acp.session_config import MODE, SessionConfig
from agentrail.cli.acp.turn_outcomes import STOPPED, TurnOutcome
from agentrail.cli.acp.updates import SessionUpdates, inner_id
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.output.screen import clipped, one_line
from agentrail.cli.talk.console_commands import mode_labelled, set_mode
from agentrail.cli.talk.server_prompts import ServerPrompts
from agentrail.cli.talk.skill_list import offered_skills, skills_of
from agentrail.core.vocabulary.commands import When
from agentrail.errors import AgentrailError, SessionNotAlive, SessionParked
from agentrail.remote.remote_session import RemoteSession
from agentrail.values import events as e
from agentrail.values.content import Part, text_of
from agentrail.values.json import Json, JsonObject
from agentrail.values.tools import err, ok

TITLE: Final = 60
"""The most characters of the title that a session gets from its first prompt."""

CLOSING: Final = 10.0
"""The most seconds to wait for the end of a turn when its session is closed."""

COMPACT: Final = "/compact"

COMMANDS: Final[Sequence[Json]] = [
    {
        "name": COMPACT.removeprefix("/"),
        "description": "shorten the conversation that the model gets",
        "input": {"hint": "why"},
    }
]
"""The slash commands that a person may type in the editor."""

LOOKED_AT: Final = (
    e.AgentResumed,
    e.ApprovalRequired,
    e.ApprovalResolved,
    e.AskUser,
    e.ResultRequired,
    e.UserResponded,
)
"""Events after which other calls may wait for a person."""

NOT_REPLAYED: Final = ("notice", "compaction_update")
"""Updates about what went on then."""

CLOSED: Final = "the session is closed here; load or resume it"
ENDED: Final = "the session has ended"

log = logging.getLogger("agentrail.acp")

NOT_USED: Final = "MCP server not used"

RECEIVED: Final = "received"
"""News of a prompt: it is part of the conversation now."""

PromptNews: TypeAlias = str | TurnOutcome | RpcError
"""What has become of a prompt: `RECEIVED`, how its turn ended, or why there was none."""

Job: TypeAlias = Callable[[], Awaitable[None]]


class SessionBeginning(NamedTuple):
    """Facts about a session at the moment when it is opened."""

    config: SessionConfig
    """What is chosen for it."""
    has_title: bool = False
    """Whether it has a title; if not, it gets one from the first prompt."""
    named: NamedServers = NamedServers()
    """The MCP servers that the editor names for it."""


class Opening(NamedTuple):
    """How to open a session: the request to answer, and where a replay begins."""

    request_id: RpcId
    prepare: Callable[[], Awaitable[SessionBeginning]]
    """Returns the beginning, or raises why the session cannot be opened."""
    is_new: bool = False
    since: int | None = None
    """Place in the events after which they are told again; `None`: only what is new is told."""


class PendingPrompt:
    """A prompt request of the editor that was not answered yet."""

    def __init__(self, request_id: RpcId) -> None:
        self.request_id = request_id
        self.ref: str | None = None
        """Id of the prompt in the session; `None` before it is known; empty if it answers a question of the turn."""
        self.is_cancelled = False
        self.has_started = False


class EditorSession:
    """One session that the editor has open: carries out its requests in order, and sends it the session's events."""

    def __init__(
        self,
        session: RemoteSession,
        session_id: str,
        updates: SessionUpdates,
        peer: Peer,
        abilities: ClientAbilities,
        servers: ServerRequests,
    ) -> None:
        """Create it; *session_id* is the id that the editor uses for the session."""
        self.id = session_id
        self._session = session
        self._updates = updates
        self._peer = peer
        self._requests = PermissionRequests(
            session, session_id, peer, updates, abilities, self._update, updates.changes
        )
        self._servers = servers
        self._config = SessionConfig(None, "", ())
        self._has_title = True
        self._has_opened = False
        self._is_closed = False
        self._ending: RpcError | None = None  # set when the session is no longer followed
        self._in_hand: RpcRequest | None = None  # the request that is being carried out, if it is not a prompt
        self._is_replaying = False
        self._seq = 0
        self._server_prompts = ServerPrompts()
        self._prompts: list[PendingPrompt] = []
        self._unclaimed: dict[str, list[PromptNews]] = {}  # by ref: news that may be of the prompt being sent
        self._scope = trio.CancelScope()
        self._turn_ended = trio.Event()
        self._has_ended = trio.Event()
        # Jobs run in one task, in the order in which the editor sent their requests.
        self._to_do, self._jobs = trio.open_memory_channel[Job](math.inf)  # noqa: TID251 - to one task of its own

    # Called for messages of the editor; these methods return at once

    def handle(self, request: RpcRequest) -> None:
        """Queue a request to run after earlier ones; raise `RpcError` if it is invalid or the session is closed."""
        if self._is_closed:
            raise RpcError(NOT_FOUND, CLOSED, {"sessionId": self.id})
        match request.method:
            case "session/prompt":
                pending = PendingPrompt(request.id)
                blocks = objects_in(request.params, "prompt")
                parts_of(blocks)
                self._prompts.append(pending)
                self._post(partial(self._prompt, pending, blocks))
            case "session/set_mode":
                self._post(partial(self._answer, request, self._set_mode))
            case "session/set_config_option":
                self._post(partial(self._answer, request, self._set_option))
            case "session/close":
                self.cancel()
                self._is_closed = True
                self._post(partial(self._close, request))
            case "_agentrail/steer":
                self._post(partial(self._answer, request, self._steer))
            case "_agentrail/result":
                self._post(partial(self._answer, request, self._result))
            case method:
                raise RpcError(METHOD_NOT_FOUND, f"there is no method {method!r}")

    def cancel(self) -> None:
        """Stop the open turn and all prompts that were sent so far. Prompts that are sent later are not affected."""
        prompts = list(self._prompts)
        for pending in prompts:
            pending.is_cancelled = True
        self._servers.cancel()
        was_open = self._updates.cancel()
        if was_open or prompts:
            self._post(partial(self._abort, prompts, self._updates.turn_ref if was_open else None))

    def cancel_request(self, request_id: RpcId) -> bool:
        """Cancel the prompt with this request id; return whether this session has such a prompt."""
        for pending in self._prompts:
            if pending.request_id == request_id:
                pending.is_cancelled = True
                is_open = pending.has_started and self._updates.cancel()
                self._post(partial(self._abort, [pending], self._updates.turn_ref if is_open else None))
                return True
        return False

    @property
    def has_prompts(self) -> bool:
        """Whether there are prompt requests of the editor that were not answered yet."""
        return bool(self._prompts)

    async def leave(self) -> None:
        """Stop following the session, after all queued requests were carried out. The session itself continues."""
        self._is_closed = True
        self._servers.cancel()
        self._post(self._depart)
        await self._has_ended.wait()

    async def _depart(self) -> None:
        await self._requests.withdraw_all()
        self._scope.cancel()

    def _post(self, job: Job) -> None:
        with suppress(trio.BrokenResourceError):  # the session has ended, and all of its requests have been answered
            self._to_do.send_nowait(job)

    # The life of it

    async def run(self, opening: Opening, task_status: trio.TaskStatus[None]) -> None:
        """Open the session, answer the opening request, and follow the session until it ends or the editor leaves it.

        It has started when the request is answered.
        """
        problem: RpcError | None = RpcError(NOT_FOUND, CLOSED, {"sessionId": self.id})
        with self._jobs:
            with self._scope:
                async with trio.open_nursery() as nursery:  # noqa: TID251 - the command line has its own tasks
                    problem = await self._follow(opening, nursery, task_status)
                    nursery.cancel_scope.cancel()
            self._ending = problem or RpcError(INTERNAL_ERROR, ENDED)
            if not self._has_opened:
                await self._peer.refuse(opening.request_id, self._ending)
                task_status.started()
            if self._in_hand is not None:  # the end of the session cut this request off
                await self._peer.refuse(self._in_hand.id, self._ending)
            for pending in list(self._prompts):
                await self._tell(pending, self._ending)
            with suppress(trio.WouldBlock):
                while True:  # refuse the queued requests: with `_ending` set, each job answers with that error
                    await self._jobs.receive_nowait()()
        self._has_ended.set()

    async def _follow(
        self, opening: Opening, nursery: trio.Nursery, task_status: trio.TaskStatus[None]
    ) -> RpcError | None:
        """Follow the session; return the error that ended this, or `None` if the session has ended."""
        try:
            self._config, self._has_title, named = await opening.prepare()
            self._servers.take(named.servers)
            end = 0
            if opening.since is not None:
                async with self._session.subscribe() as live:
                    end = live.cursor.seq
            async with self._session.subscribe(opening.since) as events:
                if opening.since is not None and end > opening.since:
                    await self._replay(events, end)
                await self._welcome(opening)
                await self._tell_unused(named.problems)
                task_status.started()
                nursery.start_soon(self._work)
                await self._look(nursery)
                async for envelope in events:
                    await self._hear(envelope, nursery)
        except FAILURES as error:
            return error_of(error, self.id)
        return None

    async def _replay(self, events: AsyncIterator[e.Envelope], end: int) -> None:
        """Send the updates for past events up to number *end*; they come before the answer, as they are not new."""
        self._is_replaying = True
        fullness: Update | None = None
        async for envelope in events:
            self._seq = envelope.seq
            for update in self._updates.of(envelope):
                if update["sessionUpdate"] == "usage_update":
                    fullness = update
                elif update["sessionUpdate"] not in NOT_REPLAYED:
                    await self._update(update)
            if envelope.seq >= end:
                break
        await self._update(fullness)
        self._is_replaying = False

    async def _welcome(self, opening: Opening) -> None:
        """Answer the request that opened the session.

        Unless the session is new, its commands are sent before the answer, after which comes only what is new.
        """
        status = await self._status()
        if status is not None:
            self._updates.begin(status)
            self._config = self._config.using(status.model)
        with suppress(AgentrailError):
            self._server_prompts.add((await self._session.detail()).tools)
        fields = dict(self._config.fields())
        if opening.is_new:
            fields["sessionId"] = self.id
        if not opening.is_new:
            await self._offer_commands()
        self._has_opened = True
        await self._peer.answer(opening.request_id, fields)
        if opening.is_new:  # whose id the editor has from the answer
            await self._offer_commands()

    async def _offer_commands(self) -> None:
        """Send the editor the slash commands: our own, those of skills, and the prompts of MCP servers."""
        prompts: list[Json] = [
            {"name": name.removeprefix("/"), "description": purpose, "input": {"hint": "arguments"}}
            for name, purpose in self._server_prompts.commands
        ]
        commands = [*COMMANDS, *await self._skill_commands(), *prompts]
        await self._update({"sessionUpdate": "available_commands_update", "availableCommands": commands})

    async def _skill_commands(self) -> Sequence[Json]:
        """Return the skills that the person may begin; what they type is a prompt, and the model reads the skill."""
        with suppress(AgentrailError, BadInputError, OSError):
            skills = await skills_of((await self._session.detail()).agent)
            return [
                {"name": name.removeprefix("/"), "description": about, "input": {"hint": "arguments"}}
                for name, about in offered_skills(skills, {COMPACT})
            ]
        return []

    async def _tell_unused(self, problems: Sequence[str]) -> None:
        """Tell the editor, and the log, which MCP servers are not used, and why."""
        for problem in problems:
            log.warning("%s: %s", NOT_USED, problem)
            await self._update(self._updates.notice("warning", NOT_USED, problem))

    async def _work(self) -> None:
        """Run the queued jobs, one after the other."""
        async for job in self._jobs:
            await job()

    # From the session

    async def _show(self, envelope: e.Envelope) -> None:
        self._seq = envelope.seq
        for update in self._updates.of(envelope):
            await self._update(update)
        if self._server_prompts.note(envelope.event) and self._has_opened:
            await self._offer_commands()

    async def _update(self, update: Update | None) -> None:
        if update is None:
            return
        meta: dict[str, Json] = {"seq": self._seq}
        if self._is_replaying:
            meta["replay"] = True
        params: JsonObject = {"sessionId": self.id, "update": update, "_meta": {"agentrail": meta}}
        await self._peer.tell("session/update", params)

    async def _hear(self, envelope: e.Envelope, nursery: trio.Nursery) -> None:
        await self._show(envelope)
        event = envelope.event
        for ref, news in _news_of(event, self._updates.outcome):
            await self._report(ref, news)
        match event:
            case e.AgentEnd() | e.AgentAbort():
                self._turn_ended.set()
                self._turn_ended = trio.Event()
            case e.LabelsChanged(labels=labels):
                mode = mode_labelled(labels)
                if mode is not None and mode in self._config.modes:
                    await self._reconfigure(self._config._replace(mode=mode))
            case e.ModelSwitched(to=model, reason=None):
                await self._reconfigure(self._config.using(model))
            case _:
                pass
        if isinstance(event, LOOKED_AT) or (isinstance(event, e.ToolExecutionEnd) and self._requests.is_waiting):
            await self._look(nursery)
        elif isinstance(event, e.AgentEnd | e.AgentAbort) and self._requests.is_waiting:
            await self._requests.look((), nursery)

    async def _look(self, nursery: trio.Nursery) -> None:
        """Ask the person about the calls that are held now."""
        status = await self._status()
        waiting = () if status is None else status.held
        question = await self._requests.look(waiting, nursery)
        if question is not None:
            await self._put_question(question.id, question.hint)

    async def _put_question(self, question_id: str, text: str) -> None:
        """Show the question, and end open prompts so that the editor can send one: the next is the answer."""
        await self._update(chunk("agent", f"question {question_id}", text))
        for pending in [prompt for prompt in self._prompts if prompt.has_started or prompt.ref == ""]:
            await self._tell(pending, TurnOutcome("end_turn"))

    async def _status(self) -> Status | None:
        """Return the session's status; `None` if it does not run now. A prompt would start it again."""
        try:
            return await self._session.status()
        except (SessionNotAlive, SessionParked):
            return None

    async def _reconfigure(self, config: SessionConfig) -> None:
        """Store *config*, and send the editor the mode and options if they differ from those that it has."""
        if config == self._config:
            return
        has_other_mode, self._config = config.mode != self._config.mode, config
        if has_other_mode:
            await self._update({"sessionUpdate": "current_mode_update", "currentModeId": config.mode})
        await self._update({"sessionUpdate": "config_option_update", "configOptions": config.options()})

    # Prompts

    async def _prompt(self, pending: PendingPrompt, blocks: tuple[JsonObject, ...]) -> None:
        if pending not in self._prompts:  # the session could not be opened
            return
        text = text_of(parts_of(blocks))
        try:
            if not pending.is_cancelled:
                await self._tell_unused(await self._servers.begin(self._update))
            if pending.is_cancelled:
                await self._tell(pending, TurnOutcome(STOPPED))
                return
            if text.split(" ", 1)[0] == COMPACT:
                await self._compact(pending, text.removeprefix(COMPACT).strip())
                return
            pending.ref = await self._send(text, parts_of(blocks))
        except FAILURES as error:
            self._updates.expect_no_more(text)
            await self._tell(pending, error_of(error, self.id))
            return
        for news in self._unclaimed.pop(pending.ref, ()):
            await self._tell(pending, news)
        self._unclaimed.clear()
        await self._name(words_of(blocks))

    async def _send(self, text: str, parts: str | tuple[Part, ...]) -> str:
        """Send a prompt, or the answer to a question; return the ref by which its news will come.

        The news of an answer is the end of the turn, whose ref is empty if it is not known.
        """
        question = self._requests.question
        words = self._server_prompts.words(text) if question is None else None
        if words is not None:
            text = parts = words
        self._updates.expect(text)
        if question is None:
            return (await self._session.prompt(parts)).ref
        self._requests.question = None
        await self._session.respond(question.id, text)
        return self._updates.turn_ref

    async def _name(self, text: str) -> None:
        """Set the session's title from *text*, the words of the first prompt that has some, if it has no title yet."""
        if text and not self._has_title:
            self._has_title = True
            with suppress(AgentrailError):
                await self._session.label(title=clipped(one_line(text), TITLE))

    async def _compact(self, pending: PendingPrompt, reason: str) -> None:
        """Carry out the command `/compact`, which the editor sees as a prompt."""
        await self._session.compact(reason or None)
        pending.ref = f"compact {pending.request_id}"
        await self._tell(pending, TurnOutcome("end_turn"))

    async def _report(self, ref: str, news: PromptNews) -> None:
        """Pass *news* to the editor's prompt with this *ref*.

        Keep them if a prompt is being sent, whose ref may be this.
        """
        for pending in list(self._prompts):
            answers_turn = pending.ref == "" and isinstance(news, TurnOutcome)
            if pending.ref == ref or answers_turn:
                await self._tell(pending, news)
                return
        if any(pending.ref is None for pending in self._prompts):
            self._unclaimed.setdefault(ref, []).append(news)

    async def _tell(self, pending: PendingPrompt, news: PromptNews) -> None:
        """Answer a prompt request with *news*, unless they only say that its turn has begun.

        No-op if it was answered before.
        """
        if pending not in self._prompts:
            return
        if isinstance(news, str):
            pending.has_started = True
            return
        self._prompts.remove(pending)
        outcome = TurnOutcome("error", news) if isinstance(news, RpcError) else news
        if pending.is_cancelled:
            await self._peer.answer(pending.request_id, {"stopReason": STOPPED})
        elif outcome.problem is None:
            await self._peer.answer(pending.request_id, {"stopReason": outcome.stop_reason})
        elif outcome.stop_reason == "error":
            await self._peer.refuse(pending.request_id, outcome.problem)
        else:
            await self._update(chunk("agent", f"refusal {pending.ref}", outcome.problem.message))
            await self._peer.answer(pending.request_id, {"stopReason": outcome.stop_reason})

    async def _abort(self, prompts: list[PendingPrompt], open_turn: str | None) -> None:
        """Withdraw the *prompts* that are queued; abort the turns that the others have started, and *open_turn*.

        That is the turn which was open when the editor cancelled: empty if its prompt is not known, `None` for none. Of
        a turn that another client has begun since then, nothing is stopped.
        """
        if self._ending is not None:
            return
        turns = [] if open_turn is None else [open_turn]
        for pending in prompts:
            if pending.has_started:
                turns.append(pending.ref or open_turn or "")
            elif pending.ref:
                try:
                    await self._session.withdraw(pending.ref)
                except AgentrailError:  # its turn has begun
                    turns.append(pending.ref)
        for turn in dict.fromkeys(turns):
            with suppress(AgentrailError):  # the session has ended
                await self._session.abort(turn=turn or None)

    # Other requests

    async def _answer(self, request: RpcRequest, carry_out: Callable[[JsonObject], Awaitable[JsonObject]]) -> None:
        self._in_hand = request
        try:
            if self._ending is not None:
                raise self._ending
            result = await carry_out(request.params)
        except FAILURES as error:
            await self._peer.refuse(request.id, error_of(error, self.id))
        else:
            await self._peer.answer(request.id, result)
        self._in_hand = None

    async def _set_mode(self, params: JsonObject) -> JsonObject:
        mode = self._config.mode_named(text_in(params, "modeId"))
        await set_mode(self._session, mode)
        await self._reconfigure(self._config._replace(mode=mode))
        return {}

    async def _set_option(self, params: JsonObject) -> JsonObject:
        option, value = text_in(params, "configId"), text_in(params, "value")
        if option == MODE:
            mode = self._config.mode_named(value)
            await set_mode(self._session, mode)
            await self._reconfigure(self._config._replace(mode=mode))
        else:
            await self._session.switch_model(self._config.model_named(value))
            await self._reconfigure(self._config.using(value))
        return {"configOptions": self._config.options()}

    async def _result(self, params: JsonObject) -> JsonObject:
        """Give a call that the editor makes itself its result."""
        call_id, text = text_in(params, "toolCallId"), text_in(params, "text")
        held_calls = (await self._session.status()).held
        refs = {inner_id(call.path, call.call_id): call.id for call in held_calls if call.kind == "result"}
        await self._session.result(refs.get(call_id, call_id), err(text) if params.get("isError") is True else ok(text))
        return {}

    async def _steer(self, params: JsonObject) -> JsonObject:
        text = text_in(params, "text")
        when: When = "now" if text_or_none(params, "when") == "now" else "gap"
        self._updates.expect(text)
        try:
            return {"ref": (await self._session.steer(text, when=when)).ref}
        except AgentrailError:
            self._updates.expect_no_more(text)
            raise

    async def _close(self, request: RpcRequest) -> None:
        """Wait until the aborted turn has ended, answer the request, and stop following the session."""
        with trio.move_on_after(CLOSING):
            while self._updates.turn_open and self._ending is None:
                await self._turn_ended.wait()
        await self._requests.withdraw_all()
        for pending in list(self._prompts):
            await self._tell(pending, TurnOutcome(STOPPED))
        await self._peer.answer(request.id, {})
        self._scope.cancel()


def _news_of(event: e.Event, outcome: TurnOutcome | None) -> tuple[tuple[str, PromptNews], ...]:
    """Return the refs of prompts with the news in *event* of each; *outcome* is that of the turn, if it has ended."""
    match event:
        case e.PromptReceived(ref=ref):
            return ((ref, RECEIVED),)
        case e.AgentEnd(ref=ref) | e.AgentAbort(ref=str(ref)) if outcome is not None:
            return ((ref, outcome),)
        case e.PromptDropped(ref=ref) | e.PromptWithdrawn(ref=ref) | e.PromptRejected(ref=ref, plugin=None):
            return ((ref, TurnOutcome(STOPPED)),)
        case e.PromptRejected(ref=ref, reason=reason, plugin=plugin):
            problem = RpcError(INTERNAL_ERROR, f"the prompt was refused by {plugin}: {reason}", {"plugin": plugin})
            return ((ref, TurnOutcome("refusal", problem)),)
        case _:
            return ()
