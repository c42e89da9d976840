"""`PrefixChanged` comes if, and only if, the rendered bytes of a request do not begin with those of the last one."""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

import pytest
import trio
from attrs import frozen

from agentrail import (
    AddContext,
    Context,
    Continue,
    Intervene,
    Plugin,
    ReplaceMessages,
    SessionHandle,
    SessionSpec,
    SetSection,
    SwitchModel,
    open_supervisor,
)
from agentrail.adapters.models.settings import READERS
from agentrail.core.answers import with_answer_tool, without_answer_tool
from agentrail.events import Envelope, PrefixChanged
from agentrail.insight.cache_prefix import CHOICE, NOT_IN_PROMPT
from agentrail.journals import MemoryJournal
from agentrail.models import (
    AskModel,
    EmitChunk,
    FrozenObject,
    Json,
    JsonObject,
    Leaving,
    Message,
    ModelRequest,
    Response,
    Text,
    UserMessage,
)
from agentrail.plugins import AnyPlugin, BeforeCompaction, BeforePrompt, BeforeRequest, Keyed
from agentrail.ports.tool import Offer
from agentrail.testing import ScriptedModel, call, overflow, say, transient
from agentrail.tools import Tool, ToolResult, ToolSpec, ok
from agentrail.tools.builtin import compact_conversation
from tests.adapters.models.goldens import OWN
from tests.adapters.models.prefixes import common, prompt_of
from tests.cache_prefixes import broken_prefixes
from tests.kit import EMPTY, Element, freeze_object
from tests.profiles import CAMPAIGN

EDITS = 1_000 if CAMPAIGN else 200
SAME, OTHER = OWN["anthropic"], "other:one"
CLAUDE: Final = ("openrouter:anthropic/claude-opus-5", "vllm:Claude-Sonnet-5")
"""Models of Anthropic behind servers with another wire format."""
FORM: Final[Mapping[str, Json]] = {
    "type": "object",
    "properties": {"answer": {"type": "string"}},
    "required": ["answer"],
}
CLOSING = 16
"""The most bytes that end a prompt and are not there when it goes on: quotes and brackets."""

Layer: TypeAlias = Literal["skills", "memory", "dynamic"]
Expected: TypeAlias = tuple[str, str, str] | None
Between = Callable[[SessionHandle], Awaitable[None]]
LONG = "All that there is to know about it. " * 12


@frozen
class Sets(Plugin[int]):
    """Sets one section at the prompt of one number."""

    at: int
    key_: str
    text: str | None
    layer: Layer

    def init(self, ctx: Context) -> int:
        return 0

    def before_prompt(self, hook: BeforePrompt, state: int, ctx: Context) -> Continue[int] | SetSection[int]:
        if state != self.at:
            return Continue(state + 1)
        return SetSection(self.key_, self.text, state + 1, layer=self.layer)


@frozen
class Shows(Plugin[int]):
    """Shows other messages from the request of one number on: one is changed, left out, or added at the end."""

    at: int
    place: int
    how: Literal["change", "leave_out", "add"]

    def init(self, ctx: Context) -> int:
        return 0

    def before_request(self, hook: BeforeRequest, state: int, ctx: Context) -> Continue[int] | ReplaceMessages[int]:
        if state != self.at:
            return Continue(state + 1)
        messages: list[Message] = list(hook.messages)
        if self.how == "change":
            messages[self.place] = UserMessage((Text("something else"),))
        elif self.how == "leave_out":
            del messages[self.place]
        else:
            messages.append(UserMessage((Text("by the way"),)))
        return ReplaceMessages(messages, state + 1)


class Speaks(Plugin[None]):
    def before_request(self, hook: BeforeRequest, state: None, ctx: Context) -> Intervene[None]:
        return Intervene("go on")


class Adds(Plugin[None]):
    def before_request(self, hook: BeforeRequest, state: None, ctx: Context) -> AddContext[None]:
        return AddContext(f"it is request {len(hook.messages)}")


@frozen
class Fronts(Plugin[int]):
    """Adds a text before the messages of each request: one until a request of some number, and then another."""

    at: int
    first: str
    then: str

    def init(self, ctx: Context) -> int:
        return 0

    def before_request(self, hook: BeforeRequest, state: int, ctx: Context) -> Continue[int] | AddContext[int]:
        text = self.first if state < self.at else self.then
        if not text:
            return Continue(state + 1)
        return AddContext("", state + 1, front=(UserMessage((Text(f"{text}. {LONG}"),)),))


class Prunes(Plugin[None]):
    def before_compact(self, hook: BeforeCompaction, state: None, ctx: Context) -> ReplaceMessages[None]:
        return ReplaceMessages(tuple(hook.messages)[2:])


@frozen
class Switches(Plugin[int]):
    """Switches the model before the request of one number."""

    at: int
    model: str
    options: JsonObject = EMPTY

    def init(self, ctx: Context) -> int:
        return 0

    def before_request(self, hook: BeforeRequest, state: int, ctx: Context) -> Continue[int] | SwitchModel[int]:
        return Continue(state + 1) if state != self.at else SwitchModel(self.model, state + 1, self.options)


class Formed:
    """Plays a script, and takes the form of the answer itself, as the models of the providers do, unless it is not to.

    One that does not is asked to give the answer by a tool. So are those whose provider refuses the schema, in turns of
    some numbers, as they do themselves.
    """

    def __init__(
        self, script: Sequence[Element], name: str, requests: list[ModelRequest], forms: bool, refused: tuple[int, ...]
    ) -> None:
        self.name = name
        self.forms_answers = forms
        self._refused = refused
        self._scripted = ScriptedModel(script, name=name)
        self._scripted.requests = requests  # of both models: together they play one script

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        if len(self._scripted.requests) not in self._refused or not request.returns:
            return await self._scripted.stream(request, emit)
        asked, name = with_answer_tool(request)
        return without_answer_tool(await self._scripted.stream(asked, emit), name)


class Server:
    """Source that offers one tool."""

    name = "server"

    def check(self) -> None:
        """No-op: it always starts."""

    async def supply(self, working_dir: str, offer: Offer) -> None:
        await offer([tool("iron")])
        await trio.sleep_forever()


async def written(_leaving: Leaving, _ask: AskModel) -> str:
    return "there was talk"


@frozen
class Fake:
    spec: ToolSpec

    async def execute(self, args: JsonObject, ctx: object) -> ToolResult:
        await trio.lowlevel.checkpoint()
        return ok("done")


def tool(name: str, about: str = LONG, *, deferred: bool = False) -> Tool:
    return Fake(ToolSpec(name, about, FrozenObject({"type": "object"}), deferred=deferred))


KNOWN: tuple[tuple[str, Layer], ...] = (
    ("sewing", "skills"),
    ("cutting", "skills"),
    ("AGENTS.md", "memory"),
    ("NOTES.md", "memory"),
    ("todos", "dynamic"),
)


SPOKEN: Final = tuple(f'{{"answer": "{turn}. {LONG}"}}' for turn in range(3))
"""Answers that fit `FORM`."""

Turn = Callable[[SessionHandle, int], Awaitable[object]]


async def asked(session: SessionHandle, turn: int) -> object:
    return await session.ask(f"question {turn}. {LONG}")


async def asked_in_form(session: SessionHandle, turn: int) -> object:
    return await session.ask(f"question {turn}. {LONG}", returns=FORM)


class Edit:
    """One edit before the third turn, and what is to be said of it: part, name, plugin; `None` if nothing is."""

    def __init__(
        self,
        expected: Expected,
        *plugins: AnyPlugin,
        between: Between | None = None,
        turns: tuple[Turn, Turn, Turn] = (asked, asked, asked),
        script: Sequence[Element] = SPOKEN,
        passing: int = 0,
        readers: Iterable[str] = OWN,
        forms: bool = True,
        refused: tuple[int, ...] = (),
        **spec: object,
    ) -> None:
        self.expected = expected
        self.forms = forms
        self.refused = refused  # numbers of the turns in which the provider refuses the schema of the answer
        self.readers = readers  # providers, or models, of which it is to be true
        self.passing = passing  # the most bytes that end a request and are of this request alone
        self.plugins = [Keyed(f"Editor{index}", plugin) for index, plugin in enumerate(plugins)]
        self.between = between
        self.turns = turns
        self.script = script
        self.spec = spec


def section_edit(chance: random.Random) -> Edit:
    key, layer = chance.choice(KNOWN)
    last = key == [name for name, other in KNOWN if other == layer][-1]
    expected = None if layer == "dynamic" else (layer, key, "Editor0")
    text = f"Now {chance.random()}. {LONG}"
    match chance.randrange(6):
        case 0:
            return Edit(expected, Sets(2, key, text, layer))
        case 1:
            return Edit(expected, Sets(2, key, None, layer))
        case 2:
            return Edit(None, Sets(2, key, f"{key}: {LONG}", layer))
        case 3:
            again = None if expected is None or last else (layer, key, "Editor1")
            return Edit(again, Sets(2, key, None, layer), Sets(2, key, f"{key}: {LONG}", layer))
        case 4:
            added = None if layer == "dynamic" else (layer, "new", "Editor0")
            return Edit(added, Sets(2, "new", text, layer))
        case _:
            moved = (layer, key, "Editor0") if layer != "dynamic" else ("memory", key, "Editor0")
            other: Layer = "dynamic" if layer != "dynamic" else "memory"
            return Edit(moved, Sets(2, key, text, other))


def tool_edit(chance: random.Random) -> Edit:
    name = chance.choice(("cut", "stitch", "press"))
    late = chance.choice(("deferred0", "deferred3", "deferred7"))

    def changing(*attach: Tool, detach: str = "") -> Between:
        async def change(session: SessionHandle) -> None:
            if detach:
                await session.detach_tools(detach)
            await session.attach_tools(*attach)

        return change

    async def come_and_go(session: SessionHandle) -> None:
        await session.attach_tools(tool("iron"))
        await session.detach_tools("iron")

    async def supplied(session: SessionHandle) -> None:
        await session.attach_tools(Server())

    own = ("tool", name, "")
    return chance.choice(
        (
            Edit(own, between=changing(tool(name, "another thing"), detach=name)),
            Edit(("tool", "iron", ""), between=changing(tool("iron"))),
            Edit(own, between=changing(detach=name)),
            Edit(None if name == "press" else own, between=changing(tool(name), detach=name)),
            Edit(None, between=come_and_go),
            Edit(("tool", "iron", "server"), between=supplied),
            # Of deferred tools the model is told the names alone, in the description of a tool after all others.
            Edit(("tool", "more", ""), between=changing(tool("more", deferred=True))),
            Edit(("tool", late, ""), between=changing(detach=late)),
            Edit(
                None if late == "deferred7" else ("tool", late, ""),
                between=changing(tool(late, "another thing", deferred=True), detach=late),
            ),
        )
    )


def message_edit(chance: random.Random) -> Edit:
    async def compact(session: SessionHandle) -> None:
        await session.compact("now")

    place = chance.randrange(3)
    replaced, front = ("messages", "replaced", "Editor0"), ("messages", "front", "Editor0")
    long = ("a" * 30_000, "b" * 30_000, "c")
    makes_room = say(calls=[call("compact_conversation")])
    return chance.choice(
        (
            Edit(replaced, Shows(2, place, "change")),
            Edit(replaced, Shows(2, place, "leave_out")),
            Edit(None, Shows(2, place, "add")),
            Edit(None, Speaks()),
            Edit(None, Adds(), passing=60),
            Edit(front, Fronts(2, "one", "two")),
            Edit(front, Fronts(2, "", "two")),
            Edit(front, Fronts(2, "one", "")),
            Edit(None, Fronts(2, "one", "one")),
            Edit(None, Fronts(2, "one", "one"), Adds(), passing=60),
            Edit((*front[:2], "Editor1"), Fronts(2, "one", "one"), Fronts(2, "", "two")),
            Edit((*replaced[:2], "Editor1"), Fronts(2, "one", "one"), Shows(2, place, "change")),
            Edit(("messages", "compaction", "caller"), Fronts(2, "one", "one"), between=compact),
            Edit(("messages", "compaction", "caller"), between=compact),
            Edit(("messages", "compaction", "Editor0"), Prunes(), between=compact),
            Edit(("messages", "compaction", "compact_conversation"), script=("a" * 9000, "b", makes_room, "c")),
            Edit(
                ("messages", "compaction", "compact_at"),
                script=long,
                compact_at=9000,
                compact_to=2000,
            ),
            Edit(("messages", "compaction", "overflow"), script=("a" * 9000, "b" * 9000, overflow(), "c")),
        )
    )


def head_edit(chance: random.Random) -> Edit:
    effort = chance.choice(("low", "medium", "high"))
    form: dict[str, object] = {"type": "object", "properties": {"a": {"type": chance.choice(("string", "number"))}}}
    options: dict[str, Json] = chance.choice(
        ({"reasoning_effort": effort}, {"response_format": freeze_object(form)})  # type: ignore[arg-type]  # JSON
    )
    name = next(iter(options))

    def switching(model: str, **to: Json) -> Between:
        async def switch(session: SessionHandle) -> None:
            await session.switch_model(model, command=None, **to)

        return switch

    async def there_and_back(session: SessionHandle) -> None:
        await session.switch_model(OTHER)
        await session.switch_model(SAME)

    late = f"deferred{chance.randrange(8)}"
    demanding: dict[str, Json] = {"tool_choice": FrozenObject({"tool": late})}
    returns, refused, accepted = [("returns", name, "") for name in ("returns", "refused", "accepted")]
    in_form = (asked_in_form, asked_in_form, asked_in_form)
    waits = transient(retry_after=100_000.0)
    return chance.choice(
        (
            Edit(("model", OTHER, ""), between=switching(OTHER)),
            Edit(("model", OTHER, ""), between=switching(OTHER, **options)),
            Edit(("model", OTHER, "Editor0"), Switches(2, OTHER)),
            Edit(("model", OTHER, "Editor1"), Switches(2, SAME), Switches(2, OTHER)),
            Edit(None, Switches(2, OTHER), Switches(2, SAME)),
            Edit(None, between=there_and_back),
            Edit(("model", OTHER, ""), script=("a", "b", waits, "c"), model=(SAME, OTHER)),
            Edit(("options", name, ""), between=switching(SAME, **options)),
            Edit(("options", name, "Editor0"), Switches(2, SAME, freeze_object(options))),
            Edit(("tool", late, ""), between=switching(SAME, **demanding)),
            Edit(("tool", late, ""), between=switching(SAME), model_options=demanding),
            Edit(None, between=switching(SAME, **demanding), model_options=demanding),
            Edit(None, between=switching(SAME, max_tokens=chance.randrange(20_000, 30_000))),
            Edit(None, between=switching(SAME, next_byte_timeout=chance.randrange(50, 90))),
            Edit(returns, turns=(asked, asked, asked_in_form)),
            Edit(returns, turns=(asked, asked_in_form, asked)),
            Edit(None, turns=(asked, asked_in_form, asked_in_form)),
            Edit(None, turns=in_form, returns=FORM),
            Edit(refused, turns=in_form, refused=(2,)),
            Edit(accepted, turns=in_form, refused=(0, 1)),
            Edit(None, turns=in_form, refused=(0, 1, 2)),
            Edit(None, turns=(asked, asked_in_form, asked_in_form), refused=(1, 2)),
            Edit(returns, turns=(asked, asked, asked_in_form), refused=(2,)),
            Edit(returns, turns=(asked, asked_in_form, asked), refused=(1,)),
            Edit(("model", OTHER, ""), turns=in_form, refused=(2,), between=switching(OTHER)),
        )
    )


def choice_edit(chance: random.Random) -> Edit:
    """Return an edit of what may be called: for models of Anthropic alone, messages are read again for it."""
    elsewhere = chance.choice([provider for provider in OWN if provider != "anthropic"])
    claude = chance.choice(CLAUDE)
    chosen: dict[str, Json] = {"tool_choice": chance.choice(("any", "none", FrozenObject({"tool": "cut"})))}
    calls = say(calls=[call("cut")])
    by_tool = [say(calls=[call("answer", json.loads(text))]) for text in SPOKEN]
    in_form = (asked_in_form, asked_in_form, asked_in_form)
    limit, option = ("tool_choice", "max_rounds", ""), ("tool_choice", "tool_choice")

    def switching(**to: Json) -> Between:
        async def switch(session: SessionHandle) -> None:
            await session.switch_model(session.inspect().model, command=None, **to)

        return switch

    def told(expected: Expected, *plugins: AnyPlugin, **given: object) -> Edit:
        return Edit(expected, *plugins, readers=("anthropic",), **given)  # type: ignore[arg-type]  # of `Edit`

    return chance.choice(
        (
            told(limit, max_rounds=2, script=("a", "b", calls, "c")),
            told(limit, max_rounds=2, script=("a", calls, "b", "c")),
            told(None, max_rounds=2, script=("a", "b", transient(), "c")),
            told(None, max_rounds=3, script=("a", "b", calls, "c")),
            told(limit, max_rounds=2, script=(*SPOKEN[:2], calls, SPOKEN[2]), turns=in_form),
            told(limit, max_rounds=2, script=(*by_tool[:2], calls, by_tool[2]), turns=in_form, forms=False),
            Edit(
                None,
                max_rounds=2,
                script=(*by_tool[:2], calls, by_tool[2]),
                turns=in_form,
                forms=False,
                model=OWN[elsewhere],
                readers=(elsewhere,),
            ),
            Edit(limit, max_rounds=2, script=("a", "b", calls, "c"), model=claude, readers=(claude,)),
            Edit((*option, ""), between=switching(**chosen), model=claude, readers=(claude,)),
            told(None, max_rounds=1, between=switching(**chosen)),
            told((*option, ""), between=switching(**chosen)),
            told((*option, ""), between=switching(), model_options=chosen),
            told((*option, "Editor0"), Switches(2, SAME, freeze_object(chosen))),
            told(None, between=switching(tool_choice="auto")),
            told(None, max_rounds=2, script=("a", "b", calls, "c"), model_options={"tool_choice": "none"}),
            Edit(None, max_rounds=2, script=("a", "b", calls, "c"), model=OWN[elsewhere], readers=(elsewhere,)),
            Edit(None, between=switching(**chosen), model=OWN[elsewhere], readers=(elsewhere,)),
        )
    )


async def played(edit: Edit) -> tuple[list[ModelRequest], list[PrefixChanged]]:
    """Return the last two requests of a session with *edit* before its third turn, and what was told of prefixes.

    What a subscriber hears is what the records tell.
    """
    requests: list[ModelRequest] = []
    known = [Keyed(key.partition(".")[0], Sets(0, key, f"{key}: {LONG}", layer)) for key, layer in KNOWN]
    later = [tool(f"deferred{index}", LONG * 8, deferred=True) for index in range(8)]
    told: list[Envelope] = []
    journal = MemoryJournal()
    named: dict[str, Formed] = {
        name: Formed(edit.script, name, requests, edit.forms, edit.refused) for name in (OTHER, *OWN.values(), *CLAUDE)
    }

    def made(rest: str) -> Formed:
        return next(one for name, one in named.items() if name.partition(":")[2] == rest)

    async with open_supervisor(journal=journal, models={name.partition(":")[0]: made for name in named}) as supervisor:
        given: dict[str, object] = {
            "model": SAME,
            "plugins": [*known, *edit.plugins],
            "tools": [compact_conversation, tool("cut"), *later[:5], tool("stitch"), tool("press"), *later[5:]],
            "system": "Help.",
            "compact_to": 0.3,
            "compactor": written,
        }
        session = await supervisor.spawn(SessionSpec(**{**given, **edit.spec}))  # type: ignore[arg-type]  # fields
        async with session.subscribe(types=[PrefixChanged]) as events:
            for number, turn in enumerate(edit.turns):
                if number == 2 and edit.between is not None:
                    await edit.between(session)
                await turn(session, number)
            while (envelope := events.next_now()) is not None:
                told.append(envelope)
        records = await journal.read(session.id)
    assert list(broken_prefixes(records)) == [(envelope.turn, envelope.event) for envelope in told]
    return requests[-2:], [
        envelope.event for envelope in told if envelope.turn not in {1, 2} and isinstance(envelope.event, PrefixChanged)
    ]


EDITORS: Final = {
    "sections": section_edit,
    "tools": tool_edit,
    "messages": message_edit,
    "head": head_edit,
    "choice": choice_edit,
}


@pytest.mark.long
@pytest.mark.parametrize("kind", EDITORS)
async def test_each_edit_is_told_with_its_part_and_plugin_and_nothing_else_is(kind: str) -> None:
    chance = random.Random(kind)
    for number in range(EDITS // len(EDITORS)):
        edit = EDITORS[kind](chance)
        requests, told = await played(edit)
        about = f"edit {number}: {edit.expected}"
        assert [(one.part, one.name, one.by) for one in told] == ([] if edit.expected is None else [edit.expected]), (
            about
        )
        for provider in edit.readers:
            before, after = (prompt_of(request.but(sections=()), provider) for request in requests)
            paid = len(before) - common(before, after)
            assert (paid > CLOSING + edit.passing) == bool(told), (about, provider)
            if told and told[0].name != "compaction":
                again = min(paid, len(after) - common(before, after))  # what is gone is not read again
                more = told[0].tokens * 4 - again
                assert -800 - again / 4 < more, (about, provider, told, again)
                too_much = edit.refused and told[0].name == "returns"  # that it is refused is not known then
                assert more < 800 + again / 4 or too_much, (about, provider, told, again)


async def test_what_changes_before_the_messages_is_told_before_their_compaction() -> None:
    async def compact(session: SessionHandle) -> None:
        await session.compact("now")

    for plugins, told in (
        ([Fronts(2, "one", "one")], ("messages", "compaction", "caller")),
        ([Fronts(2, "one", "two")], ("messages", "front", "Editor0")),
        ([Fronts(2, "one", "")], ("messages", "front", "Editor0")),
        ([Fronts(2, "one", "one"), Fronts(2, "", "two")], ("messages", "front", "Editor1")),
    ):
        _, events = await played(Edit(None, *plugins, between=compact))
        assert [(one.part, one.name, one.by) for one in events] == [told]


async def test_a_last_request_that_is_tried_again_is_told_once() -> None:
    script = ("a", "b", say(calls=[call("cut")]), transient(), "c")
    requests, told = await played(Edit(None, max_rounds=2, script=script))
    assert [request.may_call for request in requests] == [False, False]
    assert [(one.part, one.name) for one in told] == [("tool_choice", "max_rounds")]


CHOSEN: Final[Mapping[str, Json]] = {
    "max_tokens": 20_000,
    "reasoning_effort": "high",
    "tool_choice": "none",
    "response_format": FrozenObject({"type": "object", "properties": EMPTY}),
    "cache": False,
    "next_byte_timeout": 50,
}
ELSEWHERE: Final = frozenset({"base_url", "extra", "tool_search", "region", "project", "api_version"})
"""Options that count as read, because another server, or fields that nobody knows, have another cache."""


def test_only_options_that_no_provider_reads_are_left_out() -> None:
    plain = ModelRequest(SAME, (UserMessage((Text("hello"),)),), tools=(tool("cut").spec,))
    for name, option in CHOSEN.items():
        read = [
            prompt_of(plain.but(options=freeze_object({name: option})), provider) != prompt_of(plain, provider)
            for provider in OWN
        ]
        assert any(read) == (name not in NOT_IN_PROMPT), name
        if name == CHOICE:
            assert read == [provider in {"anthropic", "bedrock"} for provider in OWN]
    assert set(READERS) - NOT_IN_PROMPT - set(CHOSEN) == ELSEWHERE
