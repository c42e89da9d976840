"""A round up to its request: merge waiting texts, compact the context if needed, ask plugins, send the request."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Final

from agentrail.core.context_window import budget_of, characters, crowded_by, is_due, kept_chars, room, tokens_of
from agentrail.core.machine.draft import StepDraft
from agentrail.core.machine.endings import abort_turn, end_turn
from agentrail.core.machine.replaced_history import replace_history
from agentrail.core.system_prompt import count_memory, fixed_text, split
from agentrail.core.tools_on_demand import declared
from agentrail.core.vocabulary import commands
from agentrail.core.vocabulary.effects import StartCompaction, StartRequest
from agentrail.core.vocabulary.inputs import CompactionEnded
from agentrail.core.vocabulary.state import (
    IDLE,
    RUNNING,
    AttachedTool,
    Compaction,
    Draft,
    RunningRequest,
    State,
    Turn,
)
from agentrail.errors import Busy
from agentrail.hooks.hook_types import BeforeCompaction, BeforeRequest, Hook
from agentrail.hooks.ruling import ABORT, Ruling, Verdict
from agentrail.values.content import Text
from agentrail.values.events.context import BeforeCompact, CompactEnd, CompactStart, Intervention
from agentrail.values.events.life import SteeringApplied
from agentrail.values.events.response import ModelEffective, RequestStart
from agentrail.values.messages import (
    Added,
    History,
    Message,
    MessageRange,
    Origin,
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
_spec_of: Callable[[AttachedTool], ToolSpec] = attrgetter("spec")
_is_deferred: Callable[[ToolSpec], bool] = attrgetter("deferred")


READ_HISTORY: Final = "read_history"
"""Name of the tool that reads messages which have left the context."""

TRIGGER: Final = "compact_at"
OVERFLOW: Final = "overflow"
CALLER: Final = "caller"
"""Causes of a compaction; another cause is a tool or a plugin (`Compaction.by`)."""


def next_round(draft: StepDraft) -> None:
    """Begin the next round, or end the turn if it has had `max_rounds` rounds."""
    state = draft.state
    if state.turn is None:
        return
    if state.round >= state.setup.options.max_rounds:
        end_turn(draft, "max_rounds")
        return
    state.round += 1
    state.phase = RUNNING
    state.turn = state.turn.but(attempt=0, failed_over=0, last_error=None, overflowed=False, empty=False, fits=False)
    _merge(draft)
    reason = _why_compact(draft)
    if reason is not None:
        want_compaction(draft, reason)
    else:
        request(draft)


def _merge(draft: StepDraft) -> None:
    """Append waiting notices and steering texts to the history."""
    state = draft.state
    if state.notices:
        draft.append_messages(UserMessage((Text("\n".join(state.notices)),), Origin.NOTICE))
        state.notices = ()
    merge_steering(draft)


def merge_steering(draft: StepDraft) -> None:
    """Append all queued steering texts to the history as one user message."""
    state = draft.state
    waiting, state.steering = state.steering, ()
    if waiting:
        turn = state.turn
        others = tuple(dict.fromkeys(who for text in waiting for who in text.asked_by.by))
        if turn is not None and not {*others} <= {*turn.asked_by.by}:
            state.turn = turn.but(asked_by=turn.asked_by.but(by=tuple(dict.fromkeys((*turn.asked_by.by, *others)))))
        draft.append_messages(UserMessage((Text("\n\n".join(text.text for text in waiting)),), Origin.STEERING))
        draft.emit(SteeringApplied(tuple(text.ref for text in waiting), len(waiting)))


def request(draft: StepDraft) -> None:
    """Start an attempt of the request: merge texts that came meanwhile, compact if asked to, then ask plugins."""
    _merge(draft)
    reason = draft.state.compaction_reason
    if reason is not None:
        want_compaction(draft, reason)
    else:
        draft.due.appendleft(("before_request", ""))


def begin_before_request(draft: StepDraft, _: str) -> Hook | None:
    """Build the `before_request` hook of the next attempt."""
    state = draft.state
    if state.turn is None:
        return None
    state.turn = state.turn.but(attempt=state.turn.attempt + 1)
    return _before_request(state.history, state.turn.attempt, state.turn.last_error)


def finish_before_request(draft: StepDraft, _ref: str, hook: Hook, ruling: Ruling) -> None:
    """Send the request with what plugins changed, or abort the turn if one says so."""
    state = draft.state
    if ruling.verdict is ABORT:
        abort_by(draft, ruling)
        return
    draft.apply(ruling)
    turn = state.turn
    if turn is None:
        return
    decisions = ruling.decisions
    added: tuple[Message, ...] = ()
    if decisions.texts:
        text = "\n\n".join(decisions.texts)
        added = (UserMessage((Text(text),), Origin.INTERVENTION),)
        draft.append_messages(*added)
        draft.emit(Intervention(text, "before_request"))
    sent_messages = _shown_to(state.history, hook, ruling, added)
    last_used, used = state.last_request_model, state.using
    if last_used != used:
        state.last_request_model = used
        if last_used is not None:
            draft.emit(ModelEffective(turn.model))
    request_id = draft.make_id("r")
    replaced = None if sent_messages is state.history else rearrange(state.history, sent_messages)
    if decisions.front:
        sent_messages = (*[piece.message for piece in decisions.front], *sent_messages)
        replaced = _with(state.history, replaced, decisions.front, ())
    options = state.setup.options
    state.request = RunningRequest(request_id, messages=_with(state.history, replaced, (), decisions.added))
    draft.emit(_start_event(request_id, turn.model, len(sent_messages) + len(decisions.added), turn.attempt))
    draft.add_effect(StartRequest(rendered(state, turn, state.request), options.stall_timeout, options.inline_tags))


def _with(
    history: History, replaced: Rearranged | None, front: tuple[Added, ...], back: tuple[Added, ...]
) -> Rearranged | None:
    """Return the messages of a request: those of *history* or what plugins *replaced* them by, with the added ones."""
    if not front and not back:
        return replaced
    ranges = (MessageRange(0, len(history)),) if history else ()
    return Rearranged((*front, *(ranges if replaced is None else replaced.pieces), *back))


def rendered(state: State, turn: Turn, request: RunningRequest) -> ModelRequest:
    """Return the whole `ModelRequest` that *request* stands for; *state* is the one after the step that sent it.

    The state may have been rebuilt from records. They refer to history, sections and tools instead of repeating them.
    """
    messages, sections, setup = state.history, state.sections, state.acting
    if request.layers is not None:
        named = {section.key: section for section in sections}
        sections = tuple([named[name] for name in request.layers])
    background, dynamic = split(sections, setup.prompt_mode)
    fixed = fixed_text(setup, state.tools)
    tools = tuple(map(_spec_of, state.tools.values()))
    deferred = tuple(filter(_is_deferred, tools))
    return _model_request(
        turn.model,
        messages if request.messages is None else request.messages.of(messages),
        fixed,
        dynamic,
        declared(tools) if deferred else tools,
        state.round < setup.options.max_rounds,
        turn.options,
        state.session_id,
        request.request_id,
        turn.returns or setup.returns,
        deferred,
        background,
        passing=0 if request.messages is None else _count_passing(request.messages),
        memory=count_memory(sections, setup.prompt_mode) if background else 0,
        explains_tags=_explains_tags(state, has_prompt=bool(fixed.strip() or background or dynamic)),
    )


def _explains_tags(state: State, *, has_prompt: bool) -> bool:
    """Return whether the system prompt says what the tags around the texts of the program mean.

    It does if there is a system prompt anyway, or plugins that may write such texts: a session without a prompt and
    without plugins sends no system message. In the mode `none` it is never said.
    """
    return state.setup.prompt_mode != "none" and (has_prompt or bool(state.plugins))


def sent_id(old: State, new: State) -> str | None:
    """Return the id of the request that the step from *old* to *new* sent to the model; `None` if it sent none.

    A request that was cut in the same step was never sent.
    """
    request = new.request
    if request is None or new.turn is None:
        return None
    is_new = old.request is None or old.request.request_id != request.request_id
    return request.request_id if is_new else None


def sent_request(old: State, new: State) -> ModelRequest | None:
    """Return the request that the step from *old* to *new* sent to the model; `None` if it sent none."""
    if sent_id(old, new) is None or new.request is None or new.turn is None:
        return None
    return rendered(new, new.turn, new.request)


def _count_passing(messages: Rearranged) -> int:
    """Return how many *messages* at the end were added for this request alone."""
    lasting = [index for index, piece in enumerate(messages.pieces) if not isinstance(piece, Added)]
    return len(messages.pieces) - (lasting[-1] + 1 if lasting else 0)


def _shown_to(
    history: History, hook: Hook, ruling: Ruling, added: tuple[Message, ...] = ()
) -> History | tuple[Message, ...]:
    """Return the messages of *hook* if plugins replaced them, with those *added* since; else *history*."""
    replaced = ruling.decisions.messages
    if replaced is None or not isinstance(hook, BeforeRequest | BeforeCompaction):
        return history
    return (*replaced.of(hook.messages), *added)


def abort_by(draft: StepDraft, ruling: Ruling) -> None:
    """Abort the turn because of *ruling*: a plugin aborted it, or a critical plugin failed."""
    abort_turn(draft, "critical" if ruling.critical else "plugin", f"{ruling.by}: {ruling.reason}")


# Compaction


def on_compact(draft: StepDraft, command: commands.CompactSent) -> None:
    """Handle `compact`: compact now if the session is idle, else before the next request."""
    state = draft.state
    reason = command.reason or "asked by a caller"
    if state.resting:
        draft.refuse(Busy("compact"))
        return
    draft.answer = commands.DONE
    if state.phase is IDLE:
        state.phase = RUNNING
        want_compaction(draft, reason, CALLER)
    elif state.compaction is None:
        state.compaction_reason, state.compaction_cause = reason, CALLER


def _why_compact(draft: StepDraft) -> str | None:
    """Return why to compact the context before the next request; `None` if there is no reason."""
    state = draft.state
    if state.compaction_reason is not None:
        return state.compaction_reason
    return f"about {tokens_of(state)} tokens of {budget_of(state).window}" if is_due(state) else None


def want_compaction(draft: StepDraft, reason: str, by: str = "") -> None:
    """Schedule a compaction, which also settles an earlier wish for one; plugins are asked first.

    Its cause is *by*; if *by* is empty, the cause of the earlier wish, else the option `compact_at`.
    """
    state = draft.state
    cause = by or state.compaction_cause or TRIGGER
    state.compaction_reason, state.compaction_cause = None, ""
    state.compaction = Compaction(
        draft.make_id("k"), reason, forced=cause == OVERFLOW, tokens=tokens_of(state), by=cause
    )
    draft.due.appendleft(("before_compact", ""))


def begin_before_compact(draft: StepDraft, _: str) -> Hook | None:
    """Build the `before_compact` hook of the compaction that is about to start."""
    state = draft.state
    if state.compaction is None:
        return None
    draft.emit(BeforeCompact(len(state.history), state.compaction.reason))
    return BeforeCompaction(state.history, state.compaction.reason)


def finish_before_compact(draft: StepDraft, _ref: str, hook: Hook, ruling: Ruling) -> None:
    """Start the compaction, or skip it if a plugin says so."""
    state = draft.state
    compaction = state.compaction
    if compaction is None:
        return
    if ruling.verdict is Verdict.SKIP:
        after_compaction(draft, "a plugin skipped it", shorter=False)
        return
    messages, budget = _shown_to(state.history, hook, ruling), budget_of(state)
    replaced_by = ruling.decisions.replaced_by or (compaction.by,)
    state.compaction = compaction.but(running=True, by=replaced_by[-1])
    draft.emit(CompactStart(len(messages), compaction.reason, compaction.tokens, budget.window))
    model, options = state.using
    most = characters(state, min(budget.window, compaction.tokens) // 2)
    keep = kept_chars(state)
    draft.add_effect(
        StartCompaction(
            compaction.compaction_id,
            messages,
            target_chars=keep,
            model=model,
            options=options,
            model_chars=most,
            session_options=state.setup.options,
            random=draft.random,
            keep_whole_chars=keep if compaction.forced else max(keep, room(state, budget.trigger)),
            reads_back=READ_HISTORY in state.tools,
            is_assumed=budget.is_assumed,
            needs_summary=compaction.by == CALLER and (state.turn is None or compaction.tokens <= budget.trigger),
        )
    )


def on_compaction_ended(draft: StepDraft, ended: CompactionEnded) -> None:
    """Put the compacted messages in place of the history, unless no provider would accept them; continue the turn."""
    state = draft.state
    draft.add_usage(ended.usage)
    if state.compaction is None or state.compaction.compaction_id != ended.compaction_id:
        return
    unfit = why_unfit(ended.messages) if ended.messages or state.turn is None else "there is nothing to answer"
    if unfit is not None:
        problem = f"no provider would take what is left: {unfit}"
        draft.emit(CompactEnd(0, problem))
        after_compaction(draft, problem, shorter=False)
        return
    size = state.history.size
    replace_history(draft, ended.messages)
    shorter = ended.removed > 0 or state.history.size < size
    crowded = crowded_by(state)
    state.tokens_after_compaction = 0 if crowded is None else crowded.tokens
    draft.emit(CompactEnd(ended.removed, ended.note, crowded))
    after_compaction(draft, ended.note, shorter=shorter)


def after_compaction(draft: StepDraft, note: str, *, shorter: bool) -> None:
    """Continue with the request; abort the turn instead if the context is still longer than the model can take."""
    state = draft.state
    compaction, state.compaction = state.compaction, None
    if state.turn is None:
        draft.settles = True
    elif compaction is not None and compaction.forced and not shorter:
        abort_turn(draft, "overflow", f"the context is too long, and compaction changed nothing: {note}")
    elif compaction is not None and compaction.running and (problem := _why_too_long(state)) is not None:
        abort_turn(draft, "overflow", f"{problem}: {note}")
    else:
        request(draft)


def _why_too_long(state: Draft) -> str | None:
    """Return why a compacted context is still too long; `None` if it fits, or if the window is only assumed."""
    budget, crowded = budget_of(state), crowded_by(state)
    if budget.is_assumed or crowded is None or crowded.tokens <= budget.trigger:
        return None
    return (
        f"after the compaction the context takes about {crowded.tokens} tokens ({crowded.told}), and `compact_at` "
        f"allows {budget.trigger} of the {budget.window} that the model can read"
    )
