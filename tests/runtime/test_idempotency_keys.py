"""A call has one idempotency key, over retries and restarts, and no other call ever has it."""

from __future__ import annotations

from functools import partial

import trio
from attrs import frozen

from agentrail import Context, Continue, Plugin, SessionHandle, SessionSpec, open_supervisor
from agentrail.models import JsonObject
from agentrail.plugins import AnyPlugin, Ask, BeforePrompt, HumanApproval, RunTool
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import EffectClass, Ok, ToolContext, ok
from tests.kit import Element
from tests.runtime.journals import TestJournal
from tests.runtime.test_resuming import process
from tests.runtime.tools import fake
from tests.runtime.world import until


class Payments:
    """A provider of payments that notes the key of each; if it hangs, the first one never ends."""

    def __init__(self, *, hangs: bool = False) -> None:
        self.keys: list[str] = []
        self._hangs = hangs

    async def _pay(self, _args: JsonObject, ctx: ToolContext) -> Ok:
        self.keys.append(ctx.idempotency_key)
        if self._hangs and len(self.keys) == 1:
            await trio.sleep_forever()
        return ok("paid")

    def spec(self, *plugins: AnyPlugin) -> SessionSpec:
        script: list[Element] = [say(calls=[call("pay")]), "done", "done", "done"]
        tool = fake("pay", self._pay, effect=EffectClass.IDEMPOTENT)
        return SessionSpec(model=ScriptedModel(script), tools=[tool], plugins=plugins)


@frozen
class Pays(Plugin[None]):
    """Pays before each prompt."""

    def before_prompt(self, hook: BeforePrompt, state: None, ctx: Context) -> Continue[None] | Ask[None]:
        return Ask(RunTool("pay")) if hook.answer is None else Continue()


async def rested(session: SessionHandle) -> None:
    """Wait until no turn is open."""
    await until(lambda: not session.status().turn_open)


async def test_a_session_that_is_begun_anew_has_other_keys() -> None:
    """In a host without a journal that was started again, and under the id of a session that was deleted."""
    payments = Payments()
    for _ in range(2):
        async with open_supervisor() as supervisor:
            await (await supervisor.spawn(payments.spec(), "s")).ask("pay")
    async with open_supervisor(journal=TestJournal()) as supervisor:
        for _ in range(2):
            session = await supervisor.spawn(payments.spec(), "s")
            await session.ask("pay")
            await session.stop()
            await supervisor.delete("s")
    assert [key.partition("-")[0] for key in payments.keys] == ["s/c3"] * 4
    assert len(set(payments.keys)) == 4


async def test_a_tool_that_a_plugin_asks_for_has_other_keys_too() -> None:
    payments = Payments()
    for _ in range(2):
        async with open_supervisor() as supervisor:
            await (await supervisor.spawn(payments.spec(Pays()), "s")).ask("pay")
    assert len(set(payments.keys)) == len(payments.keys) == 4


async def test_a_fork_made_anew_has_other_keys_for_what_its_original_holds() -> None:
    payments = Payments()
    async with open_supervisor(journal=TestJournal()) as supervisor:
        origin = await supervisor.spawn(payments.spec(HumanApproval(tools=["pay"])), "s")
        await origin.ask("pay")
        for _ in range(2):
            fork = await origin.fork(id="t")
            await fork.approve(fork.status().held[0])
            await rested(fork)
            await fork.stop()
            await supervisor.delete("t")
        await origin.approve(origin.status().held[0])
        await rested(origin)
    assert [key.partition("-")[0] for key in payments.keys] == ["t/c3", "t/c3", "s/c3"]
    assert len(set(payments.keys)) == 3


async def test_what_runs_again_after_a_restart_keeps_its_key() -> None:
    """A call of the model, and a tool that a plugin asked for."""
    for plugins in ((), (Pays(),)):
        payments, journal = Payments(hangs=True), TestJournal()
        async with process(journal) as supervisor:
            await (await supervisor.spawn(payments.spec(*plugins), "s")).prompt("pay")
            await until(partial(bool, payments.keys))
        async with process(journal) as supervisor:
            session = await supervisor.resume("s", payments.spec(*plugins))
            await rested(session)
        first, again, *others = payments.keys
        assert first == again
        assert first not in others


async def test_a_call_that_waits_over_a_restart_has_the_key_of_its_first_run_alone() -> None:
    payments, journal, guard = Payments(hangs=True), TestJournal(), HumanApproval(tools=["pay"])
    async with process(journal) as supervisor:
        (held,) = (await (await supervisor.spawn(payments.spec(guard), "s")).ask("pay")).held
    async with process(journal) as supervisor:
        session = await supervisor.resume("s", payments.spec(guard))
        await session.approve(held.id)
        await until(lambda: payments.keys)
    async with process(journal) as supervisor:
        await supervisor.resume("s", payments.spec(guard))
        await until(lambda: len(payments.keys) == 2)
    assert len(set(payments.keys)) == 1
