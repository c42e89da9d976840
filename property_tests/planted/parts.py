"""Compares parts of the package with simple models, from a seed: mailbox, limits, supervision, budgets, forks."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Final

import trio
from hypothesis import HealthCheck, seed, settings
from hypothesis import Phase as HypothesisPhase
from hypothesis.stateful import run_state_machine_as_test
from trio.testing import MockClock

from agentrail import State
from agentrail.core.machine.draft import StepDraft
from agentrail.core.machine.forking import branch
from agentrail.core.machine.step import step
from agentrail.core.vocabulary.commands import KILLS
from agentrail.core.vocabulary.effects import StartRequest
from agentrail.core.vocabulary.inputs import SessionBranched
from agentrail.core.vocabulary.state import drafted
from agentrail.core.vocabulary.tool_calls import CallStatus
from agentrail.errors import MailboxFull, TransientModelError
from agentrail.events import AgentAbort, PromptReceived, ToolBlocked, ToolCalls
from agentrail.hooks.live_runner import LiveRunner
from agentrail.models import EmitChunk, Limit, ModelRequest, Response, Text, ToolMessage, Usage
from agentrail.plugins import BudgetGuard
from agentrail.runtime.inbox.letter import NO_ANSWER_WANTED, Letter
from agentrail.runtime.inbox.mailbox import MAX_MESSAGES, PATIENCE, Mailbox
from agentrail.runtime.shared.admission import Gate
from agentrail.runtime.shared.clock import Clock
from agentrail.runtime.shared.provider_limits import ProviderLimits
from agentrail.runtime.shared.reply_slot import Slot
from agentrail.runtime.shared.timers import Timers
from agentrail.testing import Choose, ScriptStep, Trace, call, prompt, say, simulate
from agentrail.testing.world.random_setups import draw_scene
from agentrail.values.messages import total_size
from agentrail.values.stream import CHARS_PER_TOKEN
from property_tests.test_supervising import Supervising
from tests.kit import AbortSent, Arrival, Phase, PromptSent, TimerFired
from tests.machinery.worlds.checked_world import checked_play

ON_PURPOSE: Final = "on purpose"


# The mailbox


class Lanes:
    """A simple model of the mailbox: three lists of letters."""

    def __init__(self) -> None:
        self.lanes: tuple[list[Letter], list[Letter], list[Letter]] = ([], [], [])
        self.urgent = 0
        self.last = 0

    @property
    def bounded(self) -> tuple[list[Letter], list[Letter], list[Letter]]:
        """The letters of callers in each lane, which are bounded in number."""
        return self.lanes[0], [letter for letter in self.lanes[1] if not letter.answer.settled], self.lanes[2]

    def aborts(self, mailbox: Mailbox, choose: Choose, name: str) -> bool:
        """Post an abort; return whether it was put in its lane, refused rightly, or joined to one that covers it."""
        abort = AbortSent(name, choose.pick(KILLS), choose.percent(30))
        letter = Letter(abort, command=name if choose.percent(80) else None)
        try:
            serving = mailbox.post_control(letter)
        except MailboxFull:
            return letter.command is not None
        if serving is letter:
            self.lanes[0].append(letter)
            return True
        serves = letter.command is None and serving in self.lanes[0]
        return serves and isinstance(serving.input, AbortSent) and serving.input.covers(abort)

    def results(self, mailbox: Mailbox, choose: Choose, name: str) -> None:
        """Post a result, or a letter with an answer, as a caller's message to running work has; it may be refused."""
        letter = Letter(TimerFired(name), answer=Slot() if choose.percent(50) else NO_ANSWER_WANTED)
        with suppress(MailboxFull):
            (mailbox.post_result if letter.answer.settled else mailbox.post_steering)(letter)
            self.lanes[1].append(letter)

    def prompts(self, mailbox: Mailbox, choose: Choose, name: str) -> None:
        """Post a prompt; without room it is refused."""
        letter = Letter(PromptSent((Text(name),)), size=choose.pick((10, 10, 30_000)))
        with suppress(MailboxFull):
            mailbox.post_user_nowait(letter)
            self.lanes[2].append(letter)

    def take(self) -> Letter:
        """Take out and return the letter that the mailbox should give next."""
        control, results, user = self.lanes
        clears = control and isinstance(control[0].input, AbortSent) and control[0].input.clear_queue
        before = next((letter for letter in user if clears and letter.number < control[0].number), None)
        if before is not None:
            user.remove(before)
            self.last = 2
            return before
        if (control or results) and not (user and self.urgent >= PATIENCE):
            self.urgent = self.urgent + 1 if user else 0
            self.last = 0 if control else 1
        else:
            self.urgent, self.last = 0, 2
        return self.lanes[self.last].pop(0)


def broken_mailbox(number: int) -> str | None:
    """Post, receive and put back letters in random order; return how the mailbox differs from `Lanes`, or `None`."""
    choose = Choose(Random(number).randrange)

    async def main() -> str | None:
        mailbox, lanes = Mailbox("s", Gate(float("inf"))), Lanes()
        received: Letter | None = None
        for index in range(choose.number(1, 400)):
            match choose.below(12):
                case 0 | 1:
                    if not lanes.aborts(mailbox, choose, f"{index}"):
                        return "served"
                case 2 | 3:
                    lanes.results(mailbox, choose, f"{index}")
                case 4 if received is not None:
                    mailbox.put_back(received)
                    lanes.lanes[lanes.last].insert(0, received)
                    received = None
                case 5 | 6 | 7 if any(lanes.lanes):
                    received = await mailbox.receive()
                    if received is not lanes.take():
                        return "lanes"
                case _:
                    lanes.prompts(mailbox, choose, f"{index}")
            if max(map(len, lanes.bounded)) > MAX_MESSAGES + 2:  # one that was put back, and an abort without an id
                return "bound"
        return None

    return trio.run(main)


# Limits of providers


class Fickle:
    """A model that answers or fails, and counts its concurrent requests."""

    name = "fickle"

    def __init__(self, choose: Choose) -> None:
        self._choose = choose
        self.out = 0
        self.most = 0

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        """Answer, or fail."""
        self.out += 1
        self.most = max(self.most, self.out)
        try:
            await trio.sleep(self._choose.below(100) / 100)
            if self._choose.percent(30):
                raise TransientModelError(ON_PURPOSE)
        finally:
            self.out -= 1
        return Response((Text("yes"),))


def broken_limits(number: int) -> str | None:
    """Make many requests to a provider with a limit; return what is wrong: too many at once, or one never sent."""
    choose = Choose(Random(number).randrange)
    limit, model, waiting = choose.number(1, 3), Fickle(choose), choose.number(4, 10)

    async def main() -> str | None:
        timers = Timers(Clock())
        limits = ProviderLimits({"fickle": Limit(concurrency=limit)}, timers)

        async def ask(index: int) -> None:
            try:
                await limits.stream(f"s{index % 3}", model, ModelRequest("fickle:one", ()), lambda _: None)
            except TransientModelError:
                return

        with trio.move_on_after(60) as scope:
            async with trio.open_nursery() as nursery:
                for index in range(waiting):
                    nursery.start_soon(ask, index)
        return "turn" if scope.cancelled_caught else None

    broken = trio.run(main, clock=MockClock(autojump_threshold=0))
    return broken or ("concurrency" if model.most > limit else None)


# The rules of supervision


def broken_rules(number: int) -> str | None:
    """Add and end children of a supervisor; compare each decision with a model that remembers every crash."""
    few = settings(
        max_examples=5,
        stateful_step_count=40,
        database=None,
        deadline=None,
        phases=(HypothesisPhase.generate,),
        suppress_health_check=(HealthCheck.too_slow,),
        print_blob=False,
        report_multiple_bugs=False,
    )
    try:
        run_state_machine_as_test(seed(number)(type("Seeded", (Supervising,), {})), settings=few)
    except AssertionError:
        return "reference"
    return None


# Forks


def broken_fork(number: int) -> str | None:
    """Fork a random session; check that numbers begin anew, queues are empty, and held calls have new ids."""
    choose = Choose(Random(number).randrange)
    world = checked_play(choose, draw_scene(choose), choose.number(1, 75))
    origin = world.state
    if origin.is_starting or origin.phase is Phase.ENDED:
        return None
    first = branch(origin, "fork")
    done = step(first, Arrival(SessionBranched("s", 1, (), origin.plugins), world.now, 0.5), world.hook_runner)
    return _wrong_with(origin, done.state, [envelope.seq for envelope in done.events])


def _wrong_with(origin: State, fork: State, numbers: list[int]) -> str | None:
    if numbers != list(range(1, len(numbers) + 1)) or fork.last_seq != len(numbers):
        return "numbers"
    if fork.queue or fork.steering or fork.plugin_changes or fork.usage != origin.usage:
        return "past"
    old = {call.hold.approval_id for call in origin.waiting_calls if call.hold is not None}
    if old & {call.hold.approval_id for call in fork.waiting_calls if call.hold is not None}:
        return "ids"
    said = {m.call_id: m.text for m in fork.history if isinstance(m, ToolMessage)}
    for one in () if fork.batch is None else fork.batch.calls:
        said |= {one.call_id: one.result.text} if one.result is not None else {}
    for one in () if origin.batch is None else origin.batch.calls:
        if one.status is CallStatus.RUNNING and "did not run" in said.get(one.call_id, ""):
            return "in flight"
    return None


# Budgets


def broken_budget(number: int) -> str | None:
    """Play turns under small budgets; check that each limit is kept, and what is left for a sub-agent."""
    choose = Choose(Random(number).randrange)
    guard = BudgetGuard(
        max_tokens=choose.pick((None, 60, 150)),
        max_turn_rounds=choose.pick((None, 1, 2)),
        max_turn_calls=choose.pick((None, 1, 2)),
    )
    script_steps: list[ScriptStep] = []
    for _ in range(choose.number(1, 4)):
        script_steps.append(prompt("please do this"))
        rounds = [choose.number(1, 2) for _ in range(choose.below(3))]
        script_steps += [say(calls=[call("read")] * calls, usage=Usage(20, 5)) for calls in rounds]
        script_steps.append(say("it is done", usage=Usage(20, 5)))
    trace = simulate([guard], script_steps)
    return _wrong_in_turns(trace, guard) or _wrong_for_children(trace, guard)


def _wrong_in_turns(trace: Trace, guard: BudgetGuard) -> str | None:
    rounds = calls = 0
    for happened in trace.steps:
        for event in (envelope.event for envelope in happened.step.events):
            if isinstance(event, PromptReceived):
                rounds = calls = 0
            elif isinstance(event, ToolCalls):
                calls += event.count
            elif isinstance(event, ToolBlocked) and calls <= (guard.max_turn_calls or 0):
                return "calls"
            elif (
                isinstance(event, AgentAbort)
                and "rounds" in (event.reason or "")
                and rounds < (guard.max_turn_rounds or 0)
            ):
                return "rounds"
        for effect in happened.step.effects:
            if isinstance(effect, StartRequest):
                rounds += 1
                reads = total_size(effect.request.messages) // CHARS_PER_TOKEN
                if guard.max_tokens is not None and happened.step.state.usage.total_tokens + reads > guard.max_tokens:
                    return "reserved"
    return None


def _wrong_for_children(trace: Trace, guard: BudgetGuard) -> str | None:
    ctx = StepDraft(drafted(trace.state), LiveRunner(lambda _: None), 0, 0.5).context()
    child = guard.inherited(trace.plugin_state("BudgetGuard"), ctx)  # type: ignore[arg-type]  # its own state
    left = None if guard.max_tokens is None else max(0, guard.max_tokens - trace.usage.total_tokens)
    return None if isinstance(child, BudgetGuard) and child.max_tokens == left else "inherited"


PARTS: Final = {
    "budget": broken_budget,
    "mailbox": broken_mailbox,
    "limits": broken_limits,
    "rules": broken_rules,
    "fork": broken_fork,
}
"""The checks by name: each takes a seed, and returns what is wrong, or `None`."""
