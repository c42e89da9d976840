"""Cuts the journal of random sessions after each record, and resumes them: nothing is lost, and they come to rest.

The journal of a finished run is cut after its first record, after its second, and so on, as crashes may leave it. The
session is resumed from each with the same code. Also, the state that the records lead to after each record must equal
the state that the session had then, bit for bit, even where an abort, steering or a stall cut a stream.
"""

from __future__ import annotations

from collections.abc import Sequence

import trio
import trio.testing
from attrs import frozen
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agentrail import Context, Continue, Plugin, SessionHandle, SessionSpec, State
from agentrail.codec.json_text import to_text
from agentrail.codec.plugin_states import data_of
from agentrail.codec.values import check_same
from agentrail.core.audit import differences
from agentrail.errors import AgentrailError, TransientModelError
from agentrail.events import ApprovalResolved, ToolExecutionStart
from agentrail.journals import Claim, MemoryJournal, Record
from agentrail.models import EmitChunk, JsonObject, ModelRequest, Response, StopReason, Text, TextChunk
from agentrail.plugins import AfterTool, HumanApproval
from agentrail.ports.journal import folded
from agentrail.testing import call
from agentrail.testing.simulator.virtual import ClockWatch, run
from agentrail.tools import EffectClass, NotStarted, Ok, Probed, ToolContext, ToolSpec, Unknown, ok
from agentrail.values.messages import why_unfit
from property_tests.begun_states import noted
from property_tests.volume import profile
from tests.kit import Failpoint, watching
from tests.recovery.mortal import SESSION, World, live
from tests.runtime.world import check_records

EXAMPLES = {"ci": 25, "campaign": 1_000}

TOOLS = {
    "pure": EffectClass.PURE,
    "idempotent": EffectClass.IDEMPOTENT,
    "checkable": EffectClass.CHECKABLE,
    "unsafe": EffectClass.UNSAFE,
    "risky": EffectClass.UNSAFE,
}
"""The tools; a person decides about `risky` ones."""


@frozen
class Saying:
    """How the model answers one request."""

    chunks: int = 0
    end: str = "well"
    calls: tuple[str, ...] = ()


@frozen
class Doing:
    """An action of the caller, and the seconds before it."""

    after: float
    what: str


SAYINGS = st.lists(
    st.builds(
        Saying,
        st.integers(0, 3),
        st.sampled_from(("well", "well", "well", "stalls", "fails")),
        st.lists(st.sampled_from(sorted(TOOLS)), max_size=3).map(tuple),
    ),
    max_size=6,
)
DOINGS = st.lists(
    st.builds(
        Doing,
        st.sampled_from((0.0, 0.15, 0.3, 0.7, 1.5)),
        st.sampled_from(("prompt", "prompt", "steer", "steer now", "abort", "approve", "reject", "label")),
    ),
    min_size=1,
    max_size=6,
)


class Speaker:
    """A model that answers as *sayings* say, one for each request, and after them with one word."""

    name = "speaker"

    def __init__(self, sayings: Sequence[Saying]) -> None:
        self._left = list(sayings)

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        assert why_unfit(request.messages) is None
        saying = self._left.pop(0) if self._left else Saying(1)
        for number in range(saying.chunks):
            await trio.sleep(0.1)
            emit(TextChunk(f"word{number} "))
        if saying.end == "stalls":
            await trio.sleep_forever()
        if saying.end == "fails":
            message = "busy"
            raise TransientModelError(message)
        text = "".join(f"word{number} " for number in range(saying.chunks)) or "."
        calls = tuple(map(call, saying.calls))
        return Response((Text(text),), calls, StopReason.TOOL_CALLS if calls else StopReason.END)


class Slow:
    """A tool that takes half a second; what its probe finds depends on the key of the call."""

    def __init__(self, name: str, ran: list[str]) -> None:
        self.spec = ToolSpec(name, f"a tool that is {name}", effect=TOOLS[name])
        self._ran = ran

    async def execute(self, args: JsonObject, ctx: ToolContext) -> Ok:
        self._ran.append(ctx.idempotency_key)
        await trio.sleep(0.5)
        return ok("worked")

    async def probe(self, key: str) -> Probed:
        await trio.sleep(0.1)
        return (NotStarted(), ok("found"), Unknown())[found_by(key)]


def found_by(key: str) -> int:
    return sum(key.encode()) % 3


@frozen
class Results(Plugin[tuple[str, ...]]):
    """Keeps the names of the tools whose results it has seen."""

    def init(self, ctx: Context) -> tuple[str, ...]:
        return ()

    def after_tool(self, hook: AfterTool, state: tuple[str, ...], ctx: Context) -> Continue[tuple[str, ...]]:
        return Continue((*state, hook.name))


def spec(sayings: Sequence[Saying], ran: list[str]) -> SessionSpec:
    return SessionSpec(
        model=Speaker(sayings),
        tools=[Slow(name, ran) for name in TOOLS],
        plugins=[Results(), HumanApproval(tools=frozenset({"risky"}))],
        stall_timeout=1.0,
        retry_base=0.1,
    )


async def rested(session: SessionHandle, pause: float = 0.05) -> None:
    """Wait until no work is under way that ends without a person's decision; look after each *pause*."""
    with trio.fail_after(100):
        while session.inspect().has_running_work:  # noqa: ASYNC110 - there is no event for it
            await trio.sleep(pause)


async def do(session: SessionHandle, what: str) -> None:
    """Carry out the action *what*; a refusal is fine."""
    held = session.status().held
    try:
        match what:
            case "prompt":
                await session.prompt("go on")
            case "steer":
                await session.steer("this way")
            case "steer now":
                await session.steer("stop, this way", when="now")
            case "abort":
                await session.abort("enough")
            case "label":
                await session.label([f"label-{session.inspect().last_seq}"], title="another")
            case "approve" if held:
                await session.approve(held[0].id)
            case "reject" if held:
                await session.reject(held[0].id, auto_resume=True)
            case _:
                pass
    except AgentrailError:
        pass


class Counting(MemoryJournal):
    """A journal that keeps the number of its last record in `head`."""

    head = 0

    async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        self.head = await super().append(claim, expected, records)
        return self.head


@frozen
class Past:
    """The records of a session, and the states that it had, by the number of the last record."""

    records: tuple[Record, ...]
    states: dict[int, State]


async def lived(sayings: Sequence[Saying], doings: Sequence[Doing]) -> Past:
    """Run a session with the given answers and actions until it rests; return its records and states."""
    journal, states = Counting(encode=True), dict[int, State]()

    async def script(_: World, session: SessionHandle) -> None:
        def watch(point: Failpoint) -> None:
            if point is Failpoint.MESSAGE_TAKEN:
                states.setdefault(journal.head, session.inspect())

        with watching(watch):
            for doing in doings:
                await trio.sleep(doing.after)
                await do(session, doing.what)
            await rested(session)
        states.setdefault(journal.head, session.inspect())

    assert await live(World(journal), spec(sayings, []), script) is not None
    return Past(await journal.read(SESSION, 0, 10_000), states)


def check_states(past: Past) -> None:
    """Check that a replay of the records leads to the state that the session had after each."""
    state = past.records[0].opening
    assert state is not None
    for number, record in enumerate(past.records, 1):
        before, state = state, folded(state, record)
        assert not differences(before, state, record)
        then = past.states.get(number)
        if then is not None:
            assert [to_text(data_of(s)) for s in state.plugin_states] == [
                to_text(data_of(s)) for s in then.plugin_states
            ]
            again = state.but(plugin_states=then.plugin_states)  # read without their classes, they compare as data
            again = noted(again, then)
            assert again == then
            check_same(then, again)


async def came_back(past: Past, cut: int, sayings: Sequence[Saying]) -> None:
    """Resume the session from its first *cut* records, and check what it does until it rests."""
    kept = past.records[:cut]
    journal, ran = MemoryJournal(encode=True), list[str]()
    claim = await journal.claim(SESSION, "test")
    await journal.append(claim, 0, kept)

    async def script(_: World, session: SessionHandle) -> None:
        await rested(session)

    session = await live(World(journal), spec(sayings, ran), script)
    assert session is not None
    records = await journal.read(SESSION, 0, 10_000)
    assert records[:cut] == kept
    seqs = [envelope.seq for record in records for envelope in record.events]
    assert seqs == list(range(1, len(seqs) + 1))
    state = session.inspect()
    assert why_unfit(state.history, open_end=state.batch is not None) is None
    (stored,) = await journal.sessions()
    assert (stored.about.title, stored.about.labels) == (state.title, state.labels)
    assert stored.head == len(records)
    check_runs(ran, kept, records)
    await check_records(journal, session)


def check_runs(ran: Sequence[str], kept: Sequence[Record], records: Sequence[Record]) -> None:
    """Check that no unsafe call ran again, and no `risky` call without approval."""
    assert len(set(ran)) == len(ran)
    events = [envelope.event for record in records for envelope in record.events]
    names = {f"{SESSION}/{event.call_id}": event.name for event in events if isinstance(event, ToolExecutionStart)}
    agreed = {f"{SESSION}/{e.call_id}" for e in events if isinstance(e, ApprovalResolved) and e.status == "approved"}
    before = {
        f"{SESSION}/{envelope.event.call_id}"
        for record in kept
        for envelope in record.events
        if isinstance(envelope.event, ToolExecutionStart)
    }
    for whole in ran:
        key = whole.rpartition("-")[0]  # without the incarnation in which the call has started
        effect = TOOLS[names[key]]
        assert effect is not EffectClass.UNSAFE or key not in before
        assert effect is not EffectClass.CHECKABLE or key not in before or found_by(whole) == 0
        assert names[key] != "risky" or key in agreed


async def crashed_everywhere(sayings: Sequence[Saying], doings: Sequence[Doing]) -> None:
    past = await lived(sayings, doings)
    check_states(past)
    for cut in range(1, len(past.records) + 1):
        await came_back(past, cut, sayings)


def bounded(sayings: Sequence[Saying], doings: Sequence[Doing]) -> None:
    async def main(_: trio.testing.MockClock) -> None:
        await crashed_everywhere(sayings, doings)

    run(0, ClockWatch(), main)


@given(SAYINGS, DOINGS)
@settings(max_examples=EXAMPLES[profile()], suppress_health_check=[HealthCheck.too_slow])
@example([Saying(3, "stalls")], [Doing(0.0, "prompt"), Doing(0.3, "abort")])
@example([Saying(3, "stalls")], [Doing(0.0, "prompt"), Doing(0.3, "steer now")])
@example([Saying(3, "stalls"), Saying(2, "stalls")], [Doing(0.0, "prompt")])
@example([Saying(1, calls=tuple(TOOLS))], [Doing(0.0, "prompt"), Doing(1.5, "approve")])
@example([Saying(1, calls=tuple(TOOLS))], [Doing(0.0, "prompt"), Doing(0.3, "abort")])
def test_a_crash_behind_any_record_leaves_what_was_there(sayings: list[Saying], doings: list[Doing]) -> None:
    bounded(sayings, doings)
