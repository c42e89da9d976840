"""`seen` and `render`, from records alone, give byte for byte what a server got, for each wire format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from agentrail import (
    AddContext,
    Continue,
    Intervene,
    Plugin,
    ReplaceMessages,
    ReplacePrompt,
    ReplaceResponse,
    ReplaceToolResult,
    SessionSpec,
    SetSection,
    open_supervisor,
    tool,
)
from agentrail.errors import TurnAborted, UnknownModel
from agentrail.insight import Seen, at, requests, seen
from agentrail.journals import Journal, MemoryJournal, Record, SqliteJournal
from agentrail.models import Message, ModelRequest, Text, UserMessage, render
from agentrail.plugins import AfterResponse, AfterTool, BeforePrompt, BeforeRequest, Context
from agentrail.tools import ok
from tests.adapters.models.answers import WRITTEN, Called
from tests.adapters.models.official import KEYS
from tests.adapters.models.server import Answering, Asked, Play, refusing, serving
from tests.adapters.models.test_typed_answers import GOOD, REFUSED, SCHEMA, answering, spec_of, written

OF_SERVER: Final = frozenset({"host", "connection", "content-length"})
"""Headers that the HTTP client adds."""


@tool
async def lamp(room: str) -> str:
    """Look at a lamp."""
    return f"the lamp in the {room} is on"


async def records_of(journal: Journal, session_id: str) -> Sequence[Record]:
    return await journal.read(session_id, 0, 10_000)


def told(records: Sequence[Record]) -> list[Seen]:
    """Return what the model saw with each request."""
    return [seen(records, sent.request_id) for sent in requests(records)]


def demand_same(all_seen: Sequence[Seen], asked: Sequence[Asked], key: str) -> None:
    """Check that what was seen is what the server was sent, byte for byte, but for the key."""
    assert len(all_seen) == len(asked)
    for one, request in zip(all_seen, asked, strict=True):
        rendered = render(one.request, by_tool=one.by_tool)
        assert rendered.body.encode() == request.body
        assert rendered.url.endswith(request.target)
        headers = {name: value for name, value in request.headers.items() if name not in OF_SERVER}
        assert {name: value.replace("$KEY", key) for name, value in rendered.headers.items()} == headers
        assert sum(part.tokens for part in one.parts) >= one.tokens
        if one.difference is not None:
            assert one.difference.same <= len(one.parts)


def talking(provider: str) -> Answering:
    """Call the lamp once, then answer with text, and so on."""
    count = 0

    def answer(_: Asked) -> Play:
        nonlocal count
        count += 1
        if count == 1:
            return written(provider, "I look.", Called("call_1", "lamp", {"room": "attic"}))
        return written(provider, f"answer {count}")

    return answer


@pytest.mark.parametrize("provider", WRITTEN)
async def test_what_is_seen_is_what_a_server_got(provider: str, tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    secrets = {"KEY": KEYS[provider]}.get
    async with serving(talking(provider)) as server, open_supervisor(journal=journal, secrets=secrets) as supervisor:
        spec = spec_of(provider, server.url, system="Be short.", tools=[lamp])
        session = await supervisor.spawn(spec, "s")
        await session.ask("is it on?")
        await session.ask("and now?")
        records = await records_of(journal, "s")
        demand_same(told(records), server.asked, KEYS[provider])
        assert at(records, len(records)).state == session.inspect()
    first, second, third = told(records)
    assert [(one.sent.number, one.sent.turn, one.sent.round) for one in (first, second, third)] == [
        (1, 1, 1),
        (2, 1, 2),
        (3, 2, 1),
    ]
    assert [(part.layer, part.name) for part in first.parts] == [
        ("tools", "lamp"),
        ("user", "user"),
        ("history", "user"),
    ]
    assert first.difference is None
    assert second.difference is not None
    assert (second.difference.same, second.difference.gone) == (len(first.parts), ())
    assert [part.name for part in second.difference.new] == ["assistant", "tool"]
    assert second.usage is not None
    assert second.usage.input_tokens > 0
    assert seen(records).sent == third.sent
    assert seen(records, 2).sent == second.sent


class Rewriter(Plugin[int]):
    """Rewrites and adds wherever a plugin may."""

    def init(self, ctx: Context) -> int:
        return 0

    def before_prompt(self, hook: BeforePrompt, state: int, ctx: Context) -> ReplacePrompt[int]:
        return ReplacePrompt(f"politely: {hook.text}")

    def after_tool(self, hook: AfterTool, state: int, ctx: Context) -> ReplaceToolResult[int]:
        return ReplaceToolResult(ok("it is [hidden]"))

    def after_response(self, hook: AfterResponse, state: int, ctx: Context) -> ReplaceResponse[int] | Continue[int]:
        return ReplaceResponse("said otherwise") if hook.message.text else Continue()


class Adder(Plugin[int]):
    """Adds context around each request, and a section that changes."""

    def init(self, ctx: Context) -> int:
        return 0

    def before_request(self, hook: BeforeRequest, state: int, ctx: Context) -> AddContext[int]:
        front = (UserMessage((Text("you are in Bern"),)),)
        return AddContext(f"it is {state} o'clock", state + 1, front=front)

    def after_tool(self, hook: AfterTool, state: int, ctx: Context) -> SetSection[int]:
        return SetSection("mood", f"calm {state}", state)


class Cutter(Plugin[int]):
    """Shows the model a shorter first message, and speaks up once."""

    def init(self, ctx: Context) -> int:
        return 0

    def before_request(self, hook: BeforeRequest, state: int, ctx: Context) -> ReplaceMessages[int] | Intervene[int]:
        if not state:
            return Intervene("mind the stairs", 1)
        shown: tuple[Message, ...] = (UserMessage((Text("(cut)"),)), *tuple(hook.messages)[1:])
        return ReplaceMessages(shown)


@pytest.mark.parametrize("provider", WRITTEN)
async def test_what_plugins_rewrite_and_add_is_seen_with_their_names(provider: str) -> None:
    journal, secrets = MemoryJournal(), {"KEY": KEYS[provider]}.get
    async with serving(talking(provider)) as server, open_supervisor(journal=journal, secrets=secrets) as supervisor:
        spec = spec_of(provider, server.url, tools=[lamp], plugins=[Rewriter(), Adder(), Cutter()], environment=False)
        session = await supervisor.spawn(spec, "s")
        await session.ask("is it on?")
        await session.ask("and now?")
        records = await records_of(journal, "s")
        demand_same(told(records), server.asked, KEYS[provider])
    first, second, _ = told(records)
    assert [(part.layer, part.by) for part in first.parts if part.message is not None] == [
        ("added", ("Adder",)),
        ("history", ("Rewriter",)),
        ("history", ("Cutter",)),
        ("added", ("Adder",)),
    ]
    assert [(part.layer, part.name, part.by) for part in second.parts][1:] == [
        ("added", "user", ("Adder",)),
        ("replaced", "user", ("Cutter",)),
        ("history", "user", ("Cutter",)),
        ("history", "assistant", ("Rewriter",)),
        ("history", "tool", ("Rewriter",)),
        ("added", "user", ("Adder",)),
        ("dynamic", "mood", ("Adder",)),
    ]
    assert [part.is_passing for part in second.parts][-2:] == [True, False]
    assert second.difference is not None
    assert second.difference.broke is not None
    assert (second.difference.broke.part, second.difference.broke.by) == ("messages", "Cutter")
    assert second.difference.same == 2, "the tool, and what is added in front"


@pytest.mark.parametrize("provider", WRITTEN)
async def test_what_is_seen_after_a_compaction_is_what_a_server_got(provider: str) -> None:
    journal, secrets = MemoryJournal(), {"KEY": KEYS[provider]}.get
    async with serving(talking(provider)) as server, open_supervisor(journal=journal, secrets=secrets) as supervisor:
        session = await supervisor.spawn(spec_of(provider, server.url, tools=[lamp]), "s")
        for number in range(4):
            await session.ask(f"question {number} {'and so on ' * 40}")
        count = len(server.asked)
        await session.compact("it is long")
        await session.ask("and now?")
        records = await records_of(journal, "s")
        last = told(records)
        demand_same(last, [*server.asked[:count], server.asked[-1]], KEYS[provider])
    assert last[-1].difference is not None
    assert last[-1].difference.broke is not None
    assert last[-1].difference.broke.name == "compaction"
    assert last[-1].difference.gone


@pytest.mark.parametrize("provider", WRITTEN)
@pytest.mark.parametrize("is_refused", [False, True])
async def test_typed_answers_are_seen_in_the_form_that_the_provider_took(provider: str, is_refused: bool) -> None:
    journal, secrets = MemoryJournal(), {"KEY": KEYS[provider]}.get
    plays: list[Play | Answering] = [REFUSED] if is_refused else []
    async with (
        serving(*plays, answering(provider, GOOD)) as server,
        open_supervisor(journal=journal, secrets=secrets) as supervisor,
    ):
        session = await supervisor.spawn(spec_of(provider, server.url, returns=SCHEMA), "s")
        await session.ask("which room?")
        await session.ask("and now?")
        records = await records_of(journal, "s")
        all_seen = told(records)
        demand_same(all_seen, server.asked[is_refused:], KEYS[provider])
        if is_refused:
            assert render(all_seen[0].request).body.encode() == server.asked[0].body, "what was refused"
    for one in all_seen:
        assert one.by_tool is is_refused
        assert ("tools", "answer") in {(part.layer, part.name) for part in one.parts} or not is_refused
        assert ("returns" in {part.layer for part in one.parts}) is not is_refused
        assert one.unknown == ()


async def test_without_a_response_nobody_knows_which_form_was_taken() -> None:
    journal, secrets = MemoryJournal(), {"KEY": KEYS["openai"]}.get
    refused = refusing(401, b'{"error": {"message": "no"}}')
    async with serving(refused) as server, open_supervisor(journal=journal, secrets=secrets) as supervisor:
        session = await supervisor.spawn(spec_of("openai", server.url, returns=SCHEMA), "s")
        with pytest.raises(TurnAborted):
            await session.ask("which room?")
        one = seen(await records_of(journal, "s"))
    assert (one.by_tool, one.unknown) == (
        None,
        ("no response has come, so nobody knows whether the provider took the schema of the answer",),
    )


@pytest.mark.parametrize("provider", WRITTEN)
async def test_a_sub_agent_has_records_of_its_own_that_tell_what_its_model_saw(provider: str) -> None:
    journal, secrets = MemoryJournal(), {"KEY": KEYS[provider]}.get

    def answer(asked: Asked) -> Play:
        if b"find the lamp" not in asked.body:
            task = {"agent": "finder", "prompt": "find the lamp", "description": "find"}
            return written(provider, "", Called("call_1", "task", task))
        return written(provider, "done")

    async with serving(answer) as server, open_supervisor(journal=journal, secrets=secrets) as supervisor:
        finder = spec_of(provider, server.url, system="You find things.", description="finds")
        session = await supervisor.spawn(spec_of(provider, server.url, agents={"finder": finder}), "s")
        await session.ask("where is it?")
        stored = await journal.sessions()
        (child,) = [one.session_id for one in stored if one.session_id != "s"]
        own, its = told(await records_of(journal, "s")), told(await records_of(journal, child))
        demand_same([own[0], *its, *own[1:]], server.asked, KEYS[provider])
    assert [part.text for part in its[0].parts if part.layer == "user"] == ["You find things."]


@pytest.mark.parametrize("provider", WRITTEN)
async def test_what_a_redaction_took_away_stays_away(provider: str) -> None:
    journal, secrets = MemoryJournal(), {"KEY": KEYS[provider]}.get
    async with serving(talking(provider)) as server, open_supervisor(journal=journal, secrets=secrets) as supervisor:
        session = await supervisor.spawn(spec_of(provider, server.url, tools=[lamp]), "s")
        await session.ask("is the lamp of Ada on?")
        await session.stop()
        await supervisor.redact("s", by="me")
        records = await records_of(journal, "s")
        one = seen(records)
        body = render(one.request).body
        assert b"Ada" in server.asked[-1].body
    assert "Ada" not in body
    assert "[redacted]" in body
    assert one.unknown == (
        f"{one.sent.record} records were redacted, the first is 1: a mark stands in place of their texts",
    )


async def test_what_models_of_users_send_is_not_rendered() -> None:
    for name in ("mine", "nobody:x", "openai:"):
        with pytest.raises(UnknownModel, match=f"there is no model `{name}`"):
            render(ModelRequest(name, ()))


async def test_a_header_that_names_a_secret_is_shown_by_its_name() -> None:
    async with serving(talking("openai")) as server:
        spec: SessionSpec = spec_of("openai", server.url)
    options = {**spec.model_options, "headers": {"X-Team": "lamps", "x-gate": spec.model_options["api_key"]}}
    rendered = render(ModelRequest("openai:gpt-5.4", (), options=options))
    assert {name: rendered.headers[name] for name in ("x-team", "x-gate", "authorization")} == {
        "x-team": "lamps",
        "x-gate": "$KEY",
        "authorization": "Bearer $KEY",
    }
