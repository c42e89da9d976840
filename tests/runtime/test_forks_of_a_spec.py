"""Forks that begin as a new session of a specification would, with what was said in another one."""

from pathlib import Path

import pytest

from agentrail import SessionSpec, open_supervisor
from agentrail.errors import BadChoice, PluginMismatch, WrongType
from agentrail.journals import audit
from agentrail.models import ModelRequest
from agentrail.plugins import HumanApproval, SecurityGuard
from agentrail.sandboxes import MemorySandbox
from agentrail.testing import ScriptedModel, call, say
from tests.runtime.journals import TestJournal
from tests.runtime.test_forking import looks
from tests.runtime.test_resuming import NewerTurns, Turns
from tests.runtime.tools import fake
from tests.runtime.world import until


def desk(*script: object, **others: object) -> SessionSpec:
    return SessionSpec(model=ScriptedModel(script), **others)  # type: ignore[arg-type]


async def stored(journal: TestJournal, spec: SessionSpec) -> None:
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec, "s", title="trip", tenant="acme", owner="ann")
        await session.ask("hi")


def last_request(spec: SessionSpec) -> ModelRequest:
    assert isinstance(spec.model, ScriptedModel)
    return spec.model.requests[-1]


async def test_it_has_prompt_options_and_model_of_the_specification_and_what_was_said() -> None:
    journal = TestJournal()
    await stored(journal, desk("one", system="Be kind.", max_rounds=7))
    spec = SessionSpec(model=ScriptedModel(["two"], name="newer"), system="Be brief.", max_rounds=9, name="desk")
    async with open_supervisor(journal=journal) as supervisor:
        fork = await supervisor.fork("s", spec, id="t", as_spec=True)
        assert (await fork.ask("and?")).text == "two"
        state = fork.inspect()
        assert [message.text for message in fork.messages()] == ["hi", "one", "and?", "two"]
    setup = state.setup
    assert (setup.system, setup.options.max_rounds, setup.spec, state.model) == ("Be brief.", 9, "desk", "newer")
    assert (setup.tenant, setup.owner, state.title) == ("acme", "ann", "trip")
    assert last_request(spec).system == "Be brief."
    assert await audit(journal, "t") == ()


async def test_without_that_word_it_has_those_of_its_origin() -> None:
    journal = TestJournal()
    await stored(journal, desk("one", system="Be kind."))
    async with open_supervisor(journal=journal) as supervisor:
        fork = await supervisor.fork("s", desk("two", system="Be brief."), id="t")
        assert fork.inspect().setup.system == "Be kind."


async def test_states_of_plugins_that_it_has_stay_and_others_are_left_out() -> None:
    journal = TestJournal()
    await stored(journal, desk("one", plugins=[Turns(), SecurityGuard()]))
    spec = desk("two", "three", plugins=[Turns(step=5), HumanApproval(tools=("send*",))])
    async with open_supervisor(journal=journal) as supervisor:
        with pytest.raises(PluginMismatch, match=r"`SecurityGuard`: it is not in the .* `as_spec=True` leaves it out"):
            await supervisor.fork("s", spec)
        fork = await supervisor.fork("s", spec, id="t", as_spec=True)
        await fork.ask("and?")
        assert fork.inspect().plugin_state("Turns") == 6
        assert {attached.key for attached in fork.inspect().plugins} == {"Turns", "HumanApproval"}
    async with open_supervisor(journal=journal) as supervisor:
        again = await supervisor.resume("t", spec)
        await again.ask("still?")
        assert again.inspect().plugin_state("Turns") == 11
    assert await audit(journal, "t") == ()


async def test_the_state_of_a_newer_version_is_left_out() -> None:
    journal = TestJournal()
    await stored(journal, desk("one", plugins=[NewerTurns()]))
    async with open_supervisor(journal=journal) as supervisor:
        fork = await supervisor.fork("s", desk("two", plugins=[Turns()]), as_spec=True)
        await fork.ask("and?")
        assert fork.inspect().plugin_state("Turns") == 1


async def test_it_stays_with_the_agent_of_a_handoff_that_there_still_is() -> None:
    journal = TestJournal()
    transfer = say(calls=[call("transfer_to_refunds", {})])
    refunds = SessionSpec(name="refunds", description="Refunds.", system="Old.")
    await stored(journal, desk(transfer, "I do that.", name="desk", handoffs=[refunds]))
    refunds = refunds.but(system="New.", tools=[fake("look", looks)])
    spec = desk("two", "three", name="desk", system="Desk.", handoffs=[refunds])
    async with open_supervisor(journal=journal) as supervisor:
        fork = await supervisor.fork("s", spec, as_spec=True)
        await fork.ask("and?")
        assert (fork.inspect().agent_name, last_request(spec).system) == ("refunds", "New.")
        assert "look" in {tool.name for tool in last_request(spec).tools}
        alone = spec.but(handoffs=())
        back = await supervisor.fork("s", alone, as_spec=True)
        await back.ask("and?")
        assert (back.inspect().agent_name, last_request(alone).system) == ("desk", "Desk.")


async def test_a_held_call_is_decided_in_it_and_its_turn_goes_on_with_the_model_of_now() -> None:
    journal = TestJournal()
    spec = desk(say(calls=[call("look")]), "old", tools=[fake("look", looks)], plugins=[HumanApproval(("look",))])
    await stored(journal, spec)
    newer = SessionSpec(model=ScriptedModel(["new"], name="newer"), tools=[fake("look", looks)])
    async with open_supervisor(journal=journal) as supervisor:
        fork = await supervisor.fork("s", newer, id="t", as_spec=True)
        (held,) = fork.status().held
        await fork.approve(held.id)
        await until(lambda: not fork.status().turn_open)
        assert [message.text for message in fork.messages()] == ["hi", "", "seen", "new"]
    assert await audit(journal, "t") == ()


async def test_memory_files_are_those_of_the_specification() -> None:
    journal = TestJournal()
    files = {name: MemorySandbox({"AGENTS.md": f"We are {name}.".encode()}) for name in ("old", "new")}
    await stored(journal, desk("one", sandbox=files["old"], memory=["AGENTS.md"]))
    async with open_supervisor(journal=journal) as supervisor:
        fork = await supervisor.fork("s", desk("two", sandbox=files["new"], memory=["AGENTS.md"]), as_spec=True)
        await fork.ask("and?")
        texts = [section.text or "" for section in fork.inspect().sections]
    assert [text for text in texts if "We are" in text] == ["We are new."]


async def test_the_folder_that_it_tells_of_is_that_of_the_specification(tmp_path: Path) -> None:
    journal = TestJournal()
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    await stored(journal, desk("one", working_dir=str(tmp_path / "old")))
    async with open_supervisor(journal=journal) as supervisor:
        fork = await supervisor.fork("s", desk("two", working_dir=str(tmp_path / "new")), as_spec=True)
        await fork.ask("and?")
        texts = [section.text or "" for section in fork.inspect().sections]
    assert any(str(tmp_path / "new") in text for text in texts)
    assert not any(str(tmp_path / "old") in text for text in texts)


async def test_it_needs_a_specification_and_a_boolean() -> None:
    async with open_supervisor(journal=TestJournal()) as supervisor:
        with pytest.raises(WrongType, match="a `SessionSpec`, which `as_spec=True` needs"):
            await supervisor.fork("s", as_spec=True)
        with pytest.raises(BadChoice, match="as_spec='x'"):
            await supervisor.fork("s", desk("one"), as_spec="x")  # type: ignore[arg-type]  # on purpose
