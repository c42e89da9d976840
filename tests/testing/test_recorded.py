from __future__ import annotations

import pytest

from agentrail import Ask, Context, Continue, Plugin, SessionSpec, open_supervisor, tool
from agentrail.errors import PermanentModelError
from agentrail.events import AgentAbort
from agentrail.journals import MemoryJournal
from agentrail.models import Model, ModelRequest
from agentrail.plugins import BeforePrompt, CallModel
from agentrail.testing import RecordedModel, ScriptedModel, call, say, transient
from tests.kit import Element


@tool
async def look(path: str) -> str:
    """Look."""
    return f"all of {path}"


class Judge(Plugin[None]):
    def before_prompt(self, hook: BeforePrompt, state: None, ctx: Context) -> Continue[None] | Ask[None]:
        return Ask(CallModel("Is it polite?")) if hook.answer is None else Continue()


async def talk(model: Model, journal: MemoryJournal, *prompts: str) -> list[str]:
    """Return what a session answers to *prompts*."""
    async with open_supervisor(journal=journal, seed=1) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model, tools=[look], plugins=[Judge()]), id="s")
        return [(await session.ask(prompt)).text for prompt in prompts]


async def recording() -> MemoryJournal:
    script: list[Element] = [
        "yes",
        transient("busy"),
        say(thinking="Hm.", calls=[call("look", {"path": "a"})]),
        "There.",
        "no",
        "Bye.",
    ]
    journal = MemoryJournal(encode=True)
    assert await talk(ScriptedModel(script), journal, "Look.", "Thanks.") == ["There.", "Bye."]
    return journal


async def test_a_recorded_model_answers_as_it_was_recorded(autojump_clock: object) -> None:
    del autojump_clock
    model = RecordedModel(await recording(), "s")
    assert await talk(model, MemoryJournal(), "Look.", "Thanks.") == ["There.", "Bye."]
    assert len(model.requests) == 6


async def test_it_says_where_a_run_leaves_the_recording(autojump_clock: object) -> None:
    del autojump_clock
    model = RecordedModel(await recording(), "s")
    journal = MemoryJournal()
    async with open_supervisor(journal=journal, seed=1) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model, tools=[look], plugins=[Judge()]), id="s")
        await session.ask("Look.")
        async with session.subscribe(types=[AgentAbort]) as events:
            await session.prompt("Thank you.")
            aborted = await events.__anext__()
    assert isinstance(aborted.event, AgentAbort)
    assert aborted.event.kind == "provider_error"
    assert "request 4 leaves the recording of session `s`: message 5 is" in str(aborted.event.reason)


async def test_an_empty_recording_has_no_answer() -> None:
    with pytest.raises(PermanentModelError, match="the recording has 0 requests"):
        await RecordedModel(MemoryJournal(), "nobody").stream(ModelRequest("m", ()), lambda _: None)
