"""Files in prompts and results: they are kept, sent, and refused or told of where a model does not take them."""

from __future__ import annotations

from functools import partial

import pytest

from agentrail import SessionSpec, open_supervisor, tool
from agentrail.errors import PartRefused, UsageError
from agentrail.models import EmitChunk, File, ModelRequest, Response, Text, ToolMessage, UserMessage
from agentrail.runtime.handle import ask_at_once
from agentrail.testing import ScriptedModel, call, say
from tests.coded import coded
from tests.runtime.journals import TestJournal
from tests.runtime.world import World

BILL = File("application/pdf", "JVBERi0xLjcK", name="bill.pdf")


class Blind:
    """A model that takes no PDFs."""

    name = "blind"

    def why_untaken(self, file: File) -> str | None:
        return "it reads text only" if file.media_type == BILL.media_type else None

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        return Response((Text("fine"),))


@tool
async def fetch(how: str) -> list[File | Text] | File:
    """Fetch a bill."""
    return BILL if how == "alone" else [Text("a bill"), BILL]


async def test_a_file_in_a_prompt_and_in_a_result_reaches_the_model(world: World) -> None:
    calls = [call("fetch", {"how": "alone"}), call("fetch", {"how": "among others"})]
    model = ScriptedModel([say(calls=calls), "5"])
    session = await world.spawn(model, tools=[fetch])
    await session.ask([Text("what does it cost?"), BILL])
    prompt, _, *results = model.requests[-1].messages
    assert isinstance(prompt, UserMessage)
    assert prompt.parts == (Text("what does it cost?"), BILL)
    assert [result.parts for result in results] == [(BILL,), (Text("a bill"), BILL)]


async def test_a_file_is_there_in_another_process() -> None:
    journal = TestJournal()
    spec = SessionSpec(model=ScriptedModel([say(calls=[call("fetch", {"how": "alone"})]), "5"]), tools=[fetch])
    async with open_supervisor(journal=journal, seed=1) as supervisor:
        session = await supervisor.spawn(spec, "s")
        await session.ask([BILL])
    async with open_supervisor(journal=journal, seed=1) as supervisor:
        session = await supervisor.resume("s", spec)
        prompt, _, result, _ = session.messages()
        assert (prompt.parts, result.parts) == ((BILL,), (BILL,))


async def test_a_model_that_takes_no_such_file_says_so_before_anything_is_sent(world: World) -> None:
    session = await world.spawn(Blind())
    for send in (session.ask, session.prompt, partial(ask_at_once, session)):
        with pytest.raises(PartRefused, match="to `blind`: it reads text only; give its text"):
            await send([Text("what does it cost?"), BILL])
    assert (session.messages(), session.queued()) == ((), ())
    assert (await session.ask([File("text/plain", "NQ==")])).text == "fine"


@pytest.mark.parametrize(
    ("model", "file", "why"),
    [
        ("groq:x", BILL, "`groq` takes no files"),
        ("anthropic:x", File("image/tiff", "AAAA"), "takes only files of `application/pdf` and `text/` by their bytes"),
        ("anthropic:x", File("text/csv", reference="https://a.example/b.csv"), "`application/pdf` by a URL"),
        ("openai-chat:x", File("application/pdf", reference="https://a.example/b.pdf"), "takes no files by a URL"),
        ("openai:x", File("application/pdf", reference="file_1", provider="anthropic"), "uploaded to `anthropic`"),
        ("openrouter:x", File("application/pdf", reference="file_1", provider="openrouter"), "by their ids"),
    ],
    ids=["none at all", "another type", "another type by URL", "no URL", "another provider", "no ids"],
)
async def test_a_providers_model_says_which_files_it_takes(world: World, model: str, file: File, why: str) -> None:
    session = await world.supervisor.spawn(SessionSpec(model=model))
    with pytest.raises(PartRefused) as refused:
        await session.prompt([file])
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("file", "why"),
    [
        (File("application/pdf"), "without bytes or a reference"),
        (File("application/pdf", "AAAA", reference="https://a.example"), "with both"),
        (File("application/pdf", reference="file_1"), "no URL, without the provider"),
        (File("application/pdf", "AAAA", provider="openai"), "with bytes, and a provider"),
        (File("", "AAAA"), "without a media type"),
        (File("application/pdf", 3), "`int`"),  # type: ignore[arg-type]  # on purpose
    ],
    ids=["neither", "both", "an id of nobody", "bytes of somebody", "no type", "no text"],
)
async def test_a_file_that_no_provider_can_take_is_refused(world: World, file: File, why: str) -> None:
    @tool
    async def give() -> File:
        """Give it."""
        return file

    session = await world.spawn([say(calls=[call("give")]), "sorry"], tools=[give])
    with pytest.raises(UsageError, check=coded("bad-message"), match=why):
        await session.prompt([file])
    await session.ask("go")
    (result,) = (message for message in session.messages() if isinstance(message, ToolMessage))
    assert result.is_error
