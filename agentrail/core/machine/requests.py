"""A round up to its request: merge waiting texts, compact the context if needed, ask plugins, send the request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Final

from agentrail.core.cache_prefix import (
    UPFRONT,
    closing,
    compacted,
    front_of,
    is_out_of_reach,
    prefix_changed,
    shown_before,
)
from agentrail.core.context_window import budget_of, characters, crowded_by, is_due, kept, room, tokens_of
from agentrail.core.machine.deferred_tools import tell_again
from agentrail.core.machine.draft import StepDraft
from agentrail.core.machine.endings import abort_turn, end_turn
from agentrail.core.machine.steering import merge_steering
from agentrail.core.machine.todo_list import tell_todos
from agentrail.core.system_prompt import count_memory, fixed_text, split
from agentrail.core.tools_on_demand import declared
from agentrail.core.vocabulary import commands
from agentrail.core.vocabulary.effects import StartCompaction, StartRequest
from agentrail.core.vocabulary.inputs import CompactionEnded
from agentrail.core.vocabulary.state import IDLE, RUNNING, Attached, Compaction, Draft, Request, Shown, State, Turn
from agentrail.errors import Busy
from agentrail.hooks.hook_types import BeforeCompaction, BeforeRequest, Hook
from agentrail.hooks.ruling import ABORT, Ruling, Verdict
from agentrail.values.content import Text
from agentrail.values.events.context import BeforeCompact, CompactEnd, CompactStart, Intervention
from agentrail.values.events.response import ModelEffective, RequestStart
from agentrail.values.json import JsonObject
from agentrail.values.messages import (
    Added,
    History,
    Message,
    Origin,
    Range,
    Rearranged,
    UserMessage,
    rearrange,
    why_unfit,
)
from agentrail.values.stream import ModelRequest
from agentrail.values.tools import ToolSpec
from agentrail.values.value import quick

_before_request = quick(BeforeRequest)
_model_request = quick(ModelRequest)
_start_event = quick(RequestStart)
_spec_of: Callable[[Attached], ToolSpec] = attrgetter("spec")
_is_deferred: Callable[[ToolSpec], bool] = attrgetter("deferred")


READ_HISTORY: Final = "read_history"
"""Name of the tool that reads messages which have left the context."""

TRIGGER: Final = "compact_at"
OVERFLOW: Final = "overflow"
CALLER: Final = "caller"
"""Causes of a compaction; another cause is a tool or a plugin (`Compaction.by`)."""


def next_round(w: StepDraft, _: str) -> None:
    """Begin the next round, or end the turn if it has had `max_turns` rounds."""
    s = w.s
    if s.turn is None:
        return
    if s.round >= s.setup.options.max_turns:
        end_turn(w, "max_turns")
        return
    s.round += 1
    s.phase = RUNNING
    s.turn = s.turn.but(attempt=0, failed_over=0, last_error=None, overflowed=False, empty=False, fits=False)
    _merge(w)
    reason = _why_compact(w)
    if reason is not None:
        want_compaction(w, reason)
    else:
        request(w, "")


def _merge(w: StepDraft) -> None:
    s = w.s
    if s.notices:
        w.say(UserMessage((Text("\n".join(s.notices)),), Origin.NOTICE))
        s.notices = ()
    merge_steering(w)


def request(w: StepDraft, _: str) -> None:
    """Start an attempt of the request: merge texts that came meanwhile, compact if asked to, then ask plugins."""
    _merge(w)
    reason = w.s.compact_wanted
    if reason is not None:
        want_compaction(w, reason)
    else:
        w.next("before_request")


def begin_before_request(w: StepDraft, _: str) -> Hook | None:
    """Build the `before_request` hook of the next attempt."""
    s = w.s
    if s.turn is None:
        return None
    s.turn = s.turn.but(attempt=s.turn.attempt + 1)
    return _before_request(s.history, s.turn.attempt, s.turn.last_error)


def finish_before_request(w: StepDraft, _ref: str, hook: Hook, ruling: Ruling) -> None:
    """Send the request with what plugins changed, or abort the turn if one says so."""
    s = w.s
    if ruling.verdict is ABORT:
        abort_by(w, ruling)
        return
    w.apply(ruling)
    turn = s.turn
    if turn is None:
        return
    gathered = ruling.gathered
    added: tuple[Message, ...] = ()
    if gathered.texts:
        text = "\n\n".join(gathered.texts)
        added = (UserMessage((Text(text),), Origin.INTERVENTION),)
        w.say(*added)
        w.emit(Intervention(text, "before_request"))
    sent_messages = _shown_to(s.history, hook, ruling, added)
    before, used = s.used_model, s.using
    switched = None if before is None or before == used else before
    if switched is not None:
        w.emit(ModelEffective(turn.model))
    s.used_model = before if before == used else used
    request_id = w.make_id("r")
    replaced = None if sent_messages is s.history else rearrange(s.history, sent_messages)
    if gathered.front:
        sent_messages = (*[piece.message for piece in gathered.front], *sent_messages)
        replaced = _with(s.history, replaced, gathered.front, ())
    options = s.setup.options
    last = s.round >= options.max_turns
    grown_alone = not (last or s.altered or s.shown is not None or replaced is not None or switched is not None)
    if not grown_alone or is_out_of_reach(s):
        _compare(w, sent_messages, replaced, gathered.replaced_by[-1:], switched)
    s.request = Request(request_id, messages=_with(s.history, replaced, (), gathered.added))
    w.emit(_start_event(request_id, turn.model, len(sent_messages) + len(gathered.added), turn.attempt))
    w.ask(StartRequest(rendered(s, turn, s.request), options.stall_timeout, options.inline_tags))


def _with(
    history: History, replaced: Rearranged | None, front: tuple[Added, ...], behind: tuple[Added, ...]
) -> Rearranged | None:
    """Return the messages of a request: those of *history*, or what plugins *replaced* them by, and what they added."""
    if not front and not behind:
        return replaced
    whole = (Range(0, len(history)),) if history else ()
    return Rearranged((*front, *(whole if replaced is None else replaced.pieces), *behind))


def _compare(
    w: StepDraft,
    sent_messages: Sequence[Message],
    replaced: Rearranged | None,
    by: tuple[str, ...],
    switched: tuple[str, JsonObject] | None,
) -> None:
    """Report why the request does not begin with the last one, if so; remember the messages that it shows.

    The last one went to the model *switched*, with other options, or to the same one if that is `None`.
    """
    s = w.s
    last = by[0] if by else ""
    changed = prefix_changed(s, sent_messages, last, switched, front_of(replaced))
    if changed is not None:
        w.emit(changed)
        s.by_tool = None if changed.part in UPFRONT else s.by_tool
    s.altered = closing(s)
    s.shown = None if replaced is None else Shown(replaced, last)


def rendered(state: State, turn: Turn, request: Request) -> ModelRequest:
    """Return all that the model gets with the *request* of the *turn*, in the *state* after the step that sent it.

    The state may come from records: they refer to what the request has of the history, the sections and the tools.
    """
    messages, sections, setup = state.history, state.sections, state.setup
    if request.layers is not None:
        named = {section.key: section for section in sections}
        sections = tuple([named[name] for name in request.layers])
    background, dynamic = split(sections, setup.prompt_mode)
    tools = tuple(map(_spec_of, state.tools.values()))
    deferred = tuple(filter(_is_deferred, tools))
    return _model_request(
        turn.model,
        messages if request.messages is None else request.messages.of(messages),
        fixed_text(setup, state.tools),
        dynamic,
        declared(tools) if deferred else tools,
        state.round < setup.options.max_turns,
        turn.options,
        state.session_id,
        request.request_id,
        turn.returns or setup.returns,
        deferred,
        background,
        passing=0 if request.messages is None else _count_passing(request.messages),
        memory=count_memory(sections, setup.prompt_mode) if background else 0,
    )


def _count_passing(messages: Rearranged) -> int:
    """Return how many of *messages* at the end are context that was added for one request."""
    lasting = [place for place, piece in enumerate(messages.pieces) if not isinstance(piece, Added)]
    return len(messages.pieces) - (lasting[-1] + 1 if lasting else 0)


def _shown_to(
    history: History, hook: Hook, ruling: Ruling, added: tuple[Message, ...] = ()
) -> History | tuple[Message, ...]:
    """Return what plugins put in place of the messages of *hook*, with what was *added* since; else *history*."""
    replaced = ruling.gathered.messages
    if replaced is None or not isinstance(hook, BeforeRequest | BeforeCompaction):
        return history
    return (*replaced.of(hook.messages), *added)


def abort_by(w: StepDraft, ruling: Ruling) -> None:
    """Abort the turn because a plugin ruled so, or because a critical plugin failed."""
    abort_turn(w, "critical" if ruling.critical else "plugin", f"{ruling.by}: {ruling.reason}")


# Compaction


def on_compact(w: StepDraft, command: commands.CompactSent) -> None:
    """Handle `compact`: compact now if the session is idle, else before the next request."""
    s = w.s
    reason = command.reason or "asked by a caller"
    if s.resting:
        w.refuse(Busy("compact"))
        return
    w.answer = commands.DONE
    if s.phase is IDLE:
        s.phase = RUNNING
        want_compaction(w, reason, CALLER)
    elif s.compaction is None:
        s.compact_wanted, s.compact_by = reason, CALLER


def _why_compact(w: StepDraft) -> str | None:
    """Return why the context is to be compacted before the next request; `None` if it is not."""
    s = w.s
    if s.compact_wanted is not None:
        return s.compact_wanted
    return f"about {tokens_of(s)} tokens of {budget_of(s).window}" if is_due(s) else None


def want_compaction(w: StepDraft, reason: str, by: str = "") -> None:
    """Plan a compaction, about which the plugins are asked first; one that was asked for earlier is done with it.

    It is caused by *by*; if that is empty, by what asked for it earlier, else by the option `compact_at`.
    """
    s = w.s
    cause = by or s.compact_by or TRIGGER
    s.compact_wanted, s.compact_by = None, ""
    s.compaction = Compaction(w.make_id("k"), reason, forced=cause == OVERFLOW, tokens=tokens_of(s), by=cause)
    w.next("before_compact")


def begin_before_compact(w: StepDraft, _: str) -> Hook | None:
    """Build the `before_compact` hook of the compaction that is about to start."""
    s = w.s
    if s.compaction is None:
        return None
    w.emit(BeforeCompact(len(s.history), s.compaction.reason))
    return BeforeCompaction(s.history, s.compaction.reason)


def finish_before_compact(w: StepDraft, _ref: str, hook: Hook, ruling: Ruling) -> None:
    """Start the compaction, or skip it if a plugin says so."""
    s = w.s
    compaction = s.compaction
    if compaction is None:
        return
    if ruling.verdict is Verdict.SKIP:
        after_compaction(w, "a plugin skipped it", shorter=False)
        return
    messages, budget = _shown_to(s.history, hook, ruling), budget_of(s)
    replaced_by = ruling.gathered.replaced_by or (compaction.by,)
    s.compaction = compaction.but(running=True, by=replaced_by[-1])
    w.emit(CompactStart(len(messages), compaction.reason, compaction.tokens, budget.window))
    model, options = s.using
    most = characters(s, min(budget.window, compaction.tokens) // 2)
    keep = kept(s)
    w.ask(
        StartCompaction(
            compaction.compaction_id,
            messages,
            keep,
            model,
            options,
            most,
            s.setup.options,
            w.random,
            limit=keep if compaction.forced else max(keep, room(s, budget.trigger)),
            reads_back=READ_HISTORY in s.tools,
            is_assumed=budget.is_assumed,
        )
    )


def on_compaction_ended(w: StepDraft, ended: CompactionEnded) -> None:
    """Take over the compacted messages, unless no provider would accept them; then continue the turn."""
    s = w.s
    w.count(ended.usage)
    if s.compaction is None or s.compaction.compaction_id != ended.compaction_id:
        return
    unfit = why_unfit(ended.messages) if ended.messages or s.turn is None else "there is nothing to answer"
    if unfit is not None:
        problem = f"no provider would take what is left: {unfit}"
        w.emit(CompactEnd(0, problem))
        after_compaction(w, problem, shorter=False)
        return
    history = History(ended.messages)
    shorter = ended.removed > 0 or history.size < s.history.size
    if s.turn is not None:
        s.turn = s.turn.but(mark=_mark(s.history, s.turn.mark, ended.messages))
    changed = compacted(s.history, ended.messages, s.compaction.by)
    if changed is not None:
        w.note((changed,))
        s.shown = shown_before(s.shown, s.history, ended.messages)
    s.history = history
    tell_again(w, ended.messages)
    tell_todos(w, ended.messages)
    crowded = crowded_by(s)
    s.crowded = 0 if crowded is None else crowded.tokens
    w.emit(CompactEnd(ended.removed, ended.note, crowded))
    after_compaction(w, ended.note, shorter=shorter)


def _mark(before: History, mark: int, after: tuple[Message, ...]) -> int:
    """Return the place in *after* of the turn's first message, which was at *mark* in *before*.

    It is the prompt, which a compaction keeps. If a plugin has left it out, the turn's messages count from the end.
    """
    if mark < len(before):
        prompt = before[mark]
        for place in range(len(after) - 1, -1, -1):
            if after[place] is prompt or after[place] == prompt:
                return place
    return max(0, len(after) - (len(before) - mark))


def after_compaction(w: StepDraft, note: str, *, shorter: bool) -> None:
    """Continue with the request; abort the turn instead if the context is still longer than the model can take."""
    s = w.s
    compaction, s.compaction = s.compaction, None
    if s.turn is None:
        w.next("settle")
    elif compaction is not None and compaction.forced and not shorter:
        abort_turn(w, "overflow", f"the context is too long, and compaction changed nothing: {note}")
    elif compaction is not None and compaction.running and (problem := _why_too_long(s)) is not None:
        abort_turn(w, "overflow", f"{problem}: {note}")
    else:
        w.next("request")


def _why_too_long(s: Draft) -> str | None:
    """Return why a compacted context is still too long; `None` if it is not, or if the window is only assumed."""
    budget, crowded = budget_of(s), crowded_by(s)
    if budget.is_assumed or crowded is None or crowded.tokens <= budget.trigger:
        return None
    return (
        f"after the compaction the context takes about {crowded.tokens} tokens ({crowded.told}), and `compact_at` "
        f"allows {budget.trigger} of the {budget.window} that the model can read"
    )
