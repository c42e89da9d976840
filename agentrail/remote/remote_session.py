"""`RemoteSession`: the handle of a session that runs at a host, with the methods of a local one."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, Never, TypeAlias, TypeVar, cast, overload

from agentrail.core.vocabulary import commands as sent
from agentrail.core.vocabulary.commands import Accepted
from agentrail.core.vocabulary.state import Prompt
from agentrail.errors import AnswerUnfit, BadChoice, NoAnswer, SessionParked, WrongType
from agentrail.hooks.live_hook_runner import why_refused
from agentrail.hooks.plugin import AnyPlugin, Attachable
from agentrail.ports.handles.command_checks import check_fields, kept_parts, key_of
from agentrail.ports.handles.session_values import Reply, Status
from agentrail.ports.model import ModelChain
from agentrail.ports.tool import Task
from agentrail.remote.decoding import answer_of, value_of
from agentrail.remote.remote_events import RemoteMonitor, RemoteSubscription, events_of
from agentrail.remote.transport.host_connection import Line, given, texts_of
from agentrail.remote.unsupported import OF_SESSIONS, missing
from agentrail.reprs import in_brackets
from agentrail.tools.answer_forms import form_of
from agentrail.values.content import Part
from agentrail.values.events.envelope import Cursor, Event
from agentrail.values.events.policies import Policy
from agentrail.values.json import Json, JsonObject, freeze_object
from agentrail.values.messages import Message
from agentrail.values.tools import Err, Ok
from agentrail.wire.views import (
    AcceptedView,
    DetailView,
    MessagesView,
    OfferedView,
    OpenedView,
    QueueView,
    TaskResultsView,
    TaskResultView,
    TasksView,
    WholeReplyView,
    to_json,
)

Said: TypeAlias = str | Iterable[Part]
Offer: TypeAlias = Literal["models", "tools", "plugins"]
T = TypeVar("T")

PARKED: Final = "session `{0}` is stored at its host, and does not run now; prompt it, which brings it back"
NAMES: Final = "names that its host has registered: "


class RemoteSession:
    """Handle of a session of a host. A command returns when it is accepted and journaled there, or raises why not.

    What a local handle answers at once (`status`, `messages`, `queued`, `tasks`) is awaited here. Tools, plugins and
    models are given by the names under which the host knows them.
    """

    __slots__ = ("_line", "id")

    def __init__(self, line: Line, id: str) -> None:  # noqa: A002 - what users call it
        self._line = line
        self.id: Final = id
        """The session's id, as its host shows it to this user."""

    @in_brackets
    def __repr__(self) -> str:
        return f"{self.id!r} at {str(self._line.address)!r}"

    if not TYPE_CHECKING:  # for checkers of types, what is not there is not there

        def __getattr__(self, name: str) -> Never:
            """Raise `NotAtHost` for what only local ones can."""
            missing(type(self), name, OF_SESSIONS)

    async def _do(self, call: str, command: str | None, **body: Json) -> Json:
        """Have the host carry out a call with a *body*; fields that are `None` are not sent."""
        return await self._line.call(call, session=self.id, body=given(**body), command=command)

    async def _see(self, call: str, shown: type[T], **query: Json) -> T:
        return answer_of(shown, await self._line.call(call, session=self.id, query=query or None))

    # Talking

    async def prompt(
        self, text: Said, *, returns: type[object] | Mapping[str, Json] | None = None, command: str | None = None
    ) -> Accepted:
        """Send a prompt: it starts a turn, or is queued; `ask` with the same arguments gives the reply at any time."""
        form = None if returns is None else form_of(returns).schema
        found = await self._do("prompt", command, message=_said(text), returns=form)
        return value_of(Accepted, answer_of(AcceptedView, found))

    @overload
    async def ask(self, text: Said, *, returns: None = None, command: str | None = None) -> Reply: ...

    @overload
    async def ask(self, text: Said, *, returns: type[T], command: str | None = None) -> T: ...

    @overload
    async def ask(self, text: Said, *, returns: Mapping[str, Json], command: str | None = None) -> JsonObject: ...

    async def ask(self, text: Said, *, returns: object = None, command: str | None = None) -> object:
        """Send a prompt and return how its turn ended; with *returns*, a class or a JSON Schema, such an object.

        A class travels as its schema, and its object is made here: if the class refuses the answer, `AnswerUnfit` is
        raised, and the model is not asked again.
        """
        form = None if returns is None else form_of(returns)
        found = await self._do("ask", command, message=_said(text), returns=None if form is None else form.schema)
        reply = value_of(Reply, answer_of(WholeReplyView, found))
        if form is None:
            return reply
        if reply.answer is None:
            raise NoAnswer(reply.ref, reply.stop_reason)
        try:
            return form.read(reply.answer)
        except Exception as why:
            raise AnswerUnfit(reply.ref, why_refused(why)) from why

    async def steer(self, text: str, *, when: Literal["gap", "now"] = "gap", command: str | None = None) -> Accepted:
        """Send a text for the open turn's next request; stops tools unless immune, and with `when="now"` a response."""
        if when not in sent.WHENS:
            raise BadChoice.among("when", when, sent.WHENS)
        check_fields(sent.SteerSent(text, when), command)
        return value_of(Accepted, answer_of(AcceptedView, await self._do("steer", command, text=text, when=when)))

    async def abort(
        self,
        reason: str | None = None,
        *,
        kill_tools: Literal["none", "killable", "all"] = "killable",
        clear_queue: bool = False,
        command: str | None = None,
    ) -> None:
        """Stop the session's work at once; return when that is journaled, or at once if the journal cannot write."""
        if kill_tools not in sent.KILLS:
            raise BadChoice.among("kill_tools", kill_tools, sent.KILLS)
        check_fields(sent.AbortSent(reason, kill_tools, clear_queue), command)
        await self._do("abort", command, reason=reason, kill_tools=kill_tools, clear_queue=clear_queue)

    async def stop(self, reason: str = "stopped", *, command: str | None = None) -> None:
        """End the session for good; return when it has ended."""
        check_fields(sent.StopSent(reason), command)
        await self._do("stop", command, reason=reason)

    async def compact(self, reason: str | None = None, *, command: str | None = None) -> None:
        """Shorten the context: at once if no turn is open, else before the next request."""
        check_fields(sent.CompactSent(reason), command)
        await self._do("compact", command, reason=reason)

    # Deciding

    async def approve(
        self,
        approval_id: str,
        args: Mapping[str, Json] | None = None,
        *,
        always: bool = False,
        auto_resume: bool = True,
        command: str | None = None,
    ) -> None:
        """Let a held call run, with edited *args* if given; *always*: later calls of its family pass too.

        With `SESSION:CALL` of a stopped call, end the doubt about it: it does not run, and an equal one is not held.
        """
        edited = None if args is None else freeze_object(args)
        check_fields(sent.ApproveSent(approval_id, edited, always, auto_resume), command)
        await self._do("approve", command, approval=approval_id, args=edited, always=always, auto_resume=auto_resume)

    async def reject(
        self, approval_id: str, reason: str | None = None, *, auto_resume: bool = False, command: str | None = None
    ) -> None:
        """Reject a held call: it gets an error result with the *reason*."""
        check_fields(sent.RejectSent(approval_id, reason, auto_resume), command)
        await self._do("reject", command, approval=approval_id, reason=reason, auto_resume=auto_resume)

    async def respond(self, ref: str, answer: str, *, command: str | None = None) -> None:
        """Answer a question that a tool asked."""
        check_fields(sent.RespondSent(ref, answer), command)
        await self._do("respond", command, ref=ref, answer=answer)

    # Changing

    async def switch_model(self, model: ModelChain, *, command: str | None = None, **provider_options: Json) -> None:
        """Use another model from the next turn on, or several by name: the others in the place of one that fails."""
        given: object = model
        is_many = isinstance(given, Sequence) and not isinstance(given, str)
        links = cast("Sequence[object]", given) if is_many else (given,)
        names = await self._names("models", "model", *links)
        options = freeze_object(provider_options)
        await self._do("switch_model", command, model=list(names) if is_many else names[0], options=options)

    async def attach_tools(self, *tools: object, command: str | None = None) -> None:
        """Add tools by their names at the host, all or none."""
        await self._change_tools("attach", await self._names("tools", "tools", *tools), command)

    async def detach_tools(self, *names: str, command: str | None = None) -> None:
        """Remove tools, all or none; the name of a source removes all its tools and ends it."""
        await self._change_tools("detach", names, command)

    async def replace_tools(self, *tools: object, command: str | None = None) -> None:
        """Add tools, by their names at the host, in place of those with the same names."""
        await self._change_tools("replace", await self._names("tools", "tools", *tools), command)

    async def _change_tools(self, do: str, names: Sequence[str], command: str | None) -> None:
        await self._do("change_tools", command, do=do, tools=list(names))

    async def update_plugin(
        self, plugin: str | type[AnyPlugin], /, *, command: str | None = None, pin: bool = False, **options: object
    ) -> None:
        """Change options of a plugin as soon as no turn is open; with *pin* they survive changes of the code."""
        changes = freeze_object(options)
        await self._do("change_plugins", command, do="update", plugin=key_of(plugin), options=changes, pin=pin)

    async def attach_plugin(self, plugin: Attachable | str, *, command: str | None = None) -> None:
        """Add a plugin, by its key at the host, as soon as no turn is open."""
        (name,) = await self._names("plugins", "plugin", plugin)
        await self._do("change_plugins", command, do="attach", plugin=name)

    async def detach_plugin(self, plugin: str | type[AnyPlugin], *, command: str | None = None) -> None:
        """Remove a plugin as soon as no turn is open."""
        await self._do("change_plugins", command, do="detach", plugin=key_of(plugin))

    async def _names(self, offer: Offer, argument: str, *given: object) -> tuple[str, ...]:
        """Return the names *given*; raise `WrongType`, which tells what the host offers, if one is an object."""
        for each in given:
            if not isinstance(each, str):
                known: tuple[str, ...] = getattr(await self._see("offered", OfferedView), offer)
                raise WrongType.of(argument, each, NAMES + (", ".join([f"`{name}`" for name in known]) or "none"))
        return cast("tuple[str, ...]", given)

    async def label(
        self,
        add: Iterable[str] = (),
        remove: Iterable[str] = (),
        *,
        title: str | None = None,
        command: str | None = None,
    ) -> None:
        """Add and remove labels, by which stored sessions are found, and change the title if one is given."""
        await self._do("label", command, add=texts_of("add", add), remove=texts_of("remove", remove), title=title)

    async def withdraw(self, ref: str, *, command: str | None = None) -> None:
        """Remove a prompt from the queue, given its ref."""
        await self._do("withdraw", command, ref=ref)

    # Looking

    async def status(self) -> Status:
        """Return what the session does; raise `SessionParked` if it does not run now: a prompt brings it back."""
        found = await self._see("show_session", DetailView)
        if found.status is None:
            parked = SessionParked(self.id)
            parked.told = PARKED.format(self.id)
            raise parked
        return value_of(Status, found.status, session_id=found.session)

    async def messages(self) -> tuple[Message, ...]:
        """Return the conversation, as of the last journaled step."""
        found: list[Message] = []
        after: int | None = 0
        while after is not None:
            page = await self._see("messages", MessagesView, after=after)
            found += page.items
            after = page.next
        return tuple(found)

    async def queued(self) -> tuple[Prompt, ...]:
        """Return the queued prompts."""
        return tuple([value_of(Prompt, each) for each in (await self._see("queued", QueueView)).items])

    async def tasks(self) -> tuple[Task, ...]:
        """Return the session's running sub-agents, and the last ones in the background that have ended."""
        return tuple([value_of(Task, each) for each in (await self._see("tasks", TasksView)).items])

    async def task_result(self, child: str) -> Ok | Err:
        """Wait for the answer of a sub-agent and return it."""
        return (await self._see("task_result", TaskResultView, child=child)).result

    async def wait_tasks(self, *children: str, every: bool = True, seconds: float = 300.0) -> Mapping[str, Ok | Err]:
        """Wait until all of these sub-agents have ended, or any one; return the answers of those that have, by id."""
        wait = math.ceil(seconds * 1000)
        ids = ",".join(children)
        found = await self._see("wait_tasks", TaskResultsView, children=ids, every=every, milliseconds=wait)
        return {each.child: each.result for each in found.items}

    async def message_task(self, child: str, text: str, *, command: str | None = None) -> None:
        """Send a message to a running sub-agent, which gets it before its next request; its work goes on."""
        await self._do("message_task", command, child=child, text=text)

    async def cancel_task(self, child: str) -> None:
        """Stop a sub-agent, and wait until all of it has ended; its records stay in the journal."""
        await self._line.call("cancel_task", session=self.id, query={"child": child})

    def subscribe(
        self,
        since: Cursor | tuple[int, int] | int | None = None,
        types: Iterable[type[Event]] | None = None,
        policy: Policy = "coalesce",
    ) -> RemoteSubscription:
        """Return the session's events as an async iterator: those after *since* that are kept, then live ones.

        It goes on by itself after a cut of the connection, without losing or repeating an event.
        """
        return events_of(self._line, self.id, since, types, policy)

    def monitor(self) -> RemoteMonitor:
        """Return a monitor: `async with` it, then `wait()` for the end of the session."""
        return RemoteMonitor(self._line, self.id)

    async def suspend(self) -> None:
        """Let all but urgent commands (abort, stop) and timers wait until `resume`; running work goes on."""
        await self._line.call("suspend", session=self.id)

    async def resume(self) -> None:
        """Handle the messages that have waited since `suspend`; continue a turn that recovery paused."""
        await self._line.call("resume", session=self.id)

    async def fork(self, at: int | None = None, id: str | None = None) -> RemoteSession:  # noqa: A002 - what users call it
        """Start a session with the past of this one, up to record *at* (default: all); running work is not copied."""
        return RemoteSession(self._line, answer_of(OpenedView, await self._do("fork", None, at=at, session=id)).session)


def _said(text: Said) -> Json:
    """Return a message as JSON: a text, or its parts; raise `BadMessage` if it is neither."""
    parts = kept_parts(text)
    return text if isinstance(text, str) else cast("Json", json.loads(to_json(list(parts))))
