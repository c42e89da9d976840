import json
from collections.abc import Mapping, Sequence

import jsonschema
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from agentrail.adapters.models.demo import PHRASES, Phrase, chunks_of, introduction, respond, steps_of
from agentrail.models import (
    AssistantMessage,
    Chunk,
    Data,
    DemoModel,
    History,
    Image,
    Json,
    JsonObject,
    Message,
    Model,
    ModelRequest,
    Origin,
    Response,
    StopReason,
    Text,
    TextChunk,
    Thinking,
    ThinkingChunk,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from agentrail.tools import ToolSpec
from agentrail.values.content import text_of
from agentrail.values.json import canonical
from tests.each_case import each_case
from tests.kit import freeze_object, thaw


def a_tool(name: str, *required: str, **parameters: str) -> ToolSpec:
    properties = {name: {"type": kind} for name, kind in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return ToolSpec(name, f"The tool `{name}`.", freeze_object(schema))


LIST_DIR = a_tool("list_dir", path="string")
READ_FILE = a_tool("read_file", "path", path="string", offset="integer", limit="integer")
WRITE_FILE = a_tool("write_file", "path", "content", path="string", content="string")
EDIT_FILE = a_tool("edit_file", "path", "old_text", "new_text", path="string", old_text="string", new_text="string")
GREP = a_tool("grep", "pattern", pattern="string", path="string", glob="string", context="integer")
GLOB = a_tool("glob", "pattern", pattern="string", path="string")
SHELL = a_tool("shell", "command", command="string", timeout="number", background="boolean")
REMEMBER = a_tool("remember", "fact", fact="string")
COUNT = a_tool("count", "to", to="string")
TOOLS = (LIST_DIR, READ_FILE, WRITE_FILE, EDIT_FILE, GREP, GLOB, SHELL, REMEMBER, COUNT)


def user(text: str, origin: Origin = Origin.PROMPT) -> UserMessage:
    return UserMessage((Text(text),), origin)


def ask(*messages: Message, tools: Sequence[ToolSpec] = TOOLS, may_call: bool = True) -> Response:
    return respond(ModelRequest("demo", History(messages), tools=tuple(tools), may_call=may_call))


def as_message(response: Response) -> AssistantMessage:
    """Take *response* into a history as a session does, with an id of its own for each call."""
    calls = tuple(call.but(call_id=f"call-{call.provider_id}") for call in response.calls)
    return AssistantMessage(response.parts, calls, "demo", response.stop, response.usage)


def result(call: ToolCall, text: str, *, is_error: bool = False) -> ToolMessage:
    return ToolMessage(call.call_id, call.name, (Text(text),), is_error)


def talk(text: str, results: Mapping[str, str], tools: Sequence[ToolSpec] = TOOLS) -> list[Response]:
    """Ask *text* and give the results of the calls, until there are no more calls."""
    messages: list[Message] = [user(text)]
    said: list[Response] = []
    while not said or said[-1].calls:
        said.append(ask(*messages, tools=tools))
        message = as_message(said[-1])
        messages += [message, *(result(call, results.get(call.name, "done")) for call in message.calls)]
        assert len(said) < 10, "it never ends"
    return said


def calls_of(responses: Sequence[Response]) -> list[tuple[str, object]]:
    return [(call.name, thaw(call.args)) for response in responses for call in response.calls]


# The table


@pytest.mark.parametrize("phrase", PHRASES, ids=lambda phrase: phrase.example)
def test_an_example_becomes_a_call_that_its_tool_accepts(phrase: Phrase) -> None:
    for example in (phrase.example, f"Please {phrase.example}.", phrase.example.capitalize()):
        (call,) = ask(user(example)).calls
        assert call.name == phrase.tool
        (spec,) = [spec for spec in TOOLS if spec.name == call.name]
        jsonschema.validate(thaw(call.args), json.loads(canonical(spec.parameters)))


@pytest.mark.parametrize(
    "text",
    [
        "What is the capital of France?",
        "Tell me a joke",
        "Write a letter",
        "Make a sandwich",
        "git is hard",
        "help",
        "list my songs",
    ],
)
def test_what_only_looks_like_a_request_is_none(text: str) -> None:
    assert ask(user(text)).calls == ()


# Arguments


@each_case(
    [
        ("list docs", a_tool("list_dir", directory="string"), {"directory": "docs"}),
        ("list docs", a_tool("list_dir"), {}),
        ("list docs", ToolSpec("list_dir", "No schema."), {}),
        ("list files", a_tool("list_dir", path="string"), {}),
        ("list files in my docs", a_tool("list_dir", path="string"), {"path": "my docs"}),
        ("read a.txt", a_tool("read_file", "filePath", filePath="string"), {"filePath": "a.txt"}),
        ("search for x in src", a_tool("grep", "query", query="string", path="string"), {"query": "x", "path": "src"}),
        ("run ls", a_tool("shell", "cmd", "why", cmd="string", why="string"), {"cmd": "ls", "why": "demo"}),
        (
            "run ls",
            a_tool("shell", "n", "b", cmd="string", n="integer", b="boolean"),
            {"cmd": "ls", "n": 1, "b": False},
        ),
        ("run ls", a_tool("run", command="string"), {"command": "ls"}),
        ("search for tea", a_tool("search", query="string"), {"query": "for tea"}),
        (
            "write hello to a.txt",
            a_tool("write_file", path="string", text="string"),
            {"path": "a.txt", "text": "hello"},
        ),
        (
            "replace x with y in a.txt",
            a_tool("edit_file", path="string", old="string", new="string"),
            {"path": "a.txt", "old": "x", "new": "y"},
        ),
        ("count to 20", a_tool("count", "to", to="integer"), {"to": 20}),
        ("remember x", a_tool("remember", "text", "tags", text="string", tags="array"), {"text": "x", "tags": []}),
    ]
)
def test_slots_go_where_the_schema_wants_them(text: str, spec: ToolSpec, args: Mapping[str, Json]) -> None:
    assert calls_of([ask(user(text), tools=[spec])]) == [(spec.name, args)]


def test_what_a_schema_suggests_is_taken() -> None:
    properties = {
        "command": {"type": "string"},
        "sh": {"enum": ["zsh"]},
        "n": {"default": 7},
        "m": {"type": "integer", "minimum": 3},
    }
    spec = ToolSpec("shell", "", freeze_object({"properties": properties, "required": ["sh", "n", "m"]}))
    assert calls_of([ask(user("run ls"), tools=[spec])]) == [("shell", {"command": "ls", "sh": "zsh", "n": 7, "m": 3})]


# Steps


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("list the files, then read a.txt and then run ls", ["list the files", "read a.txt", "run ls"]),
        ("list the files\nread a.txt\n\nrun ls", ["list the files", "read a.txt", "run ls"]),
        ("run `ls; pwd` and more", ["run `ls; pwd` and more"]),
        ("", []),
    ],
)
def test_a_text_is_cut_into_steps(text: str, steps: list[str]) -> None:
    assert steps_of(text) == steps


WORDS = ["read", "write", "run", "list", "search for", "it", "a.txt", "to", "in", "then", "and", ";", "'", '"', "`"]


@pytest.mark.long
@given(st.text() | st.lists(st.sampled_from(WORDS) | st.text(max_size=3)).map(" ".join))
def test_any_text_gets_an_answer(text: str) -> None:
    response = ask(user(text))
    assert joined(list(chunks_of(response))) == response.parts
    assert bool(response.calls) == (response.stop is StopReason.TOOL_CALLS)


# Answers


def test_a_call_is_announced() -> None:
    response = ask(user("List the files in docs, please."))
    assert response.parts == (
        Thinking("I am asked to list files, and `list_dir` does that."),
        Text("I will list the files in `docs`."),
    )
    assert response.calls == (ToolCall("", "list_dir", freeze_object({"path": "docs"}), "demo-1"),)
    assert response.stop is StopReason.TOOL_CALLS


def test_a_conversation_of_several_steps_makes_one_call_a_round() -> None:
    said = talk(
        "list the files, then read notes.txt, then run ls",
        {"list_dir": "notes.txt\nb.txt", "read_file": "hello", "shell": ""},
    )
    assert [text_of(response.parts) for response in said] == [
        "I will list the files.",
        "`list_dir` answered: “notes.txt b.txt”. Next, I will read `notes.txt`.",
        "`read_file` answered: “hello”. Next, I will run `ls`.",
        "`shell` answered: nothing.",
    ]
    assert calls_of(said) == [("list_dir", {}), ("read_file", {"path": "notes.txt"}), ("shell", {"command": "ls"})]
    assert [call.provider_id for response in said for call in response.calls] == ["demo-1", "demo-2", "demo-3"]
    assert [response.stop for response in said] == [StopReason.TOOL_CALLS] * 3 + [StopReason.END]


def test_steps_that_cannot_be_done_are_named_and_passed() -> None:
    said = talk("run ls, then sing, then list files, then dance", {}, [LIST_DIR])
    assert calls_of(said) == [("list_dir", {})]
    assert [text_of(response.parts) for response in said] == [
        (
            "I understand that I should run commands, but I have no tool for that: all I was given is `list_dir`. "
            "I skip “sing”, which this demo does not understand. Next, I will list the files."
        ),
        "`list_dir` answered: “done”. I skip “dance”, which this demo does not understand.",
    ]


def test_the_same_request_gets_the_same_respond() -> None:
    request = ModelRequest("demo", History([user("list the files, then read notes.txt")]), tools=TOOLS)
    assert respond(request) == respond(request)
    assert respond(request) == respond(request.but(messages=tuple(request.messages), request_id="another"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no such file: a.txt", "`read_file` failed: “no such file: a.txt”."),
        ("not allowed: secrets stay secret", "`read_file` was not allowed: “not allowed: secrets stay secret”."),
        ("Denied by `Guard`.", "`read_file` was not allowed: “Denied by `Guard`.”."),
        ("", "`read_file` failed: nothing."),
    ],
)
def test_a_failure_is_told_with_its_reason(text: str, said: str) -> None:
    prompt = user("read a.txt")
    asked = as_message(ask(prompt))
    assert text_of(ask(prompt, asked, result(asked.calls[0], text, is_error=True)).parts) == said


def test_a_failure_does_not_keep_the_demo_from_the_next_step() -> None:
    prompt = user("read a.txt, then list files")
    asked = as_message(ask(prompt))
    response = ask(prompt, asked, result(asked.calls[0], "gone", is_error=True))
    assert text_of(response.parts) == "`read_file` failed: “gone”. Next, I will list the files."
    assert calls_of([response]) == [("list_dir", {})]


def test_a_long_result_is_shortened_and_other_parts_are_mentioned() -> None:
    prompt = user("read a.txt")
    asked = as_message(ask(prompt))
    parts = (Data(freeze_object({"a": 1})), Image("image/png", ""), Text("long " * 1_000))
    said = text_of(ask(prompt, asked, ToolMessage("c", "read_file", parts)).parts)
    assert said.startswith('`read_file` answered: “{"a":1} (an image) long long')
    assert said.endswith("long…”.")
    assert len(said) < 400


def test_steering_is_the_newest_instruction() -> None:
    prompt = user("list the files, then read notes.txt")
    asked = as_message(ask(prompt))
    skipped = result(asked.calls[0], "skipped", is_error=True)
    response = ask(prompt, asked, skipped, user("No, run ls instead\nrun pwd", Origin.STEERING))
    assert calls_of([response]) == [("shell", {"command": "pwd"})]
    assert response.calls[0].provider_id == "demo-2"


def test_parts_of_one_message_are_not_glued() -> None:
    message = UserMessage((Text("run ls"), Text("run pwd")), Origin.STEERING)
    assert calls_of([ask(message)]) == [("shell", {"command": "ls"})]


@pytest.mark.parametrize("origin", [Origin.INTERVENTION, Origin.NOTICE])
def test_what_the_session_says_is_no_instruction(origin: Origin) -> None:
    notice = user("Never run rm. List the files!", origin)
    prompt = user("read a.txt, then run ls")
    asked = as_message(ask(notice, prompt, notice))
    assert [call.name for call in asked.calls] == ["read_file"]
    again = as_message(ask(notice, prompt, notice, asked, result(asked.calls[0], "hi"), notice))
    assert [call.name for call in again.calls] == ["shell"]
    history: list[Message] = [prompt, asked, result(asked.calls[0], "hi"), again, result(again.calls[0], "x"), notice]
    end = ask(*history)
    assert (text_of(end.parts), end.calls) == ("`shell` answered: “x”.", ())
    more = ask(*history, as_message(end), notice)
    assert (text_of(more.parts), more.calls) == ("This demo has nothing left to do; ask for something else.", ())


def test_an_answer_that_was_cut_is_given_again() -> None:
    prompt = user("read a.txt")
    asked = as_message(ask(prompt))
    history = (prompt, asked, result(asked.calls[0], "hi"))
    cut = AssistantMessage((Text("`read_"),), interrupted=True)
    assert ask(*history, cut).parts == ask(*history).parts


def test_a_call_of_another_model_counts_as_a_step() -> None:
    call = ToolCall("c", "weather")
    history = (user("list files, then run ls"), AssistantMessage(calls=(call,)), result(call, "sunny"))
    assert calls_of([ask(*history)]) == [("shell", {"command": "ls"})]


def test_a_kind_without_a_tool_is_understood_and_refused() -> None:
    assert text_of(ask(user("run ls"), tools=[LIST_DIR, READ_FILE]).parts) == (
        "I understand that I should run commands, but I have no tool for that: "
        "all I was given is `list_dir` and `read_file`."
    )
    assert text_of(ask(user("run ls"), tools=[]).parts) == (
        "I understand that I should run commands, but I have no tool for that: I was given no tools."
    )


def test_where_it_may_not_call_it_says_what_it_would_do() -> None:
    response = ask(user("run ls, then list files"), may_call=False)
    assert response.parts == (
        Text(
            "I would run `ls` with `shell`, but I may not call tools now. "
            "I would list the files with `list_dir`, but I may not call tools now."
        ),
    )
    assert (response.calls, response.stop) == ((), StopReason.END)


def test_where_it_may_not_call_it_still_tells_the_results() -> None:
    prompt = user("read a.txt")
    asked = as_message(ask(prompt))
    response = ask(prompt, asked, result(asked.calls[0], "hi"), may_call=False)
    assert text_of(response.parts) == "`read_file` answered: “hi”."


@pytest.mark.parametrize("text", ["Hello!", "What is the meaning of life?", "", "Thanks!", "sing, then dance"])
def test_anything_else_gets_the_introduction(text: str) -> None:
    response = ask(user(text), tools=[LIST_DIR, SHELL, a_tool("weather")])
    assert response.parts == (
        Text(
            "I am the built-in demo model: there is no real language model behind me, only a table of phrases; "
            "with the tools I was given I can list files (`list_dir`) and run commands (`shell`), "
            "so try “list the files in docs”."
        ),
    )
    assert (response.calls, response.stop) == ((), StopReason.END)


def test_the_introduction_without_tools_says_what_it_could_do() -> None:
    assert introduction([a_tool("weather")]) == introduction([]) == (
        "I am the built-in demo model: there is no real language model behind me, only a table of phrases; "
        "I was given no tool that I know, but with the right ones I could list files, read files, write files, "
        "edit files, search files, run commands, remember facts and count."
    )  # fmt: skip


def test_an_empty_conversation_gets_the_introduction() -> None:
    assert text_of(ask().parts) == introduction(TOOLS)


def test_what_has_back_ticks_is_quoted_otherwise() -> None:
    assert text_of(ask(user("run 'echo `date`'")).parts) == "I will run “echo `date`”."


def test_usage_is_estimated_from_the_characters() -> None:
    response = ask(user("read a.txt"), tools=[])
    assert response.usage.input_tokens == 3
    assert response.usage.output_tokens == -(-len(text_of(response.parts)) // 4)
    assert (response.usage.estimated, response.usage.cost_usd) == (True, None)
    more = ModelRequest("demo", [user("read a.txt")], "You are.", (("more", "text"),), (LIST_DIR,))
    tools = len(LIST_DIR.name + LIST_DIR.description + canonical(LIST_DIR.parameters))
    assert respond(more).usage.input_tokens == -(-(10 + 8 + 8 + tools) // 4)


# Streaming


def joined(chunks: Sequence[Chunk]) -> tuple[Text | Thinking, ...]:
    thought = "".join(chunk.text for chunk in chunks if isinstance(chunk, ThinkingChunk))
    text = "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk))
    return (Thinking(thought), Text(text)) if thought else (Text(text),)


@pytest.mark.parametrize("text", ["hello", "list files", "write 'a  b' to a.txt, then read it back", "run ls"])
async def test_the_chunks_are_the_response(text: str, autojump_clock: trio.testing.MockClock) -> None:
    request = ModelRequest("demo", [user(text)], tools=TOOLS)
    chunks: list[Chunk] = []
    response = await DemoModel().stream(request, chunks.append)
    assert response == respond(request)
    assert joined(chunks) == response.parts
    assert trio.current_time() == pytest.approx(0.02 * len(chunks))
    assert autojump_clock.autojump_threshold == 0


async def test_text_comes_word_by_word(autojump_clock: trio.testing.MockClock) -> None:
    came: list[tuple[float, Chunk]] = []
    start = autojump_clock.current_time()
    request = ModelRequest("demo", [user("list docs")], tools=TOOLS)
    await DemoModel(delay=0.5).stream(
        request, lambda chunk: came.append((autojump_clock.current_time() - start, chunk))
    )
    assert came == [
        (0.5, ThinkingChunk("I am asked to list files, and `list_dir` does that.")),
        (1.0, TextChunk("I ")),
        (1.5, TextChunk("will ")),
        (2.0, TextChunk("list ")),
        (2.5, TextChunk("the ")),
        (3.0, TextChunk("files ")),
        (3.5, TextChunk("in ")),
        (4.0, TextChunk("`docs`.")),
    ]


async def test_without_a_delay_it_takes_no_time_and_lets_others_run(autojump_clock: trio.testing.MockClock) -> None:
    start = autojump_clock.current_time()
    with trio.testing.assert_checkpoints():
        await DemoModel(delay=0).stream(ModelRequest("demo", [user("hi")]), lambda _: None)
    assert autojump_clock.current_time() == start


async def test_it_can_be_cut_between_two_chunks(autojump_clock: trio.testing.MockClock) -> None:
    chunks: list[Chunk] = []
    with trio.move_on_after(0.05) as scope:
        await DemoModel().stream(ModelRequest("demo", [user("hi")]), chunks.append)
    assert scope.cancelled_caught
    assert chunks == [TextChunk("I "), TextChunk("am ")]
    assert autojump_clock.autojump_threshold == 0


def test_it_is_a_model_called_demo() -> None:
    model: Model = DemoModel()
    assert model.name == "demo"
    assert model == DemoModel(delay=0.02)


def test_chunks_keep_every_space() -> None:
    response = Response((Text("  one\n\n two  "), Text("")))
    assert list(chunks_of(response)) == [TextChunk("  one\n\n "), TextChunk("two  ")]


def test_a_long_run_of_spaces_takes_no_time() -> None:
    assert ask(user("read" + "\t" * 5_000 + "x")).calls == ()
    assert len(steps_of("x" + " " * 20_000 + "y")) == 1


@pytest.mark.parametrize(
    ("text", "args"),
    [
        ("steeping green", {"kind": "green"}),
        ('Please use `steeping` with "black tea".', {"kind": "black tea"}),
        ("convert 212", {"degrees": 212, "unit": "celsius"}),
        ("call convert -1.5", {"degrees": -1.5, "unit": "celsius"}),
        ("convert far", {"degrees": "far", "unit": "celsius"}),
    ],
)
def test_any_tool_is_called_by_its_name_and_first_argument(text: str, args: JsonObject) -> None:
    unit = {"type": "string", "enum": ["celsius", "kelvin"]}
    convert = {"type": "object", "properties": {"degrees": {"type": "number"}, "unit": unit}, "required": ["unit"]}
    tools = [a_tool("steeping", "kind", kind="string"), ToolSpec("convert", "Convert.", freeze_object(convert))]
    (call,) = ask(user(text), tools=tools).calls
    assert call.args == args


def test_the_introduction_names_a_tool_that_is_called_by_its_name() -> None:
    told = introduction([a_tool("steeping", "kind", kind="string")])
    assert told.endswith("with the tools I was given I can call `steeping`, so try “steeping demo”.")
    assert "no tool that I know" in introduction([a_tool("paint", "colours", colours="array")])
