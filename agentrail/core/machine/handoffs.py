"""Handoffs: when all calls of a response have results, another agent goes on with the conversation."""

from __future__ import annotations

from typing import Final

from agentrail.core.machine.configuration import put_tools, report_tools
from agentrail.core.machine.draft import StepDraft
from agentrail.core.machine.replaced_history import replace_history
from agentrail.core.machine.tool_results import put
from agentrail.core.vocabulary.options import Spare
from agentrail.core.vocabulary.state import AttachedTool
from agentrail.core.vocabulary.tool_calls import Batch, Call
from agentrail.values.events.life import HandedOff
from agentrail.values.messages import why_unfit
from agentrail.values.tools import Err, HandOver, Ok, err, ok

TURN: Final = "turn"
SUMMARY: Final = "summary"
"""Choices of `HandOver.history`; the third one, `all`, changes nothing."""


def note_handoff(draft: StepDraft, call: Call, handoff: HandOver) -> Ok | Err:
    """Note in *call* that it asks for *handoff*; return its answer, an error if another call of the response did so."""
    batch = draft.state.batch
    earlier = () if batch is None else [other.handoff.agent.name for other in batch.calls if other.handoff is not None]
    if earlier:
        return err(f"the conversation is handed over to `{earlier[0]}` already; one response can hand it over once")
    put(draft, call.but(handoff=handoff))
    return ok(f"`{handoff.agent.name}` goes on with the conversation")


def carry_out_handoff(draft: StepDraft, batch: Batch) -> None:
    """Have another agent go on if a call of *batch* asked for it, and its result says so to the model.

    It holds also if the turn is aborted, because the history says it. A result that a plugin has replaced by an error,
    or that steering or an abort took away, hands nothing over.
    """
    call = next((call for call in batch.calls if call.handoff is not None), None)
    if call is None or call.handoff is None or call.result is None or call.result.is_error:
        return
    state, handoff = draft.state, call.handoff
    draft.emit(HandedOff(state.agent_name, handoff.agent.name, call.call_id))
    state.agent = handoff.agent
    _change_tools(draft, handoff)
    _change_model(draft, handoff)
    if handoff.history == TURN and state.turn is not None:
        messages = tuple(state.history[state.turn.mark :])
        if why_unfit(messages) is None:  # a compaction may have taken the prompt away with which they began
            replace_history(draft, messages)
    elif handoff.history == SUMMARY:
        state.compaction_reason, state.compaction_cause = f"handed over to `{handoff.agent.name}`", call.name


def _change_tools(draft: StepDraft, handoff: HandOver) -> None:
    """Replace the tools of the agent before by those of *handoff*; tools that a caller has detached stay away.

    Approvals "for always" end for the tools that leave or are other ones.
    """
    state = draft.state
    stay = {name: attached for name, attached in state.tools.items() if name not in handoff.leaves}
    new = {
        spec.name: AttachedTool(spec, handoff.revision)
        for spec in handoff.tools
        if spec.name not in state.removed_tools and spec.name not in stay
    }
    removed = tuple(name for name in handoff.leaves if name in state.tools and name not in new)
    ended = {name for name in handoff.leaves if name not in new or new[name].spec != _spec(state.tools.get(name))}
    state.approved_always = frozenset(pair for pair in state.approved_always if pair[0] not in ended)
    state.standing_approvals = tuple(approval for approval in state.standing_approvals if approval.tool not in ended)
    put_tools(draft, stay | new)
    report_tools(draft, tuple(new), removed, "")


def _spec(attached: AttachedTool | None) -> object:
    """Return the description of *attached*; `None` if there is no such tool."""
    return None if attached is None else attached.spec


def _change_model(draft: StepDraft, handoff: HandOver) -> None:
    """Use the models of *handoff* from the next request on. No-op if it has none."""
    if not handoff.models:
        return
    (model, options), *others = handoff.models
    spares = tuple([Spare(name, own_options) for name, own_options in others])
    draft.switch_model(model, options, None, spares, handoff.priced)
    turn = draft.state.turn
    if turn is not None:
        draft.state.turn = turn.but(model=model, options=options, spares=spares)
