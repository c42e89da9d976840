"""One prompt followed to its end, of a session here and of one at a host: its outcome, and who decides meanwhile.

On several hosts, each is `pytest.mark.long`.
"""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeAlias

import pytest
import trio
from attrs import frozen

from agentrail import Abort, AnySession, Context, HeldCall, Plugin, SessionSpec, awaited, tool
from agentrail.cli.running import prompt_run
from agentrail.cli.running.deciders import NO_ANSWER, approve_all, decide_nothing, refuse_all
from agentrail.cli.running.prompt_run import PromptRun
from agentrail.cli.running.run_outcome import Outcome, RunEnding, run_view
from agentrail.errors import KeyRefused
from agentrail.events import AgentAbort, AgentEnd, ApprovalRequired, Envelope
from agentrail.models import JsonObject, Price, StopReason, ToolMessage, Usage
from agentrail.plugins import BeforePrompt, BeforeRequest, BudgetGuard, HumanApproval
from agentrail.testing import ScriptedModel, call, fail, overflow, say
from agentrail.testing.probe_plugins import CriticalRaiser
from agentrail.tools.builtin import ask_user
from tests.kit import Element, freeze_object
from tests.patience import PATIENCE
from tests.remote.session_access import EVERY_ACCESS, Open, local

SCHEMA = freeze_object({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})

Decider: TypeAlias = Callable[[AnySession, tuple[HeldCall, ...]], Awaitable[str | None]]


@tool
async def pay(to: str) -> str:
    """Pay somebody."""
    return f"paid {to}"


@tool(effect="pure")
async def look() -> str:
    """Look."""
    return "seen"


@frozen
class NoPrompts(Plugin[int]):
    """Refuses each prompt."""

    def init(self, ctx: Context) -> int:
        return 0

    def before_prompt(self, hook: BeforePrompt, state: int, ctx: Context) -> Abort[int]:
        return Abort("no prompts today")


@frozen
class NoRequests(Plugin[int]):
    """Aborts each turn."""

    def init(self, ctx: Context) -> int:
        return 0

    def before_request(self, hook: BeforeRequest, state: int, ctx: Context) -> Abort[int]:
        return Abort("not this")


def spec_of(*script: Element, plugins: Sequence[Plugin[int]] = ()) -> SessionSpec:
    approval = HumanApproval(tools=["pay"], timeout=None)
    return SessionSpec(model=ScriptedModel(list(script)), tools=[pay, look, ask_user], plugins=[approval, *plugins])


PAYING = say("I will pay.", calls=[call("pay", {"to": "ann"})])
LOOKING = say(calls=[call("look")])
ASKING = say(calls=[call("ask_user", {"question": "Which?", "options": ["tea", "milk"]})])


@frozen
class Followed:
    """How a run ended, and what was shown of it."""

    ending: RunEnding
    run: PromptRun
    events: list[Envelope]

    @property
    def outcome(self) -> Outcome:
        return self.ending.outcome


async def follow(
    session: AnySession,
    decide: Decider = decide_nothing,
    schema: JsonObject | None = None,
    since: int | None = None,
    heard: Callable[[Envelope], bool] = lambda _: True,
) -> Followed:
    """Follow the prompt `Go on.` to its end."""
    events: list[Envelope] = []

    async def show(envelope: Envelope) -> bool:
        events.append(envelope)
        return heard(envelope)

    with trio.fail_after(PATIENCE):
        run = PromptRun(session, partial(decide, session), show)
        return Followed(await run.run("Go on.", schema, since), run, events)


@EVERY_ACCESS
async def test_an_answer_is_there(opened: Open) -> None:
    async with opened(spec_of(LOOKING, say("Seen.", usage=Usage(5, 7)))) as opened_run:
        followed = await follow(opened_run.session)
        assert followed.ending == RunEnding(Outcome.DONE, stop_reason="end", text="Seen.")
        assert isinstance(followed.events[-1].event, AgentEnd)
        view = run_view(followed.ending, followed.run.tally, opened_run.session.id, await followed.run.usage())
        assert (view.answer, view.turns, view.rounds, view.usage.output_tokens) == ("Seen.", 1, 2, 7)


@EVERY_ACCESS
async def test_an_answer_fits_the_schema(opened: Open) -> None:
    async with opened(spec_of("no object", '```json\n{"n": 3}\n```')) as opened_run:
        followed = await follow(opened_run.session, schema=SCHEMA)
        assert followed.ending == RunEnding(Outcome.DONE, stop_reason="end", answer=freeze_object({"n": 3}))


@EVERY_ACCESS
@pytest.mark.parametrize("schema", [None, SCHEMA], ids=["text", "schema"])
async def test_what_waits_for_a_person_ends_the_run_and_every_event_of_it_was_shown(
    opened: Open, schema: JsonObject | None
) -> None:
    async with opened(spec_of(say(calls=[call("look"), call("pay", {"to": "ann"})]), "Paid.")) as opened_run:
        followed = await follow(opened_run.session, schema=schema)
        assert (followed.outcome, followed.ending.stop_reason) == (Outcome.HELD, "held")
        (waiting,) = followed.ending.held_calls
        assert waiting.args == {"to": "ann"}
        approvals = [envelope.event for envelope in followed.events if isinstance(envelope.event, ApprovalRequired)]
        assert [event.approval_id for event in approvals] == [waiting.id]
        assert followed.ending.problem.startswith('`pay` waits for approval with {"to":"ann"}; nobody is here to ask: ')


@EVERY_ACCESS
@pytest.mark.parametrize("schema", [None, SCHEMA], ids=["text", "schema"])
async def test_all_is_approved_one_round_after_the_other(opened: Open, schema: JsonObject | None) -> None:
    async with opened(spec_of(PAYING, PAYING, '{"n": 2}')) as opened_run:
        followed = await follow(opened_run.session, approve_all, schema)
        assert followed.outcome is Outcome.DONE
        messages = await awaited(opened_run.session.messages())
        assert [message.text for message in messages if isinstance(message, ToolMessage)] == ["paid ann"] * 2


@EVERY_ACCESS
async def test_all_is_refused_and_nothing_ran(opened: Open) -> None:
    async with opened(spec_of(PAYING, "Not paid.")) as opened_run:
        followed = await follow(opened_run.session, refuse_all)
        problem = "nothing ran of what was wanted: `pay` was not approved (nobody is here to ask)"
        assert followed.ending == RunEnding(Outcome.REFUSED, problem, "end", "Not paid.")


@EVERY_ACCESS
async def test_what_was_refused_beside_other_work_is_no_refusal_of_all(opened: Open) -> None:
    async with opened(spec_of(LOOKING, PAYING, "Looked.")) as opened_run:
        assert (await follow(opened_run.session, refuse_all)).ending == RunEnding(
            Outcome.DONE, stop_reason="end", text="Looked."
        )


@EVERY_ACCESS
async def test_a_question_is_not_approved_but_may_be_refused(opened: Open) -> None:
    async with opened(spec_of(ASKING, "Tea then.")) as opened_run:
        followed = await follow(opened_run.session, approve_all)
        assert followed.outcome is Outcome.HELD
        assert followed.ending.problem.startswith(f"`ask_user` asks: Which? (tea / milk); {NO_ANSWER}: ")
    async with opened(spec_of(ASKING, "Tea then.")) as opened_run:
        assert (await follow(opened_run.session, refuse_all)).ending.text == "Tea then."


@EVERY_ACCESS
async def test_a_reader_who_leaves_ends_the_run(opened: Open) -> None:
    async with opened(spec_of(PAYING, "Paid.")) as opened_run:
        followed = await follow(
            opened_run.session, heard=lambda envelope: not isinstance(envelope.event, ApprovalRequired)
        )
        assert followed.ending == RunEnding(Outcome.FAILED)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_aborts_the_turn_also_while_somebody_is_asked(number: signal.Signals) -> None:
    async def never(_session: AnySession, _calls: tuple[HeldCall, ...]) -> None:
        os.kill(os.getpid(), number)
        await trio.sleep_forever()

    async with local(spec_of(PAYING, "Paid.")) as opened_run:
        followed = await follow(opened_run.session, never)
        assert followed.outcome is Outcome.INTERRUPTED
        assert isinstance(followed.events[-1].event, AgentAbort)


async def test_a_second_signal_leaves_although_a_reader_of_events_is_stuck() -> None:
    async def show(envelope: Envelope) -> bool:
        if isinstance(envelope.event, AgentAbort):
            os.kill(os.getpid(), signal.SIGINT)
            await trio.sleep_forever()
        return True

    async def never(_calls: tuple[HeldCall, ...]) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await trio.sleep_forever()

    async with local(spec_of(PAYING, "Paid.")) as opened_run:
        with trio.fail_after(PATIENCE):
            run = PromptRun(opened_run.session, never, show)
            assert (await run.run("Go on.")).outcome is Outcome.INTERRUPTED


async def test_a_signal_that_is_ignored_stays_ignored() -> None:
    old_handler = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        async with local(spec_of(LOOKING, "Seen.")) as opened_run:

            def hang_up(_: Envelope) -> bool:
                os.kill(os.getpid(), signal.SIGHUP)
                return True

            assert (await follow(opened_run.session, heard=hang_up)).outcome is Outcome.DONE
    finally:
        signal.signal(signal.SIGHUP, old_handler)


@EVERY_ACCESS
@pytest.mark.parametrize("seconds", [0.05, 1e-6], ids=["while it is asked", "before"])
async def test_nobody_is_asked_any_more_when_a_hold_has_expired(opened: Open, seconds: float) -> None:
    async def never(_session: AnySession, _calls: tuple[HeldCall, ...]) -> None:
        await trio.sleep_forever()

    expiring = spec_of(PAYING, "Not paid.").but(plugins=[HumanApproval(tools=["pay"], timeout=seconds)])
    async with opened(expiring) as opened_run:
        followed = await follow(opened_run.session, never)
        assert (followed.outcome, followed.ending.text) == (Outcome.REFUSED, "Not paid.")
        assert followed.ending.problem.startswith("nothing ran of what was wanted: `pay` was not approved (")


@EVERY_ACCESS
@pytest.mark.parametrize("decide", [approve_all, decide_nothing])
async def test_what_waits_in_a_sub_agent_is_decided_too(
    opened: Open, decide: Decider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt_run, "LAST_EVENTS", math.inf)  # its event comes by itself
    task = call("task", {"agent": "buyer", "description": "buy", "prompt": "Buy tea."})
    buyer = spec_of(PAYING, "Paid.").but(description="Buys.")
    parent = SessionSpec(model=ScriptedModel([say(calls=[task]), "Bought."]), agents={"buyer": buyer})
    async with opened(parent) as opened_run:
        followed = await follow(opened_run.session, decide)
        if decide is approve_all:
            assert followed.ending == RunEnding(Outcome.DONE, stop_reason="end", text="Bought.")
        else:
            assert followed.outcome is Outcome.HELD
            assert followed.ending.problem.startswith('`pay` waits for approval with {"to":"ann"}; ')


# Outcomes, each by what brings it about


CUT = say("So lo", stop=StopReason.LENGTH)
SPENT = Usage(1_000_000, 1_000_000)

OUTCOMES: dict[str, tuple[SessionSpec, Outcome, str]] = {
    "a prompt that a plugin refuses": (
        spec_of("hi", plugins=[NoPrompts()]),
        Outcome.REFUSED,
        "the prompt was refused: no prompts today",
    ),
    "a turn that a plugin aborts": (
        spec_of("hi", plugins=[NoRequests()]),
        Outcome.REFUSED,
        "the turn was stopped: NoRequests: not this",
    ),
    "a model that refuses": (
        spec_of(say("No.", stop=StopReason.REFUSED)),
        Outcome.REFUSED,
        "the model refuses to answer this; ask otherwise",
    ),
    "a key that is refused": (
        spec_of(fail(KeyRefused("sk-…"))),
        Outcome.PROVIDER,
        "the model failed: the provider refuses the key: sk-…; check the variable that it is read from",
    ),
    "a prompt that is too long": (
        spec_of(overflow()),
        Outcome.PROVIDER,
        "the model cannot read so much: ",
    ),
    "an answer that was cut": (spec_of(CUT), Outcome.BUDGET, "the answer was cut off, as it is longer than "),
    "too many rounds": (
        spec_of(LOOKING, "May I not?").but(max_rounds=1),
        Outcome.BUDGET,
        "the most rounds of a turn were reached; allow more by `--max-rounds`",
    ),
    "a turn that takes too long": (
        spec_of(say("slow", delay=60)).but(max_turn_seconds=0.05),
        Outcome.BUDGET,
        "the turn took longer than 0.05 s; allow more by `--max-seconds`",
    ),
    "a critical plugin that breaks": (
        spec_of("hi", plugins=[CriticalRaiser("before_request")]),
        Outcome.FAILED,
        "the turn was stopped: CriticalRaiser: critical plugin `CriticalRaiser` broke: ",
    ),
}


@pytest.mark.parametrize("name", OUTCOMES)
async def test_each_way_to_end_has_an_outcome(name: str) -> None:
    ends, outcome, problem = OUTCOMES[name]
    async with local(ends) as opened_run:
        followed = await follow(opened_run.session)
        assert (followed.outcome, followed.ending.problem[: len(problem)]) == (outcome, problem)
        assert "\n" not in followed.ending.problem


@pytest.mark.parametrize(
    "limits",
    [
        {"max_tokens": 100},
        {"max_turn_tokens": 100},
        {"max_usd": 0.01},
        {"max_rounds": 1},
        {"max_turn_rounds": 1},
        {"max_calls": 0},
        {"max_turn_calls": 0},
        {"max_seconds": 0},
        {"max_turn_seconds": 0},
    ],
    ids=lambda limits: next(iter(limits)),
)
async def test_each_limit_of_the_guard_is_one(limits: dict[str, float]) -> None:
    looking = say(calls=[call("look")], usage=SPENT)
    guarded = spec_of(looking, "Seen.", plugins=[BudgetGuard(**limits)])  # type: ignore[arg-type, list-item]
    async with local(guarded.but(prices={"scripted": Price(1, 1)})) as opened_run:
        followed = await follow(opened_run.session)
        assert followed.outcome is Outcome.BUDGET, followed.ending
        assert f"{next(iter(limits))}=" in followed.ending.problem


async def test_an_answer_that_never_fits_is_a_failure() -> None:
    async with local(spec_of("no", "no", "no", "no")) as opened_run:
        followed = await follow(opened_run.session, schema=SCHEMA)
        assert followed.outcome is Outcome.FAILED
        assert followed.ending.problem.startswith("the answer does not fit the schema: ")
        assert isinstance(followed.events[-1].event, AgentAbort)
