"""What the built-in tools declare about themselves."""

from collections.abc import Mapping

from agentrail.tools import AskPerson, Effect, EffectClass, SetTodos, Todo, ToolContext, as_tool, err, standard_tools
from tests.kit import freeze_object
from tests.tools.builtin.rig import TOOLS, call

PURE, IDEMPOTENT, UNSAFE = EffectClass.PURE, EffectClass.IDEMPOTENT, EffectClass.UNSAFE

DECLARED = {
    "read_file": (30, PURE, ("path", "offset"), {"files"}, True, 30_000),
    "write_file": (30, IDEMPOTENT, "path", {"files"}, False, 30_000),
    "edit_file": (30, UNSAFE, "path", {"files"}, False, 30_000),
    "shell": (620, UNSAFE, "command", {"files", "shell"}, False, 60_000),
    "shell_output": (10, PURE, None, {"shell"}, True, 30_000),
    "shell_kill": (15, IDEMPOTENT, None, {"shell"}, True, 30_000),
    "grep": (60, PURE, "pattern", {"files"}, True, 30_000),
    "glob": (60, PURE, "pattern", {"files"}, True, 30_000),
    "list_dir": (30, PURE, "path", {"files"}, True, 30_000),
    "write_todos": (10, IDEMPOTENT, None, set(), True, 30_000),
    "ask_user": (10, IDEMPOTENT, None, set(), True, 30_000),
    "compact_conversation": (10, IDEMPOTENT, None, set(), True, 30_000),
    "read_history": (60, PURE, None, set(), True, 30_000),
    "web_fetch": (45, PURE, ("url", "offset"), {"network"}, True, 30_000),
    "web_search": (45, PURE, "query", {"network"}, True, 30_000),
}


def test_each_declares_what_it_is() -> None:
    found = {
        spec.name: (spec.timeout, spec.effect, spec.subject, set(spec.requires), spec.parallel, spec.max_result_chars)
        for spec in (tool.spec for tool in standard_tools())
    }
    assert found == DECLARED
    assert not any(tool.spec.immune for tool in standard_tools())


def test_each_is_a_tool_whose_arguments_are_described() -> None:
    for tool in standard_tools():
        assert as_tool(tool) is tool
        properties = tool.spec.parameters["properties"]
        assert isinstance(properties, Mapping)
        assert all(isinstance(schema, Mapping) and schema["description"] for schema in properties.values()), (
            tool.spec.name
        )


async def test_without_its_surroundings_a_tool_says_what_is_missing() -> None:
    assert await call("read_file", path="a") == "✗ there is no sandbox here, so there are no files and commands"
    assert await call("shell_output") == "✗ nothing can run in the background here"
    assert await call("web_fetch", url="http://example.com") == "✗ there is no way to the web here"


async def test_todos_and_questions_are_for_the_session_to_do() -> None:
    todos = freeze_object({"todos": [{"text": "a", "status": "done"}, {"text": "b", "status": "pending"}]})
    wanted = Effect(SetTodos((Todo("a", "done"), Todo("b", "pending"))))
    assert await TOOLS["write_todos"].execute(todos, ToolContext()) == wanted
    asked = freeze_object({"question": "which?", "options": ["a", "b"]})
    assert await TOOLS["ask_user"].execute(asked, ToolContext()) == Effect(AskPerson("which?", ("a", "b")))
    asked = freeze_object({"question": "why?"})
    assert await TOOLS["ask_user"].execute(asked, ToolContext()) == Effect(AskPerson("why?"))
    wrong = await TOOLS["write_todos"].execute(freeze_object({"todos": [{"text": "a", "status": "?"}]}), ToolContext())
    assert type(wrong) is type(err(""))
