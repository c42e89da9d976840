"""What the model of a stored session saw is told from its records, also where a request has more than today's have."""

from collections.abc import Callable

import pytest

from agentrail import AddContext, Context, Continue, Plugin, SessionSpec, open_supervisor
from agentrail.core.vocabulary.state import RunningRequest
from agentrail.errors import BadRecord, SessionNotStored
from agentrail.hooks.ruling import Section
from agentrail.journals import MemoryJournal, Record, model_requests
from agentrail.models import Text, UserMessage
from agentrail.plugins import BeforeRequest
from agentrail.testing import ScriptedModel
from agentrail.values.messages import Added, MessageRange, Rearranged


async def stored(change: Callable[[Record], Record]) -> MemoryJournal:
    """Return a journal of a session with two turns, whose last record with a request is changed."""
    journal, other = MemoryJournal(encode=True), MemoryJournal(encode=True)
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["one", "two"]), system="Be brief."), "s")
        await session.ask("first")
        await session.ask("second")
    records = list(await journal.read("s"))
    place = max(place for place, one in enumerate(records) if isinstance(one.change.request, RunningRequest))
    records[place] = change(records[place])
    await other.append(await other.claim("s", "test"), 0, records)
    return other


def with_request(request: RunningRequest, **changes: object) -> Callable[[Record], Record]:
    return lambda record: record.but(change=record.change.but(request=request, **changes))


async def test_each_request_has_the_history_as_it_was_then() -> None:
    journal = await stored(lambda record: record)
    first, second = await model_requests(journal, "s")
    assert [message.text for message in first.messages] == ["first"]
    assert [message.text for message in second.messages] == ["first", "one", "second"]
    assert (second.system, second.session_id, first.request_id) == ("Be brief.", "s", "r2")


async def test_context_that_was_added_for_one_request_is_read_with_who_added_it() -> None:
    pieces = (Added(UserMessage((Text("it rains"),)), "Weather"), MessageRange(1, 3))
    request = RunningRequest("r9", messages=Rearranged(pieces))
    journal = await stored(with_request(request))
    _, second = await model_requests(journal, "s")
    assert [message.text for message in second.messages] == ["it rains", "one", "second"]
    kept = [record.change.request for record in await journal.read("s")]
    assert request in kept


class Weather(Plugin[int]):
    """Tells of the weather in the first request alone."""

    def init(self, ctx: Context) -> int:
        return 0

    def before_request(self, hook: BeforeRequest, state: int, ctx: Context) -> Continue[int] | AddContext[int]:
        return Continue(state) if state else AddContext("it rains", state + 1)


async def test_added_context_is_in_the_records_of_its_request_alone() -> None:
    journal = MemoryJournal(encode=True)
    async with open_supervisor(journal=journal) as supervisor:
        model = ScriptedModel(["one", "two"])
        session = await supervisor.spawn(SessionSpec(model=model, plugins=[Weather()]), "s")
        await session.ask("first")
        await session.ask("second")
        assert [message.text for message in session.messages()] == ["first", "one", "second", "two"]
    first, second = await model_requests(journal, "s")
    assert [message.text for message in first.messages] == ["first", "it rains"]
    assert [message.text for message in second.messages] == ["first", "one", "second"]
    assert (first, second) == tuple(model.requests)


async def test_the_layers_of_a_request_are_its_sections_in_order() -> None:
    sections = (Section("a", "calm"), Section("b", "brief"), Section("c", "kind"))
    journal = await stored(with_request(RunningRequest("r9", layers=("c", "a")), sections=sections))
    _, second = await model_requests(journal, "s")
    assert second.sections == (("c", "kind"), ("a", "calm"))


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (
            RunningRequest("r9", messages=Rearranged((MessageRange(1, 9),))),
            "it keeps messages 1 to 9 of a history of 3",
        ),
        (RunningRequest("r9", layers=("gone",)), "'gone'"),
    ],
    ids=["messages", "layers"],
)
async def test_a_request_that_does_not_fit_its_state_is_refused_with_its_record(
    request_: RunningRequest, problem: str
) -> None:
    journal = await stored(with_request(request_))
    with pytest.raises(BadRecord, match="its model request does not fit the state after it") as refused:
        await model_requests(journal, "s")
    assert problem in str(refused.value)


async def test_a_session_that_is_not_stored_has_no_requests() -> None:
    with pytest.raises(SessionNotStored):
        await model_requests(MemoryJournal(), "s")
