"""Who a session belongs to, and its title and labels: given at the start, changed by `label`, kept over a return."""

import pytest

from agentrail import SessionHandle, open_supervisor
from agentrail.api.command_checks import LONGEST_NAME
from agentrail.core.machine.configuration import MAX_LABELS
from agentrail.errors import UsageError
from agentrail.events import LabelsChanged
from agentrail.journals import MemoryJournal
from agentrail.testing import ScriptedModel
from tests.runtime.test_subagents_back import over
from tests.runtime.test_subagents_back import spec as with_subagent
from tests.runtime.world import World, spec_of, until

SAID = {"tenant": "acme", "owner": "ann", "title": "a trip", "labels": ["vip", "new", "vip"]}


def labels_of(session: SessionHandle) -> tuple[str, str, str, tuple[str, ...]]:
    state = session.inspect()
    return state.setup.tenant, state.setup.owner, state.title, state.labels


async def test_what_is_said_of_a_session_is_kept_and_changed() -> None:
    journal = MemoryJournal(encode=True)
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec_of(ScriptedModel(["fine"])), "s", **SAID)  # type: ignore[arg-type]  # as named
        assert labels_of(session) == ("acme", "ann", "a trip", ("new", "vip"))
        async with session.subscribe(types=[LabelsChanged]) as events:
            await session.label(["done"], ["new"], command="c")
            await session.label(["done"], ["new"], command="c")
            assert (await anext(aiter(events))).event == LabelsChanged("a trip", ("done", "vip"))
            await session.label(title="")
            assert (await anext(aiter(events))).event == LabelsChanged("", ("done", "vip"))
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.open("s", spec_of(ScriptedModel(["fine"])), owner="another")
        assert labels_of(session) == ("acme", "ann", "", ("done", "vip"))
        fork = await session.fork()
        assert labels_of(fork) == ("acme", "ann", "", ("done", "vip"))
        other = await supervisor.open("t", spec_of(ScriptedModel(["fine"])), owner="another")
        assert labels_of(other) == ("", "another", "", ())


async def test_a_sub_agent_belongs_to_whom_its_parent_belongs() -> None:
    async with open_supervisor() as supervisor:
        parent = await supervisor.spawn(with_subagent(), "s", **SAID)  # type: ignore[arg-type]  # as named
        await parent.prompt("go")
        await until(lambda: len(supervisor.sessions()) == 2)
        assert labels_of(supervisor.sessions()[1]) == ("acme", "ann", "", ())
        await over(parent)


LONG = "x" * (LONGEST_NAME + 1)

ODD: dict[str, tuple[dict[str, object], str]] = {
    "a tenant that is no text": ({"tenant": 3}, "wrong-type"),
    "an owner that is nothing": ({"owner": None}, "wrong-type"),
    "a title that is too long": ({"title": LONG}, "wrong-type"),
    "one text for the labels": ({"labels": "vip"}, "wrong-type"),
    "a label that is no text": ({"labels": ["vip", 3]}, "wrong-type"),
    "a label that is empty": ({"labels": [""]}, "wrong-type"),
    "a label that is too long": ({"labels": [LONG]}, "wrong-type"),
    "no labels": ({"labels": None}, "wrong-type"),
    "half a character": ({"labels": ["\ud800"]}, "bad-message"),
    "too many labels": ({"labels": map(str, range(MAX_LABELS + 1))}, "too-many-labels"),
}


@pytest.mark.parametrize("odd", ODD)
async def test_what_is_no_name_is_refused(world: World, odd: str) -> None:
    text, code = ODD[odd]
    with pytest.raises(UsageError) as raised:
        await world.supervisor.spawn(spec_of(ScriptedModel(["fine"])), "s", **text)  # type: ignore[arg-type]  # on purpose
    assert raised.value.code == code
    session = await world.supervisor.spawn(spec_of(ScriptedModel(["fine"])), "s")
    if "title" in text or "labels" in text:
        changes = {"add": text["labels"]} if "labels" in text else text
        if odd == "too many labels":
            changes = {"add": map(str, range(MAX_LABELS + 1))}
        with pytest.raises(UsageError, check=lambda error: error.code == code):
            await session.label(**changes)  # type: ignore[arg-type]  # on purpose
    await session.label(map(str, range(MAX_LABELS)), title="y" * LONGEST_NAME)
    assert len(session.inspect().labels) == MAX_LABELS
