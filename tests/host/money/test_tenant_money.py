"""What the tenants of a host may spend in a day: reserved before it is spent, given back, and never exceeded."""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from agentrail import SessionHandle, SessionSpec, Supervisor
from agentrail.errors import AgentrailError, BadRecord, JournalFailed, Overloaded, TurnAborted
from agentrail.host.tenant_money import PATIENCE
from agentrail.journals import Balance, Expense, MemoryJournal
from agentrail.models import EmitChunk, ModelRequest, PingChunk, Price, Response, Text, TextChunk, Usage
from agentrail.plugins import Ask, BeforePrompt, CallModel, Context, Continue, Plugin
from agentrail.ports.money import DAY_MS
from agentrail.runtime.shared.clock import Clock
from agentrail.testing import ScriptedModel, call, fail, say
from agentrail.values.value import Value
from tests.host.money.paying import DOLLAR, MODEL, PRICE, balance, cost, in_virtual_time, open_paying, paid
from tests.kit import Element
from tests.test_counts import counted_calls

DAY = DAY_MS / 1000


async def ask(session: SessionHandle) -> str:
    """Return the answer of a turn, or why it was aborted."""
    try:
        return (await session.ask("well?")).text
    except TurnAborted as aborted:
        return str(aborted)


@in_virtual_time
async def test_a_request_is_sent_only_if_the_most_it_can_cost_is_left(caplog: pytest.LogCaptureFixture) -> None:
    journal = MemoryJournal()
    async with open_paying(20, journal) as supervisor:
        session = await supervisor.spawn(paid([cost(4)] * 3, most=10), tenant="acme")
        assert [await ask(session) for _ in range(3)] == ["fine"] * 3
        assert await balance(journal) == Balance(is_reserved=False, spent=12 * 10**9, reserved=0)
        problem = (
            "a request to `priced` may cost $10.0000, and usd_per_day=20 of the host has $8.0000 left until 00:00 UTC: "
            "ask again then, or with a smaller `max_tokens` in `model_options`, so that less is reserved for it"
        )
        aborted = f"the turn of prompt `p7` was aborted (plugin): {problem}; the request was not sent"
        assert await ask(session) == aborted
        # what the operator sees
        spent = "today, `acme` has spent $12.0000 and reserved $0.0000 for other requests"
        assert caplog.messages == [f"a request of `{session.id}` was not sent: {problem}; {spent}"]
        other = await supervisor.spawn(paid([cost(4)]), tenant="evil")
        assert await ask(other) == "fine"
        smaller = await supervisor.spawn(paid([cost(8)], most=8), tenant="acme")
        assert await ask(smaller) == "fine"


@pytest.mark.long
@in_virtual_time
async def test_the_next_day_has_its_own_money() -> None:
    journal = MemoryJournal()
    async with open_paying(10, journal) as supervisor:
        session = await supervisor.spawn(paid([cost(4), cost(5)]), tenant="acme")
        assert await ask(session) == "fine"
        assert "$6.0000 left" in await ask(session)
        await trio.sleep(DAY)
        assert await ask(session) == "fine"
        assert await balance(journal, days=1) == Balance(is_reserved=False, spent=5 * 10**9, reserved=0)


@in_virtual_time
async def test_who_finds_it_reserved_waits_until_it_is_given_back() -> None:
    journal = MemoryJournal()
    async with open_paying(25, journal) as supervisor:
        sessions = [await supervisor.spawn(paid([cost(3, delay=10)]), tenant="acme") for _ in range(3)]
        began = trio.current_time()
        ended: list[float] = []

        async def pay(session: SessionHandle) -> None:
            assert await ask(session) == "fine"
            ended.append(trio.current_time() - began)

        async with trio.open_nursery() as nursery:
            for session in sessions:
                nursery.start_soon(pay, session)
        assert ended == pytest.approx([10, 10, 20])
        assert (await balance(journal)).spent == 9 * 10**9


@in_virtual_time
async def test_a_request_waits_as_long_as_requests_of_its_own_host_run() -> None:
    async with open_paying(15) as supervisor:
        running, waiting = [
            await supervisor.spawn(paid([cost(3, delay=seconds)]), tenant="acme") for seconds in (1.5 * PATIENCE, 0)
        ]
        await running.prompt("well?")
        await trio.sleep(1)
        began = trio.current_time()
        assert await ask(waiting) == "fine"
        assert trio.current_time() - began == pytest.approx(1.5 * PATIENCE - 1)


@in_virtual_time
async def test_a_request_that_needs_little_does_not_pass_one_that_waits() -> None:
    async with open_paying(25) as supervisor:
        ended: list[int] = []

        async def pay(most: int) -> None:
            session = await supervisor.spawn(paid([cost(1, delay=10)], most=most), tenant="acme")
            assert await ask(session) == "fine"
            ended.append(most)

        async with trio.open_nursery() as nursery:
            for most in (20, 24, 2):  # the last has room beside the first, and then none beside the second
                nursery.start_soon(pay, most)
                await trio.sleep(1)
        assert ended == [20, 24, 2]


@in_virtual_time
async def test_who_waits_is_aborted_when_too_little_is_given_back() -> None:
    async with open_paying(10) as supervisor:
        first = await supervisor.spawn(paid([cost(1, delay=10)]), tenant="acme")
        second = await supervisor.spawn(paid([cost(1)]), tenant="acme")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, first)
            await trio.sleep(1)
            began = trio.current_time()
            assert "$9.0000 left" in await ask(second)
            assert trio.current_time() - began == pytest.approx(9)


@in_virtual_time
async def test_a_request_that_is_cut_pays_for_what_came_and_no_more() -> None:
    journal = MemoryJournal()
    async with open_paying(10, journal) as supervisor:
        running = await supervisor.spawn(paid([say("one two three", delay=10)]), tenant="acme")
        waiting = await supervisor.spawn(paid([cost(1)]), tenant="acme")
        await running.prompt("well?")
        await trio.sleep(1)
        await waiting.prompt("well?")
        await trio.sleep(14)  # the first word is there
        assert (await balance(journal)).reserved == 10 * 10**9
        await waiting.abort()
        await trio.sleep(0.1)
        assert (await balance(journal)).reserved == 10 * 10**9
        await running.abort()
        await trio.sleep(0.1)
        cost_usd = running.status().usage.cost_usd
        assert cost_usd
        assert await balance(journal) == Balance(is_reserved=False, spent=round(cost_usd * 10**9), reserved=0)


@in_virtual_time
async def test_each_attempt_and_each_model_of_a_chain_pays() -> None:
    journal = MemoryJournal()
    async with open_paying(30, journal) as supervisor:
        spare = ScriptedModel([cost(4)], name="spare")
        spec = paid([fail(Overloaded("busy")), fail(Overloaded("busy"))], max_retries=1)
        prices = {MODEL: PRICE, "spare": PRICE}
        chain = [spec.model, (spare, spec.model_options)]
        session = await supervisor.spawn(spec.but(model=chain, prices=prices), tenant="acme")
        assert await ask(session) == "fine"
        assert await balance(journal) == Balance(is_reserved=False, spent=4 * 10**9, reserved=0)


class Pinging:
    """Sends a sign of life before each answer, or failure."""

    name = MODEL

    def __init__(self, script: Sequence[Element]) -> None:
        self._model = ScriptedModel(script, name=MODEL)

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        emit(PingChunk())
        return await self._model.stream(request, emit)


@in_virtual_time
async def test_a_request_that_fails_before_its_first_word_costs_nothing() -> None:
    journal = MemoryJournal()
    async with open_paying(30, journal) as supervisor:
        model = Pinging([fail(Overloaded("busy")), fail(Overloaded("busy")), cost(4)])
        prices = {MODEL: Price(input=1000.0, output=100.0)}
        spec = paid([], prices=prices, system="Be kind. " * 100).but(model=model)
        session = await supervisor.spawn(spec, tenant="acme")
        assert await ask(session) == "fine"
        spent = round((session.status().usage.cost_usd or 0) * 10**9)
        assert await balance(journal) == Balance(is_reserved=False, spent=spent, reserved=0)


class Silent:
    """A model of a user that says nothing of what it uses."""

    name = MODEL

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        emit(TextChunk("fine"))
        return Response((Text("fine"),))


@in_virtual_time
async def test_a_model_that_counts_no_tokens_is_not_free() -> None:
    journal = MemoryJournal()
    async with open_paying(30, journal) as supervisor:
        session = await supervisor.spawn(paid([]).but(model=Silent()), tenant="acme")
        assert await ask(session) == "fine"
        assert await balance(journal) == Balance(is_reserved=False, spent=10**9 // DOLLAR, reserved=0), "one token"


@in_virtual_time
async def test_without_a_price_or_a_limit_of_tokens_nothing_can_be_promised(caplog: pytest.LogCaptureFixture) -> None:
    async with open_paying(5) as supervisor:
        unpriced = await supervisor.spawn(SessionSpec(model=ScriptedModel(["fine"])), tenant="acme")
        problem = "the price of `scripted` is not known, so usd_per_day=5"
        assert problem in await ask(unpriced)
        assert f"a request of `{unpriced.id}` was not sent: {problem}" in caplog.text
        unbound = await supervisor.spawn(paid([cost(1)], most=None, context_window=100_000), tenant="acme")
        # more than a whole day has: to ask later does not help
        problem = (
            "may cost $10.0000, and usd_per_day=5 of the host has $5.0000 left until 00:00 UTC: give a smaller `max_"
        )
        assert problem in await ask(unbound)
        free = await supervisor.spawn(SessionSpec(model=ScriptedModel(["fine"])))
        assert await ask(free) == "fine", "it has no tenant"


@in_virtual_time
async def test_what_is_left_can_be_spent_to_the_last_cent() -> None:
    """Of these numbers, floats have a little less or more."""
    journal = MemoryJournal()
    async with open_paying(2.01, journal) as supervisor:
        prices = {MODEL: Price(input=0.0, output=4.4)}
        script = [say("fine", usage=Usage(output_tokens=3_000))]
        spec = paid(script, None, prices=prices, model_options={"max_tokens": 3_000}, repeat_last=True)
        whole = spec.but(prices={MODEL: Price(input=0.0, output=(2.01 - 10 * 0.0132) / 0.003)})
        for priced in (*[spec] * 10, whole):
            session = await supervisor.spawn(priced, tenant="acme")
            assert await ask(session) == "fine"
        assert await balance(journal) == Balance(is_reserved=False, spent=2_010_000_000, reserved=0)


@in_virtual_time
async def test_a_limit_above_all_that_can_be_spent_is_none() -> None:
    async with open_paying(1e300) as supervisor:
        assert await ask(await supervisor.spawn(paid([cost(4)]), tenant="acme")) == "fine"


@in_virtual_time
async def test_a_response_whose_price_is_not_known_costs_the_most() -> None:
    journal = MemoryJournal()
    async with open_paying(30, journal) as supervisor:
        spec = paid([cost(4)], prices=lambda _, usage: 10.0 if usage.output_tokens == 10 * DOLLAR else None)
        assert await ask(await supervisor.spawn(spec, tenant="acme")) == "fine"
        assert await balance(journal) == Balance(is_reserved=False, spent=10 * 10**9, reserved=0)


# Sub-agents, summaries, and what plugins ask


@in_virtual_time
async def test_sub_agents_pay_from_the_money_of_their_tenant() -> None:
    journal = MemoryJournal()
    async with open_paying(35, journal) as supervisor:
        finder = paid([cost(2, "found", delay=5)], name="finder").but(description="Finds things.")
        begin = call("task", {"agent": "finder", "description": "find", "prompt": "find it"})
        script = [say(calls=[begin], usage=Usage(output_tokens=DOLLAR)), cost(3)]
        session = await supervisor.spawn(paid(script, agents={"finder": finder}), tenant="acme")
        assert await ask(session) == "fine"
        assert await balance(journal) == Balance(is_reserved=False, spent=6 * 10**9, reserved=0)


class Asker(Plugin):
    """Asks the model about each prompt, and notes what is answered."""

    def before_prompt(self, hook: BeforePrompt, state: None, ctx: Context) -> Continue[None] | Ask[None]:
        del state, ctx
        return Continue() if hook.answer is not None else Ask(CallModel("is it good?"))


@in_virtual_time
async def test_what_plugins_ask_is_paid_too() -> None:
    journal = MemoryJournal()
    async with open_paying(30, journal) as supervisor:
        spec = paid([cost(2), cost(3), cost(7), cost(1)], plugins=[Asker()])
        session = await supervisor.spawn(spec, tenant="acme")
        assert await ask(session) == "fine"
        assert await balance(journal) == Balance(is_reserved=False, spent=5 * 10**9, reserved=0)
        assert await ask(session) == "fine"
        assert (await balance(journal)).spent == 13 * 10**9


@in_virtual_time
async def test_a_summary_is_paid_too() -> None:
    journal = MemoryJournal()
    async with open_paying(30, journal) as supervisor:
        text = "go on, please. " * 40
        script = [*[cost(1, text)] * 6, cost(3, "in short")]
        session = await supervisor.spawn(paid(script, compact_to=1000), tenant="acme")
        for _ in range(6):
            assert await ask(session) == text
        await session.compact()
        assert await balance(journal) == Balance(is_reserved=False, spent=9 * 10**9, reserved=0)


# Trouble


@in_virtual_time
async def test_what_was_spent_and_reserved_is_known_after_a_crash() -> None:
    journal, day = MemoryJournal(), Clock().now_ms() // DAY_MS
    async with open_paying(30, journal) as supervisor:
        session = await supervisor.spawn(paid([cost(4)]), "mine", tenant="acme")
        assert await ask(session) == "fine"
    # a process that was killed has left this, for sessions that come back and that do not
    for number, name in enumerate(("mine", "lost")):
        expense = Expense("acme", day, name, "killed", number, 7 * 10**9)
        assert (await journal.reserve_money(expense, 30 * 10**9)).is_reserved
    async with open_paying(30, journal) as supervisor:
        session = await supervisor.resume("mine", paid([cost(1)]))
        assert await ask(session) == "fine"
        assert await balance(journal) == Balance(is_reserved=False, spent=12 * 10**9, reserved=7 * 10**9)
        began = trio.current_time()
        assert "$11.0000 left" in await ask(await supervisor.spawn(paid([], most=12), tenant="acme"))
        assert trio.current_time() - began == pytest.approx(PATIENCE, abs=2), "another host could give it back"


@in_virtual_time
async def test_all_that_wait_for_what_a_dead_host_has_reserved_are_told_so_at_once() -> None:
    """Not one after the other, each after its own patience."""
    journal, day = MemoryJournal(), Clock().now_ms() // DAY_MS
    assert (await journal.reserve_money(Expense("acme", day, "lost", "killed", 1, 25 * 10**9), 30 * 10**9)).is_reserved
    ended: list[float] = []

    async def pay(session: SessionHandle, seconds: float) -> None:
        await trio.sleep(seconds)
        began = trio.current_time()
        assert "$5.0000 left" in await ask(session)
        ended.append(trio.current_time() - began)

    async with open_paying(30, journal) as supervisor, trio.open_nursery() as nursery:
        for seconds in (0, 0, 0, 10):
            nursery.start_soon(pay, await supervisor.spawn(paid([]), tenant="acme"), seconds)
    assert ended == pytest.approx([PATIENCE] * 4, abs=2)


@in_virtual_time
async def test_while_the_journal_fails_requests_wait_and_nothing_is_lost() -> None:
    journal = Failing()
    async with open_paying(30, journal) as supervisor:
        session = await supervisor.spawn(paid([cost(4, delay=3), cost(5)]), tenant="acme")
        journal.fails = True
        await session.prompt("well?")
        await trio.sleep(60)
        assert session.status().usage.total_tokens == 0
        journal.fails = False
        assert (await session.reply()).text == "fine"
        journal.fails = True
        await trio.sleep(60)
        journal.fails = False
        await trio.sleep(60)
        assert await balance(journal) == Balance(is_reserved=False, spent=4 * 10**9, reserved=0)


@in_virtual_time
async def test_what_cannot_be_written_at_the_end_counts_as_the_most(caplog: pytest.LogCaptureFixture) -> None:
    journal = Failing()
    async with open_paying(30, journal) as supervisor:
        session = await supervisor.spawn(paid([cost(4)]), tenant="acme")
        await session.prompt("well?")
        journal.fails_to_settle = True
        assert (await session.reply()).text == "fine"
        await trio.sleep(20)
        left = trio.current_time()
    assert trio.current_time() == left, "what is tried again and again holds up no end"
    assert "what some requests have cost could not be written" in caplog.text
    assert await balance(journal) == Balance(is_reserved=False, spent=0, reserved=10 * 10**9)


@in_virtual_time
async def test_a_journal_that_cannot_settle_for_one_tenant_does_not_end_what_pays_for_others() -> None:
    """Else the host ended with all its sessions."""
    journal = Damaged()
    async with open_paying(30, journal) as supervisor:
        session = await supervisor.spawn(paid([cost(4)]), tenant="acme")
        assert "what is left" in await ask(session)
        assert await ask(await supervisor.spawn(paid([cost(4)]), tenant="evil")) == "fine"
    assert await balance(journal, "evil") == Balance(is_reserved=False, spent=4 * 10**9, reserved=0)


@in_virtual_time
async def test_a_request_that_is_aborted_while_the_journal_answers_leaves_nothing_reserved() -> None:
    journal = Slow()
    async with open_paying(30, journal) as supervisor:
        session = await supervisor.spawn(paid([cost(4)]), tenant="acme")
        await session.prompt("well?")
        await trio.sleep(0.5)
        await session.abort()
        await trio.sleep(10)
    assert await balance(journal) == Balance(is_reserved=False, spent=0, reserved=0)


class Failing(MemoryJournal):
    """Keeps no money while it fails."""

    fails = fails_to_settle = False

    async def reserve_money(self, expense: Expense, limit: int) -> Balance:
        if self.fails:
            raise JournalFailed("reserve", "on purpose")
        return await super().reserve_money(expense, limit)

    async def settle_money(self, costs: Sequence[tuple[Expense, int]]) -> None:
        if self.fails or self.fails_to_settle:
            raise JournalFailed("settle", "on purpose")
        await super().settle_money(costs)


class Damaged(MemoryJournal):
    """Has lost what a tenant has spent."""

    async def reserve_money(self, expense: Expense, limit: int) -> Balance:
        if expense.tenant == "acme":
            raise BadRecord(expense.session_id, 0, "nobody knows what is left")
        return await super().reserve_money(expense, limit)

    async def settle_money(self, costs: Sequence[tuple[Expense, int]]) -> None:
        for expense, _ in costs:
            if expense.tenant == "acme":
                raise BadRecord(expense.session_id, 0, "nobody knows what is left")
        await super().settle_money(costs)


class Slow(MemoryJournal):
    """Has reserved money a second before it says so."""

    async def reserve_money(self, expense: Expense, limit: int) -> Balance:
        balance = await super().reserve_money(expense, limit)
        await trio.sleep(1)
        return balance


# Long sessions


@in_virtual_time
async def test_a_request_takes_no_more_calls_the_longer_the_session_is() -> None:
    async with open_paying(10**6) as supervisor:
        session = await supervisor.spawn(paid([cost(1)], repeat_last=True), tenant="acme")

        async def turns(count: int) -> int:
            with counted_calls() as counted:
                for _ in range(count):
                    assert await ask(session) == "fine"
            return counted[0]

        await turns(5)
        short = await turns(10)
        await turns(60)
        assert await turns(10) < short + 10 * 20  # each of 120 more messages was looked at for each request


# Any number of sessions at once


class Life(Value):
    """A session that asks once: when, what the answer costs and takes, and when it is aborted."""

    begins: int
    dollars: int
    takes: int
    aborted: int | None
    tenant: str


LIVES = st.lists(
    st.builds(
        Life,
        begins=st.integers(0, 20),
        dollars=st.integers(1, 10),
        takes=st.integers(0, 10),
        aborted=st.none() | st.integers(0, 20),
        tenant=st.sampled_from(("acme", "evil")),
    ),
    min_size=1,
    max_size=12,
)


class Watched(MemoryJournal):
    """Checks after each call that no tenant has passed the limit, and keeps what was ever settled."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit * 10**9
        self.ended: Counter[str] = Counter()

    async def reserve_money(self, expense: Expense, limit: int) -> Balance:
        found = await super().reserve_money(expense, limit)
        if found.is_reserved:
            assert found.spent + found.reserved + expense.most <= self.limit
        return found

    async def settle_money(self, costs: Sequence[tuple[Expense, int]]) -> None:
        for expense, paid_for in costs:
            assert paid_for <= expense.most
            self.ended[expense.tenant] += paid_for
        await super().settle_money(costs)


@pytest.mark.long
@given(LIVES, st.integers(5, 40))
def test_no_tenant_passes_the_limit_and_what_sessions_have_used_is_what_is_spent(lives: list[Life], usd: int) -> None:
    @in_virtual_time
    async def live() -> None:
        journal = Watched(usd)
        used: Counter[str] = Counter()
        refused: list[Life] = []

        async def ask_once(supervisor: Supervisor, number: int, life: Life) -> None:
            await trio.sleep(life.begins)
            session = await supervisor.spawn(paid([cost(life.dollars, delay=life.takes)]), tenant=life.tenant)
            async with trio.open_nursery() as nursery:
                if life.aborted is not None:  # never as its answer ends, of which the session may then know less
                    nursery.start_soon(abort_after, session, life.aborted + (number + 1) / 1000)
                answer = await ask(session)
            if "usd_per_day" in answer:
                refused.append(life)
            used[life.tenant] += round((session.status().usage.cost_usd or 0) * 10**9)

        async with open_paying(usd, journal) as supervisor, trio.open_nursery() as nursery:
            for number, life in enumerate(lives):
                nursery.start_soon(ask_once, supervisor, number, life)
        for tenant in ("acme", "evil"):
            found = await balance(journal, tenant)
            assert found == Balance(is_reserved=False, spent=used[tenant], reserved=0)
            assert found.spent <= usd * 10**9
            # nobody was refused who could have paid
            assert found.spent + 10 * 10**9 > usd * 10**9 or tenant not in {life.tenant for life in refused}
        assert trio.current_time() < 1_000

    live()


async def abort_after(session: SessionHandle, seconds: float) -> None:
    await trio.sleep(seconds)
    with suppress(AgentrailError):
        await session.abort()
