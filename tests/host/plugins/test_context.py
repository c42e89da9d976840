"""Context providers: asked once in each turn, additions only, in order, with their origin, isolated."""

from collections.abc import Sequence

import pytest
import trio

from agentrail.errors import BrokenPlugin
from agentrail.host import RequestContext
from agentrail.host.plugins.host_context import MAX_BYTES, OwnedProvider, providers_of
from agentrail.host.plugins.plugin_runner import HostPluginRow
from agentrail.models import AssistantMessage, Data, Image, Message, Origin, Text, ToolCall, ToolMessage, UserMessage
from agentrail.testing import ScriptedModel, say, transient
from tests.host.plugins.probes import CONTEXT, Broken, hangs, later, probe, raises, returns
from tests.host.plugins.sessions import ID, note, scene
from tests.kit import freeze_object

DONE = say("done")


def sent(model: ScriptedModel) -> list[list[str]]:
    """Return the texts of the user's messages in each request."""
    return [
        [message.text for message in request.messages if isinstance(message, UserMessage)] for request in model.requests
    ]


def spoken_texts(model: ScriptedModel) -> list[list[tuple[str, str]]]:
    """Return who speaks, and the text, of each message in each request: the user, the program, or the model."""
    return [
        [
            (
                "model" if isinstance(message, AssistantMessage) else "program" if is_programs(message) else "user",
                message.text,
            )
            for message in request.messages
        ]
        for request in model.requests
    ]


def is_programs(message: Message) -> bool:
    return isinstance(message, UserMessage) and message.origin is Origin.INTERVENTION


def message(text: str) -> UserMessage:
    return UserMessage((Text(text),))


async def test_providers_are_asked_once_in_a_turn_and_each_request_has_what_they_add(
    autojump_clock: object,  # noqa: ARG001
) -> None:
    texts_shown = list[list[str]]()

    async def stamp(context: RequestContext, messages: Sequence[Message]) -> list[str]:
        assert context is CONTEXT
        await trio.sleep(1)
        texts_shown.append([message.text for message in messages])
        return [f"stamp {len(texts_shown)}"]

    plugin = probe("a", [], {}, providers=[stamp])
    async with scene([plugin], [note("x"), transient(), DONE, DONE]) as it:
        await it.session.ask("one")
        await it.session.ask("two")
        assert sent(it.model) == [
            ["one", "stamp 1"],
            ["one", "stamp 1"],
            ["one", "stamp 1"],
            ["one", "two", "stamp 2"],
        ]
        history = [message.text for message in it.session.messages()]
        assert history == ["one", "", "noted x", "done", "two", "done"]
        assert it.reports.told == []
    assert texts_shown == [["one"], ["one", "", "noted x", "done", "two"]]


async def test_the_hosts_own_come_first_then_the_profiles_then_plugins_by_priority(
    autojump_clock: object,  # noqa: ARG001
) -> None:
    plugins = [
        probe("a", [], {}, 1, providers=[returns(["a1"]), lambda *_: later(["a2"])]),
        probe("b", [], {}, 2, providers=[returns([message("b1"), "b2"])]),
    ]

    def all_of(row: HostPluginRow) -> Sequence[OwnedProvider]:
        return providers_of(row, [returns(["host"])], [returns(("profile",))], "helper")  # type: ignore[list-item]

    async with scene(plugins, [DONE], providers=all_of) as it:
        await it.session.ask("go")
        assert sent(it.model) == [["go", "host\n\nprofile\n\nb1\n\nb2\n\na1\n\na2"]]


async def test_what_stands_around_the_whole_list_is_sent_before_and_after_the_conversation() -> None:
    async def framed(_: RequestContext, messages: Sequence[Message]) -> list[object]:
        return ["before", *messages, message("after")]

    plugin = probe("a", [], {}, providers=[framed, lambda _, messages: list(messages)])
    async with scene([plugin], [DONE, DONE]) as it:
        await it.session.ask("go")
        await it.session.ask("go")  # the history holds equal messages
        front, after, done = ("program", "before"), ("program", "after"), ("model", "done")
        assert spoken_texts(it.model) == [
            [front, ("user", "go"), after],
            [front, ("user", "go"), done, ("user", "go"), after],
        ]
        assert [entry.text for entry in it.session.messages()] == ["go", "done", "go", "done"]
        assert it.reports.told == []


async def test_each_provider_adds_before_or_after_the_conversation_in_their_order() -> None:
    async def in_front(_: RequestContext, messages: Sequence[Message]) -> list[object]:
        return ["in front", "", AssistantMessage((Text("Noted."),)), *messages]

    plugin = probe("a", [], {}, providers=[in_front, returns(["behind"]), in_front])
    async with scene([plugin], [note("x"), transient(), DONE]) as it:
        await it.session.ask("go")
        front, noted = ("program", "in front"), ("model", "Noted.")
        first = [front, noted, front, noted, ("user", "go")]
        back, called = ("program", "behind"), [("model", ""), ("user", "noted x")]
        assert spoken_texts(it.model) == [[*first, back], [*first, *called, back], [*first, *called, back]]
        assert it.reports.told == []


async def test_a_message_of_the_model_is_sent_as_one() -> None:
    added = [message("m"), message("n"), AssistantMessage((Text("It rains."),)), AssistantMessage((Text(" "),)), "o"]
    async with scene([probe("a", [], {}, providers=[returns(added)])], [DONE]) as it:
        await it.session.ask("go")
        assert spoken_texts(it.model) == [
            [("user", "go"), ("program", "m\n\nn"), ("model", "It rains."), ("program", "o")],
        ]
        assert it.reports.told == []


async def test_calls_and_results_are_told_with_the_role_of_their_message() -> None:
    answered = AssistantMessage((Text("It rains."),), (ToolCall("c1", "look", freeze_object({"at": "sky"})),))
    added = [message("m"), answered, ToolMessage("c1", "look", (Text("grey"), Data(())), is_error=True)]
    async with scene([probe("a", [], {}, providers=[returns(added)])], [DONE]) as it:
        await it.session.ask("go")
        text = 'm\n\nassistant: It rains.\nassistant calls look: {"at":"sky"}\n\nresult of look (error): grey[]'
        assert spoken_texts(it.model) == [[("user", "go"), ("program", text)]]
        assert it.reports.told == []


async def test_what_stands_before_the_conversation_is_not_shown_to_the_next_turn() -> None:
    texts_shown = list[list[str]]()

    async def in_front(_: RequestContext, messages: Sequence[Message]) -> list[object]:
        texts_shown.append([entry.text for entry in messages])
        return [f"turn {len(texts_shown)}", *messages]

    async with scene([probe("a", [], {}, providers=[in_front])], [DONE, DONE]) as it:
        await it.session.ask("one")
        await it.session.ask("two")
        assert spoken_texts(it.model)[1] == [
            ("program", "turn 2"),
            ("user", "one"),
            ("model", "done"),
            ("user", "two"),
        ]
    assert texts_shown == [["one"], ["one", "done", "two"]]


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (lambda _, messages: ["note", messages[0], "on", messages[0], messages[0]], "its list holds some of these"),
        (returns(None), "it returned nothing; it must return a list of texts and messages"),
        (returns("text"), "it must return a list of texts and messages"),
        (returns([3]), "it must return texts, and messages of texts"),
        (returns([UserMessage((Image("image/png", "aGk="),))]), "it must return texts, and messages of texts"),
        (returns(["x" * (MAX_BYTES + 1)]), "bytes are the limit of a turn"),
        (lambda _, messages: ["x" * MAX_BYTES, *messages], "bytes are the limit of a turn"),
        (returns([AssistantMessage((Text("x"),)), "y"] * (MAX_BYTES // 40)), "bytes are the limit of a turn"),
    ],
)
async def test_a_list_that_will_not_do_is_refused_and_reported(bad: object, problem: str) -> None:
    assert callable(bad)
    plugins = [probe("bad", [], {}, 1, providers=[bad]), probe("good", [], {}, providers=[returns(["good"])])]
    async with scene(plugins, [DONE]) as it:
        await it.session.ask("go")
        assert sent(it.model) == [["go", "good"]]
        ((plugin, hook, error),) = it.reports.told
        assert (plugin, hook, type(error)) == ("bad", "context_providers", BrokenPlugin)
        assert problem in str(error)


async def test_one_that_fails_or_hangs_is_reported_and_skipped(autojump_clock: object) -> None:  # noqa: ARG001
    plugins = [
        probe("a", [], {}, 2, providers=[raises, returns(["a"])]),
        probe("b", [], {}, 1, providers=[hangs]),
        probe("c", [], {}, providers=[returns(["c"])]),
    ]
    async with scene(plugins, [DONE]) as it:
        await it.session.ask("go")
        assert sent(it.model) == [["go", "a\n\nc"]]
        late = BrokenPlugin("b", "context_providers", "it was not done after 10 s, its deadline")
        assert it.reports.told == [("a", "context_providers", Broken()), ("b", "context_providers", late)]


async def test_all_providers_together_add_at_most_what_the_state_holds() -> None:
    half = "x" * (MAX_BYTES // 2)
    plugins = [probe(name, [], {}, providers=[returns([half[:-100]])]) for name in "abc"]
    async with scene(plugins, [DONE]) as it:
        await it.session.ask("go")
        assert len(sent(it.model)[0][1]) == MAX_BYTES - 200 + 2
        assert [plugin for plugin, _, _ in it.reports.told] == ["c"]


async def test_nothing_to_add_adds_nothing_and_the_session_keeps_no_text() -> None:
    async with scene([probe("a", [], {}, providers=[returns([]), returns([""])])], [DONE]) as it:
        await it.session.ask("go")
        assert sent(it.model) == [["go"]]
    async with scene([probe("a", [], {}, providers=[returns(["secret"])])], [DONE]) as it:
        await it.session.ask("go")
        assert "secret" not in repr(it.session.inspect().plugin_states)
        assert it.session.id == ID


async def test_providers_that_add_nothing_are_asked_once_in_a_turn_too() -> None:
    request_contexts = list[RequestContext]()

    async def nothing(context: RequestContext, messages: Sequence[Message]) -> list[str]:
        await trio.lowlevel.checkpoint()
        request_contexts.append(context)
        return [message.text for message in messages[1:]]

    async with scene([probe("a", [], {}, providers=[nothing])], [note("x"), DONE]) as it:
        await it.session.ask("go")
        assert sent(it.model) == [["go"], ["go"]]
    assert request_contexts == [CONTEXT]
