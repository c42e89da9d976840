"""Bugs in the machine: steps that lose, repeat or invent something."""

from __future__ import annotations

from agentrail import Abort, Context, Continue, State
from agentrail.core.machine import approvals, endings, flow, prompts, requests, tool_checks, tool_results, tool_runs
from agentrail.core.machine.draft import StepDraft
from agentrail.core.machine.tool_results import hold_timer, put, results_of
from agentrail.core.vocabulary.commands import RespondSent
from agentrail.core.vocabulary.tool_calls import Batch, Call, CallList, CallStatus, DetachedCall, Hold
from agentrail.events import AgentEnd, Event, SteeringApplied
from agentrail.hooks import attachments, hook_run
from agentrail.hooks.declarations import Used
from agentrail.hooks.hook_runner import PluginEntry
from agentrail.hooks.ruling import PluginAnswer
from agentrail.models import Origin, Partial, Text, ToolMessage, UserMessage
from agentrail.plugins import BeforeRequest, BudgetGuard, Hook, UsageLimits
from agentrail.plugins.budget import Spent
from agentrail.tools import EffectClass, Ok
from property_tests.planted import Bed, Planting
from tests.kit import DONE, AbortSent, Phase, Ruling, ToolReturned, Verdict

BED = Bed()
bug = BED.bug


# What people say


@bug("of several steering texts only the last is said")
def steering_text_lost(p: Planting) -> None:
    def merge(draft: StepDraft) -> None:
        waiting, draft.state.steering = draft.state.steering, ()
        if waiting:
            draft.append_messages(UserMessage((Text(waiting[-1].text),), Origin.STEERING))
            draft.emit(SteeringApplied(tuple(text.ref for text in waiting), len(waiting)))

    p.everywhere(requests.merge_steering, merge)


@bug("steering that no request has carried is forgotten when the turn ends")
def steering_forgotten_at_the_end(p: Planting) -> None:
    def forget(draft: StepDraft) -> None:
        draft.state.steering = ()

    p.put(prompts, "_steering_to_queue", forget)


@bug("the youngest prompt of the queue is taken first")
def queue_from_the_wrong_end(p: Planting) -> None:
    settle = prompts.settle

    def wrong(draft: StepDraft) -> None:
        if draft.state.stop_reason is None and not draft.state.plugin_changes and draft.state.queue:
            draft.state.queue = (draft.state.queue[-1], *draft.state.queue[:-1])
        settle(draft)

    p.everywhere(settle, wrong)


# Calls and their results


@bug("the last call of a batch gets its result twice")
def result_twice(p: Planting) -> None:
    def twice(done: Batch) -> tuple[ToolMessage, ...]:
        results = results_of(done)
        return (*results, *results[-1:])

    p.everywhere(results_of, twice)


@bug("an answer that comes too late is a second result")
def late_result_counts(p: Planting) -> None:
    def on_returned(draft: StepDraft, returned: ToolReturned) -> None:
        call = tool_results.find(draft, returned.call_id)
        if call is not None and isinstance(returned.result, Ok):
            tool_runs.take_answer(draft, call, returned.result)
            return
        original(draft, returned)

    original = tool_runs.on_returned
    p.everywhere(original, on_returned)


@bug("a call is started twice when two may run at once")
def call_started_twice(p: Planting) -> None:
    start = tool_runs._start  # noqa: SLF001 - this is what is broken

    def twice(draft: StepDraft, call: Call) -> None:
        start(draft, call)
        if draft.state.running_calls() > 1:
            draft.effects.append(draft.effects[-1])

    p.put(tool_runs, "_start", twice)


@bug("a tool that must not run twice is tried again")
def unsafe_tool_tried_again(p: Planting) -> None:
    p.put(tool_runs, "CAN_RUN_AGAIN", frozenset(EffectClass))


@bug("one call more than allowed runs at once")
def one_call_too_many(p: Planting) -> None:
    counted = State.running_calls
    p.put(State, "running_calls", lambda state: counted(state) - 1)


@bug("calls that ran too long are reported, and not cancelled")
def overdue_call_not_cancelled(p: Planting) -> None:
    quarantine = tool_results.quarantine

    def wrong(draft: StepDraft, detached_calls: tuple[DetachedCall, ...]) -> None:
        quarantine(draft, detached_calls if len(detached_calls) > 1 else ())

    p.everywhere(quarantine, wrong)


@bug("ids of calls begin again after a while")
def call_ids_used_again(p: Planting) -> None:
    make = StepDraft.make_id

    def short(draft: StepDraft, prefix: str) -> str:
        made = make(draft, prefix)
        return f"c{int(made[1:]) % 16}" if prefix == "c" else made

    p.put(StepDraft, "make_id", short)


# Plugins


@bug("a block does not count if another plugin has replaced the arguments before", "together")
def block_ignored_in_one_order(p: Planting) -> None:
    def block(run: hook_run.LiveHookRun, entry: PluginEntry, said: PluginAnswer) -> Ruling | None:
        return None if run.decisions.args is not None else run.ruling(Verdict.BLOCK, entry, said.text or "")

    p.everywhere(hook_run._block, block)  # noqa: SLF001 - this is what is broken


@bug("plugins are asked in the order of their registration, whatever their priority", "together")
def registration_order_counts(p: Planting) -> None:
    p.everywhere(attachments.in_order, lambda row: tuple(range(len(row))))


@bug("guards are not asked again when the arguments were replaced behind them", "together")
def guard_not_asked_again(p: Planting) -> None:
    p.rewrite(hook_run.LiveHookRun.run, "if guards:", "if guards and self.final:")


@bug("a held call is ready at once")
def held_call_runs_without_consent(p: Planting) -> None:
    hold = tool_checks.hold

    def wrong(draft: StepDraft, call: Call, ruled: Ruling, pause: object) -> None:
        hold(draft, call, ruled, pause)  # type: ignore[arg-type]  # handed on
        found = tool_results.find(draft, call.call_id)
        if found is not None and draft.state.turn_count % 2:
            put(draft, found.but(status=CallStatus.READY))

    p.everywhere(hold, wrong)


@bug("an approval stays open, and can be given again")
def approval_twice(p: Planting) -> None:
    approved = approvals._approved  # noqa: SLF001 - this is what is broken

    def wrong(call: Call, hold: Hold, edited: object) -> Call:
        return approved(call, hold, edited).but(status=CallStatus.HELD, hold=hold)  # type: ignore[arg-type]

    p.put(approvals, "_approved", wrong)


@bug("arguments that the person has edited are not those that run")
def edited_arguments_ignored(p: Planting) -> None:
    approved = approvals._approved  # noqa: SLF001 - this is what is broken

    def wrong(call: Call, hold: Hold, _: object) -> Call:
        return approved(call, hold, None)

    p.put(approvals, "_approved", wrong)


@bug("a call that nobody has decided about in time runs", "together")
def silence_is_consent(p: Planting) -> None:
    def on_hold_timer(draft: StepDraft, approval_id: str) -> None:
        found = approvals.held_calls(draft).get(approval_id)
        if found is not None:
            call, hold = found
            approvals.resolve(draft, call, hold, "timeout", "tool_approval_timeout", goes_on=True)
            put(draft, approvals._approved(call, hold, None))  # noqa: SLF001 - this is what is broken
            draft.due.append(("before_tool", call.call_id))

    original = approvals.on_hold_timer
    p.everywhere(original, on_hold_timer)


@bug("who answers a question is told that it is done, and the call goes on waiting")
def response_lost(p: Planting) -> None:
    original = approvals.on_respond

    def on_respond(draft: StepDraft, sent: RespondSent) -> None:
        if sent.ref in approvals.open_questions(draft) and draft.state.turn_count % 2:
            draft.answer = DONE
            return
        original(draft, sent)

    p.everywhere(original, on_respond)


@bug("the timer of a hold goes on when it was decided")
def hold_timer_not_cleared(p: Planting) -> None:
    clear = StepDraft.clear_timer
    p.put(
        StepDraft, "clear_timer", lambda draft, timer: None if timer.startswith(hold_timer("")) else clear(draft, timer)
    )


# Turns


@bug("an abort while tools run is accepted, and the turn goes on")
def abort_leaves_turn_open(p: Planting) -> None:
    original = endings.on_abort

    def on_abort(draft: StepDraft, sent: AbortSent) -> None:
        if draft.state.phase is Phase.EXECUTING_TOOLS:
            draft.answer = DONE
        else:
            original(draft, sent)

    p.everywhere(original, on_abort)


@bug("an abort drops the results of calls that were not done")
def history_invalid_after_abort(p: Planting) -> None:
    original = tool_results.kill

    def kill(draft: StepDraft, kill_tools: str, why: str) -> None:
        done = () if draft.state.batch is None else tuple(call.call_id for call in draft.state.batch.calls if call.done)
        original(draft, kill_tools, why)
        if draft.state.batch is not None:
            calls = tuple(call for call in draft.state.batch.calls if call.call_id in done)
            draft.state.batch = draft.state.batch.but(calls=CallList(calls))

    p.everywhere(original, kill)


@bug("the end of a turn is reported twice if it was prolonged")
def turn_ends_twice(p: Planting) -> None:
    original = endings.end_turn

    def end_turn(draft: StepDraft, stop: str) -> None:
        turn = draft.state.turn
        original(draft, stop)
        if turn is not None and draft.state.round > 1:
            draft.emit(AgentEnd(turn.ref, stop, (), draft.state.usage.minus(turn.used)))

    p.everywhere(original, end_turn)


@bug("after_turn does not run for a turn that was aborted")
def after_turn_left_out(p: Planting) -> None:
    original = endings.begin_after_turn

    def begin(draft: StepDraft, ref: str) -> Hook | None:
        if draft.state.turn is not None and draft.state.turn.ended == "aborted":
            endings.turn_over(draft)
            return None
        return original(draft, ref)

    p.everywhere(original, begin)


@bug("a request that failed is not tried again: its timer is not set")
def retry_timer_not_set(p: Planting) -> None:
    def wrong(draft: StepDraft, timer: str, at: int) -> None:
        if timer != "retry":
            set_timer(draft, timer, at)

    set_timer = StepDraft.set_timer
    p.put(StepDraft, "set_timer", wrong)


@bug("every fiftieth event takes two numbers")
def hole_in_the_numbers(p: Planting) -> None:
    emit = StepDraft.emit

    def wrong(draft: StepDraft, *events: Event, by: str = "") -> None:
        for event in events:
            if draft.state.last_seq % 50 == 49:
                draft.state.last_seq += 1
            emit(draft, event, by=by)

    p.put(StepDraft, "emit", wrong)


@bug("a request that was cut takes back what it has used")
def usage_falls(p: Planting) -> None:
    def wrong(draft: StepDraft, partial: Partial) -> None:
        keep(draft, partial)
        if partial.text:
            draft.state.usage = draft.state.usage.but(output_tokens=max(0, draft.state.usage.output_tokens - 50))

    keep = endings.keep_partial
    p.everywhere(keep, wrong)


# Budgets


@bug("the limit on tokens looks at the turn alone")
def budget_of_the_turn_alone(p: Planting) -> None:
    original = BudgetGuard.before_request

    def wrong(guard: BudgetGuard, hook: BeforeRequest, state: Spent, ctx: Context) -> Continue[Spent] | Abort[Spent]:
        return original(guard, hook, state, ctx.but(usage=ctx.turn_usage))

    reached = UsageLimits.reached

    def wrongly_reached(limits: UsageLimits, used: Used) -> str | None:
        return reached(limits, used.but(usage=used.turn_usage))

    p.put(BudgetGuard, "before_request", wrong)
    p.put(UsageLimits, "reached", wrongly_reached)


@bug("the limit on money looks at the turn alone")
def money_of_the_turn_alone(p: Planting) -> None:
    original = BudgetGuard.before_request

    def wrong(guard: BudgetGuard, hook: BeforeRequest, state: Spent, ctx: Context) -> Continue[Spent] | Abort[Spent]:
        if guard.max_usd is None:
            return original(guard, hook, state, ctx)
        cost = ctx.turn_usage.cost_usd
        return original(guard, hook, state, ctx.but(usage=ctx.usage.but(cost_usd=cost or 0.0)))

    reached = UsageLimits.reached

    def wrongly_reached(limits: UsageLimits, used: Used) -> str | None:
        return reached(limits, used.but(usage=used.usage.but(cost_usd=used.turn_usage.cost_usd or 0.0)))

    p.put(BudgetGuard, "before_request", wrong)
    p.put(UsageLimits, "reached", wrongly_reached)


@bug("a tool that a plugin runs does not wait for a plugin that asks about it")
def run_not_waiting_for_its_ruling(p: Planting) -> None:
    screen, refuse = flow._screen, flow._why_not_run  # noqa: SLF001
    p.rewrite(screen, "decided.verdict is ASK and state.stop_reason is None", "False")
    p.rewrite(refuse, "(PASS, SKIP)", "(PASS, SKIP, ASK)")
