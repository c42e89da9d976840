from __future__ import annotations

import pytest

from agentrail import Ask, Context, Continue, Plugin, SessionSpec, open_supervisor, tool
from agentrail.errors import PermanentModelError, TransientModelError, TurnAborted
from agentrail.events import AgentAbort
from agentrail.journals import MemoryJournal
from agentrail.models import (
    AssistantMessage,
    Chunk,
    FrozenObject,
    Message,
    Model,
    ModelRequest,
    Text,
    TextChunk,
    UserMessage,
)
from agentrail.plugins import BeforePrompt, CallModel
from agentrail.testing import RecordedModel, ScriptedModel, call, permanent, say, transient
from agentrail.testing.recorded import difference, exchanges
from agentrail.tools import ToolSpec
from tests.kit import Element


@tool
async def look(path: str) -> str:
    """Look."""
    return f"all of {path}"


class HookRunner(Plugin[None]):
    def before_prompt(self, hook: BeforePrompt, state: None, ctx: Context) -> Continue[None] | Ask[None]:
        return Ask(CallModel("Is it polite?")) if hook.answer is None else Continue()


async def talk(model: Model, journal: MemoryJournal, *prompts: str) -> list[str]:
    """Return what a session answers to *prompts*."""
    async with open_supervisor(journal=journal, seed=1) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model, tools=[look], plugins=[HookRunner()]), id="s")
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
        session = await supervisor.spawn(SessionSpec(model=model, tools=[look], plugins=[HookRunner()]), id="s")
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


TOOL = ToolSpec("look", "Look.", FrozenObject({"type": "object"}))


def sent(text: str, *more: Message) -> ModelRequest:
    return ModelRequest("m", (UserMessage((Text(text),)), *more), tools=(TOOL,))


@pytest.mark.parametrize(
    ("request_", "what"),
    [
        (sent("Hello."), "message 1 is "),
        (sent("Hi.", AssistantMessage((Text("Hi."),))), "it has 2 messages; recorded are 1"),
        (sent("Hi.").but(system="Be kind."), "its system are 'Be kind.'"),
        (sent("Hi.").but(tools=()), "its tools are ()"),
        (sent("Hi.").but(may_call=False), "its may_call are False"),
        (sent("Hi.").but(options=FrozenObject({"seed": 1})), "its options are "),
        (sent("Hi.").but(background=(("a", "b"),)), "its background are "),
        (sent("Hi.").but(sections=(("a", "b"),)), "its sections are "),
    ],
)
def test_each_difference_of_a_request_is_told(request_: ModelRequest, what: str) -> None:
    assert (difference(sent("Hi."), request_) or "").startswith(what)


def test_the_name_of_a_model_is_no_difference() -> None:
    then, now = (sent("Hi.", AssistantMessage((Text("Hi."),), model=name)) for name in ("a", "b"))
    assert difference(then, now.but(model="other", request_id="r9")) is None


async def test_a_plugin_gets_its_answers_in_order_and_the_session_none_of_them() -> None:
    journal = MemoryJournal()
    script = ["yes", "one", "no", "two"]
    assert await talk(ScriptedModel(script), journal, "Is it polite?", "And now?") == ["one", "two"]
    (first, second), _ = exchanges(await journal.read("s"))
    of_plugin = first.request.but(tools=())
    model, texts = RecordedModel(journal, "s"), list[str]()
    for request in (of_plugin, first.request, of_plugin, second.request):
        (part,) = (await model.stream(request, lambda _: None)).parts
        texts.append(part.text)
    assert texts == ["yes", "one", "no", "two"]


async def test_what_had_come_of_a_response_that_failed_comes_again() -> None:
    journal, chunks = MemoryJournal(), list[Chunk]()
    with pytest.raises(TurnAborted, match="broken"):
        await talk(ScriptedModel(["yes", permanent("broken", after=2)]), journal, "Look.")
    ((exchange,), _) = exchanges(await journal.read("s"))
    with pytest.raises(PermanentModelError, match="broken"):
        await RecordedModel(journal, "s").stream(exchange.request, chunks.append)
    assert chunks == [TextChunk("word0 word1 ")]


async def test_a_failure_comes_again_with_the_time_after_which_to_try_again(autojump_clock: object) -> None:
    del autojump_clock
    journal = MemoryJournal()
    await talk(ScriptedModel(["yes", transient("busy", retry_after=7.0), "one"]), journal, "Look.")
    (first, _), _ = exchanges(await journal.read("s"))
    with pytest.raises(TransientModelError, match="busy") as caught:
        await RecordedModel(journal, "s").stream(first.request, lambda _: None)
    assert caught.value.retry_after == 7.0


async def test_a_recording_of_more_records_than_are_read_at_once_is_played_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agentrail.testing.recorded.PAGE", 3)
    journal = MemoryJournal()
    said = await talk(ScriptedModel(["yes", "one", "yes", "two", "yes", "three"]), journal, "a", "b", "c")
    assert await talk(RecordedModel(journal, "s"), MemoryJournal(), "a", "b", "c") == said
