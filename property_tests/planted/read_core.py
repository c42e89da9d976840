"""What a reader has broken of plugins, budgets, and of sessions that come back."""

from __future__ import annotations

from typing import Final

from agentrail.core.machine import (
    configuration,
    forking,
    in_doubt_calls,
    recovery,
    subagents,
    tool_runs,
)
from agentrail.core.machine.draft import StepDraft
from agentrail.core.vocabulary import changes
from agentrail.hooks import hook_run
from agentrail.plugins import BudgetGuard
from agentrail.values.messages import Rearranged
from property_tests.planted.change import Change

# ruff: noqa: SLF001 - private parts are what is broken here

CHANGES: Final = (
    Change(
        "field_left_out_of_the_fold",
        "what a step does to the steering texts that wait is not added up",
        changes.fold,
        "name, now = NAMES[index], fields[index]\n",
        "name, now = NAMES[index], fields[index]\n        if name == 'steering':\n            continue\n",
        "world",
    ),
    Change(
        "range_off_by_one_after_a_compaction",
        "of what a compaction keeps, the last message is lost when the session comes back",
        Rearranged.of,
        "history[piece.start : piece.stop]",
        "history[piece.start : max(piece.start + 1, piece.stop - 1)]",
        "world",
    ),
    Change(
        "block_keeps_decisions",
        "an abort does not drop what plugins before it have decided",
        hook_run.LiveHookRun.ruling,
        "if verdict is ABORT or verdict is BLOCK or",
        "if",
        "world",
    ),
    Change(
        "states_of_an_abort_lost",
        "what plugins remember of a hook that aborts is lost",
        StepDraft.record_ruling,
        "if ruling.states:",
        'if ruling.states and ruling.verdict.value != "abort":',
        "world",
    ),
    Change(
        "first_write_wins",
        "options that replace others that wait are queued beside them",
        configuration._queue,
        "if not (old.kind == change.kind",
        "if not (False and old.kind == change.kind",
        "world",
    ),
    Change(
        "attached_at_the_end",
        "a plugin that joins is asked last, whatever its priority",
        configuration._insert,
        "index = sum(other.priority <= attached.priority for other in state.plugins)",
        "index = len(state.plugins)",
        "world",
    ),
    Change(
        "usage_of_subagents_twice",
        "what a sub-agent uses is counted anew with each report",
        subagents.on_reported,
        "draft.add_usage(reported.used.minus(agent.used))",
        "draft.add_usage(reported.used)",
        "safety",
    ),
    Change(
        "budget_inherited_whole",
        "a sub-agent may use as much as its parent had at first",
        BudgetGuard.inherited,
        "_rest(self.max_tokens, used.total_tokens)",
        "self.max_tokens",
        "budget",
    ),
    Change(
        "nothing_reserved",
        "a budget reserves nothing before it spends",
        BudgetGuard._tokens_with,
        "reserved = max(1, total_size(messages) // CHARS_PER_TOKEN)",
        "reserved = 0",
        "budget",
    ),
    Change(
        "turns_share_their_budget",
        "what one turn has used counts for the next",
        BudgetGuard.after_turn,
        "turn_rounds=0, turn_calls=frozenset()",
        "turn_rounds=state.turn_rounds, turn_calls=state.turn_calls",
        "budget",
    ),
    Change(
        "reported_event_without_a_number",
        "events of sub-agents take no number",
        StepDraft.emit,
        "            state.last_seq += 1\n",
        '            state.last_seq += 0 if type(event).__name__ == "SubAgentEvent" else 1\n',
        "world",
    ),
    Change(
        "fork_goes_on_counting",
        "a fork goes on with the numbers of its origin",
        forking.branch,
        "        last_seq=0,\n",
        "",
        "fork",
    ),
    Change(
        "lingering_calls_forgotten",
        "calls in the background are forgotten when the process ends",
        recovery._end_detached,
        "    for detached in lingering:\n",
        "    for detached in ():\n",
        "world",
    ),
    Change(
        "done_is_not_believed",
        "a call whose probe says that it is done runs again",
        tool_runs.on_probed,
        "case NotStarted():",
        "case NotStarted() | Ok():",
        "world",
    ),
    Change(
        "fork_takes_the_queue",
        "a fork has the prompts that wait in its origin",
        forking.branch,
        "        queue=(),\n",
        "",
        "fork",
    ),
    Change(
        "fork_keeps_approval_ids",
        "held calls of a fork have the ids of its origin",
        forking._wait_again,
        'old.but(approval_id=draft.make_decision_id("a"))',
        "old",
        "fork",
    ),
    Change(
        "fork_denies_what_ran",
        "a fork says that a call that ran did not",
        forking._settle,
        "if call.started_at:",
        "if call.started_at < 0:",
        "fork",
    ),
    Change(
        "clock_of_a_task_goes_on",
        "while a sub-agent waits for a person the time of its call goes on",
        subagents._let_wait,
        "    draft.clear_timer(timer)\n",
        "",
        "world",
    ),
    Change(
        "one_doubt_at_most",
        "only the last call that was stopped is remembered",
        in_doubt_calls.remember,
        "(*draft.state.in_doubt_calls, doubt)",
        "(doubt,)",
        "world",
    ),
    Change(
        "model_switched_in_the_turn",
        "a model that was chosen is used in the turn that is open",
        configuration.on_switch_model,
        "    draft.switch_model(command.model, command.options, None, command.spares, command.priced)\n",
        "    draft.switch_model(command.model, command.options, None, command.spares, command.priced)\n"
        "    if draft.state.turn is not None:\n"
        "        draft.state.turn = draft.state.turn.but(model=command.model, options=command.options)\n",
        "world",
    ),
)
"""Which functions say something else, and what finds it."""
