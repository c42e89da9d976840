"""`UserMemory` over a real socket: what a user tells is in that user's next prompts, and in nobody else's."""

from __future__ import annotations

import pytest
import trio

from agentrail import SessionSpec
from agentrail.errors import WrongType
from agentrail.host import Profile, RequestContext, UserMemory
from agentrail.plugins import MemoryLoader
from agentrail.sandboxes import MemorySandbox
from agentrail.testing import ScriptedModel
from tests.host.hosted import open_desk, scripted
from tests.host.test_host import chat


async def test_what_a_user_tells_is_in_the_next_prompts_of_that_user_alone() -> None:
    sandboxes = {"ann": MemorySandbox({}), "bob": MemorySandbox({})}
    model = ScriptedModel(["ok"], repeat_last=True)

    def spec_of(context: RequestContext) -> SessionSpec:
        sandbox = sandboxes[context.user_id]
        return SessionSpec(model=model, sandbox=sandbox, plugins=[MemoryLoader(reload="prompts")])

    plugin = UserMemory(lambda context: sandboxes[context.user_id])
    async with open_desk([Profile("desk", spec_of)], [plugin]) as desk:
        await chat(desk.ann, "I prefer tea. What else is there?", session="one")
        await chat(desk.ann, "i prefer TEA", session="one")
        await chat(desk.ann, "hello", session="two")
        await chat(desk.clients["bob"], "hello", session="one")
    entry = {"MEMORY.md": "# Memory\n\n- I prefer tea.\n"}
    assert [dict(request.background) for request in model.requests] == [{}, entry, entry, {}]
    assert (await sandboxes["ann"].read("MEMORY.md")).data == b"# Memory\n\n- I prefer tea.\n"
    assert not await sandboxes["bob"].exists("MEMORY.md")


async def test_a_file_that_cannot_be_read_stays_and_the_failure_is_reported() -> None:
    sandbox = MemorySandbox({"MEMORY.md": b"\xff"})
    texts: list[str] = []
    plugin = UserMemory(lambda _: sandbox)
    async with open_desk(
        scripted("ok"), [plugin], on_plugin_error=lambda name, hook, _: texts.append(f"{name}.{hook}")
    ) as desk:
        assert (await chat(desk.ann, "I prefer tea.")).status_code == 200
    assert texts == ["user-memory.on_turn_persisted"]
    assert (await sandbox.read("MEMORY.md")).data == b"\xff"


async def test_a_turn_without_a_message_or_a_fact_writes_nothing() -> None:
    def nobody(_context: RequestContext) -> MemorySandbox:
        raise AssertionError

    plugin = UserMemory(nobody, max_facts=0)
    context = RequestContext("chat", "acme", "ann", "one", "desk", "r")
    await plugin.on_turn_persisted(context)
    context.state[UserMemory] = "I prefer tea."
    await plugin.on_turn_persisted(context)
    assert context.state == {}


async def test_facts_of_turns_that_end_at_the_same_moment_are_all_kept() -> None:
    sandbox = MemorySandbox({})
    plugin = UserMemory(lambda _: sandbox)
    async with trio.open_nursery() as nursery:
        for drink in ("tea", "milk", "water"):
            context = RequestContext("chat", "acme", "ann", drink, "desk", "r")
            context.state[UserMemory] = f"I prefer {drink}."
            nursery.start_soon(plugin.on_turn_persisted, context)
    saved = (await sandbox.read("MEMORY.md")).data.decode()
    assert sorted(saved.splitlines()[2:]) == ["- I prefer milk.", "- I prefer tea.", "- I prefer water."]


@pytest.mark.parametrize(
    "wrong", [{"file": "../a"}, {"file": ""}, {"max_facts": "x"}, {"max_facts": -1}, {"sandbox_of": None}]
)
def test_arguments_of_another_kind_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(WrongType):
        UserMemory(**{"sandbox_of": lambda _: MemorySandbox({}), **wrong})  # type: ignore[arg-type]
