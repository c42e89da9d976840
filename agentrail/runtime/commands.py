"""Helpers of the handle: they check what callers pass and unpack the answers. Imported with the first session."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Final, cast

import attrs
import trio

from agentrail.api.command_checks import check_fields, cursor_of, kept_parts, kinds_of, labels_of, name_of
from agentrail.api.command_checks import check_flag as check_flag
from agentrail.api.session_values import UNTILS, Reply, Until
from agentrail.core.machine.configuration import MAX_LABELS
from agentrail.core.vocabulary.commands import AbortSent, Accepted, Answer, ApproveSent, PromptSent, Refused, StopSent
from agentrail.core.vocabulary.inputs import AnyInput
from agentrail.core.vocabulary.state import State
from agentrail.errors import (
    AnswerUnfit,
    BadChoice,
    BadOptions,
    NoAnswer,
    NotInItsRun,
    NotJson,
    PartRefused,
    SourceAlone,
    SourceExists,
    TooManyLabels,
    UnknownCursor,
    UnknownPlugin,
    UnknownTask,
    WrongType,
)
from agentrail.errors import BrokenContractError as BrokenContractError
from agentrail.errors import SessionAsleep as SessionAsleep
from agentrail.errors.agentrail_error import fresh as fresh
from agentrail.hooks.attachments import AttachedPlugin
from agentrail.hooks.attachments import refuse_unknown_models as refuse_unknown_models
from agentrail.hooks.attachments import refuse_unknown_tools as refuse_unknown_tools
from agentrail.hooks.attachments import seat_for as seat_for
from agentrail.hooks.attachments import unkeyed as unkeyed
from agentrail.hooks.attachments import updated_seat as updated_seat
from agentrail.hooks.hook_runner import ReadAnswer
from agentrail.hooks.live_hook_runner import why_refused
from agentrail.hooks.plugin import AnyPlugin
from agentrail.ports.journal import ALL_SESSIONS, SLOTS, SessionFilter, StoredSession
from agentrail.ports.model import Model, why_untaken
from agentrail.ports.tool import Task, ToolSource
from agentrail.runtime.events import tracing
from agentrail.runtime.events.bus import Bus
from agentrail.runtime.events.subscription import CAPACITY, Subscription
from agentrail.runtime.events.tracing import ActorTrace, Traces
from agentrail.runtime.inbox.command_results import digest_of
from agentrail.runtime.inbox.letter import Letter, ReplySlot
from agentrail.runtime.inbox.replies import AskedPrompt as AskedPrompt
from agentrail.runtime.resources import ActorSubagents as ActorSubagents
from agentrail.runtime.resources import decided as decided
from agentrail.runtime.shared.caller import NOBODY, Caller
from agentrail.runtime.shared.ids import new_id as new_id
from agentrail.runtime.shared.reply_slot import Slot
from agentrail.runtime.status import Monitor as Monitor
from agentrail.runtime.status import status_of as status_of
from agentrail.values.content import Data, File, Image, Part, Text, in_words
from agentrail.values.events.envelope import Event
from agentrail.values.events.policies import POLICIES
from agentrail.values.json import INT_MAX, Json, JsonObject, freeze, freeze_object, weight
from agentrail.values.untrusted_values import brief, number
from agentrail.values.untrusted_values import described as described

STOPPING = (AbortSent, StopSent)
"""Commands that are accepted even while the journal is full."""

OVERHEAD = 64
"""How many bytes a message in the mailbox counts in addition to its content."""


def letter(input_: AnyInput, command: str | None, caller: Caller = NOBODY, *, reply: ReplySlot | None = None) -> Letter:
    """Return the letter with *input_*; raise `BadMessage` or `BadChoice` if a field cannot be stored."""
    size = OVERHEAD + check_fields(input_, command)
    if isinstance(input_, PromptSent):
        size += sum(map(_bytes, input_.parts)) + (weight(input_.returns) if input_.returns else 0)
    elif isinstance(input_, ApproveSent) and input_.args is not None:
        size += weight(input_.args)
    digest = b"" if command is None else digest_of(input_)
    return Letter(input_, command=command, digest=digest, answer=Slot(), reply=reply, size=size, caller=caller)


def caller(who: object, request: object, four_eyes: object) -> Caller:
    """Return the `Caller` of a handle's commands; raise `WrongType` or `BadChoice` if an argument is invalid."""
    check_flag("four_eyes", four_eyes)
    return Caller(name_of("who", who), name_of("request", request), bool(four_eyes))


def refuse_untaken(parts: Iterable[Part], model: str, find: Callable[[str], Model]) -> None:
    """Raise `PartRefused` if *model* does not accept one of *parts*; *find* returns the model object by name."""
    for part in parts:
        if isinstance(part, File | Image) and (why := why_untaken(find(model), part)) is not None:
            raise PartRefused(in_words(part), model, why)


def source_of(tools: tuple[object, ...], there: Collection[str], *, replace: bool) -> ToolSource | None:
    """Return *tools* if it is a source of tools (an MCP server), `None` if not; raise if it cannot be attached."""
    source = next((tool for tool in tools if isinstance(tool, ToolSource)), None)
    if source is None:
        return None
    if len(tools) > 1:
        raise SourceAlone(source.name)
    if source.name in there and not replace:
        raise SourceExists(source.name)
    source.check()
    return source


def told_apart(
    names: tuple[str, ...], tools: Collection[str], sources: Collection[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split *names* into tools and sources of tools; an unknown name counts as a tool, which the machine refuses."""
    closed = tuple(name for name in names if name in sources and name not in tools)
    return tuple(name for name in names if name not in closed), closed


def check_run(session: str, home: trio.lowlevel.TrioToken) -> None:
    """Raise `NotInItsRun` if called outside the Trio run *home* of the session, which could not be woken from there."""
    if not trio.lowlevel.in_trio_run() or trio.lowlevel.current_trio_token() is not home:
        raise NotInItsRun(session)


def _bytes(part: Part) -> int:
    """Return the size of *part* in bytes."""
    match part:
        case Text(text=text):
            return len(text.encode())
        case Image(data=data) | File(data=data):
            return len(data)
        case Data(data=data):
            return weight(data)


def tasks_of(state: State) -> tuple[Task, ...]:
    """Return what `tasks()` shows in *state*: the last ended sub-agents in the background, then the running ones."""
    running = (
        Task(
            agent.child,
            agent.agent,
            agent.description,
            agent.call_id,
            agent.background,
            "waiting" if agent.waits else "running",
            agent.peers,
        )
        for agent in state.subagents
        if not agent.rests
    )
    return (*ended_tasks(state), *running)


def ended_tasks(state: State) -> tuple[Task, ...]:
    """Return the entries in `tasks()` of the last sub-agents in the background that have ended."""
    return tuple(
        Task(
            task.child,
            task.agent,
            task.description,
            task.call_id,
            True,
            "failed" if task.failed else "done",
            task.peers,
        )
        for task in state.ended_tasks
    )


def subagents_of(subagents: ActorSubagents | None, *children: str) -> ActorSubagents:
    """Return the sub-agents of a session; raise `UnknownTask` if it can have none."""
    if subagents is None:
        raise UnknownTask.among(", ".join(map(str, children)), ())
    return subagents


def raised(answer: Answer) -> Answer:
    """Return *answer*; raise its error if it is a `Refused`."""
    if isinstance(answer, Refused):
        raise answer.error
    return answer


def accepted(answer: Answer) -> Accepted:
    """Return *answer*, an `Accepted`; raise its error if it is a `Refused`."""
    if isinstance(answer, Accepted):
        return answer
    raise BrokenContractError(raised(answer))


def prompt_of(text: object, returns: object) -> tuple[PromptSent, ReadAnswer | None]:
    """Return the prompt with this text or these parts, and the parser of its answer (`None` if it has no schema).

    Raise `BadReturns` if *returns* is neither a class with fields nor a JSON Schema.
    """
    parts = kept_parts(text)
    if returns is None:
        return PromptSent(parts), None
    from agentrail.tools.answer_forms import form_of  # noqa: PLC0415 - only needed if answers have a form

    form = form_of(returns)
    return PromptSent(parts, returns=form.schema), form.read


def reply_slot(parse_answer: ReadAnswer | None, until: Until) -> ReplySlot:
    """Return the slot of a caller of a prompt. An answer that *parse_answer* refuses goes back to the model."""
    if until not in UNTILS:
        raise BadChoice.among("until", until, UNTILS)
    return ReplySlot(parse_answer, until)


def kept_class(parse_answer: ReadAnswer | None) -> ReplySlot | None:
    """Return the slot of a caller who does not wait for the turn, but whose class must be known in it, if any."""
    return None if parse_answer is None else ReplySlot(parse_answer)


def object_of(reply: Reply, parse_answer: ReadAnswer) -> object:
    """Return the object that *parse_answer* makes of the answer; raise `NoAnswer` or `AnswerUnfit` if there is none."""
    answer = reply.answer
    if answer is None:
        raise NoAnswer(reply.ref, reply.stop_reason)
    try:
        return parse_answer(answer)
    except Exception as why:
        raise AnswerUnfit(reply.ref, why_refused(why)) from why


def updated(plugin: AnyPlugin, options: Mapping[str, object]) -> AnyPlugin:
    """Return *plugin* with new options; errors that its class raises about them pass through."""
    change: object = dataclasses.replace if dataclasses.is_dataclass(type(plugin)) else attrs.evolve
    return cast("Callable[..., AnyPlugin]", change)(plugin, **options)  # `TypeError` if it is of neither kind


def refuse_lost_pins(new: AttachedPlugin, plugin: AnyPlugin, names: Iterable[str]) -> None:
    """Raise `BadOptions` if a pinned option of *plugin*, one of *names*, would not be restored from its stored form."""
    from agentrail.codec.plugin_types import hints_of, why_read_otherwise  # noqa: PLC0415 - few sessions pin options

    hints = hints_of(type(plugin))
    cls: type[object] = type(plugin)
    attributes = {field.alias: field.name for field in attrs.fields(cls)} if attrs.has(cls) else {}
    for name in names:
        if name not in new.pinned:
            which = "new" if name not in new.options else "old"
            problem: str | None = f"its {which} value is none that JSON can hold"
        elif name not in hints:
            problem = "its class has no type hint for it that can be resolved"
        else:
            problem = why_read_otherwise(hints[name], getattr(plugin, attributes.get(name, name)), new.options[name])
        if problem is not None:
            instead = "give it without `pin`, or declare the option as text, numbers or tuples of them"
            raise BadOptions(new.key, f"`{name}` cannot be pinned: {problem}; {instead}")


def counted(name: str, value: object) -> int:
    """Return *value* if it is a whole number from 1 on; raise `WrongType` otherwise."""
    plain = number(value)
    if type(plain) is not int or plain < 1:
        raise WrongType(name, brief(value), "a whole number from 1 on")
    return plain


def subscription(
    bus: Bus, since: object, types: Iterable[type[Event]] | None, policy: str, capacity: int | None
) -> Subscription:
    """Return a subscription to the events of *bus*."""
    if policy not in POLICIES:
        raise BadChoice.among("policy", policy, POLICIES)
    kinds = None if types is None else kinds_of(types)
    start = cursor_of(since)
    if start is not None and start.seq > bus.cursor.seq:
        raise UnknownCursor(bus.session_id, start.seq, bus.cursor.seq)
    return Subscription(
        bus,
        since=start,
        types=kinds,
        policy=policy,
        capacity=CAPACITY if capacity is None else counted("capacity", capacity),
    )


def trace(traces: Traces, begin: Callable[[], Awaitable[None]], capacity: int | None) -> ActorTrace:
    """Return a reader of the steps that *traces* shows."""
    return ActorTrace(traces, begin, tracing.CAPACITY if capacity is None else counted("capacity", capacity))


def attached_as(state: State, key: str) -> AttachedPlugin:
    """Return the plugin of this key as attached, or as queued to be; raise `UnknownPlugin` if there is none."""
    joining = [change.seat for change in state.plugin_changes if change.kind == "attach" and change.seat is not None]
    for seat in (*state.plugins, *joining):
        if seat.key == key:
            return seat
    raise UnknownPlugin.among(key, (seat.key for seat in state.plugins))


def named(state: State, tenant: object, owner: object, title: object, labels: object) -> State:
    """Return *state*, of a new session, with the names and labels that the caller of `spawn` gave."""
    if (tenant, owner, title, labels) == ("", "", "", ()):
        return state
    setup = state.setup.but(tenant=name_of("tenant", tenant), owner=name_of("owner", owner))
    kept_labels = labels_of("labels", labels)
    if len(kept_labels) > MAX_LABELS:
        raise TooManyLabels(len(kept_labels), MAX_LABELS)
    return state.but(setup=setup, title=name_of("title", title), labels=kept_labels)


FILTER_WANTED = "a `SessionFilter`, or nothing for all sessions"
EVERY_SLOT: Final = frozenset(range(SLOTS))
SLOTS_WANTED: Final = f"a `frozenset` of numbers from 0 to {SLOTS - 1}, or nothing for all slots"
LISTED_WANTED = "the last of the sessions that were listed before, or nothing for the first page"


def filter_of(value: object) -> SessionFilter:
    """Return *value* as a filter; raise `WrongType` if it, or one of its fields, is of a wrong type."""
    if value is None:
        return ALL_SESSIONS
    if not isinstance(value, SessionFilter):
        raise WrongType.of("wanted", value, FILTER_WANTED)
    for name in ("tenant", "owner", "label"):
        if getattr(value, name) is not None:
            name_of(name, getattr(value, name))
    for name in ("at_work", "ended"):
        if getattr(value, name) is not None:
            check_flag(name, getattr(value, name))
    slots = value.slots
    if slots is not None and not (type(cast("object", slots)) is frozenset and slots <= EVERY_SLOT):
        raise WrongType("slots", brief(slots), SLOTS_WANTED)
    due = value.due_before
    if due is not None and not (type(cast("object", due)) is int and abs(due) <= INT_MAX):
        raise WrongType("due_before", brief(due), "milliseconds since 1970")
    return value


def listed_of(value: object) -> StoredSession | None:
    """Return *value*, the last session of the previous page or `None`; raise `WrongType` for anything else."""
    if value is not None and not isinstance(value, StoredSession):
        raise WrongType.of("after", value, LISTED_WANTED)
    return value


def plain_options(options: Mapping[str, object]) -> JsonObject:
    """Return those of *options* that JSON can hold."""
    plain: dict[str, Json] = {}
    for name, value in options.items():
        with suppress(NotJson):
            plain[name] = freeze(value)
    return freeze_object(plain)
