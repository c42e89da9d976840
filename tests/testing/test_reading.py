"""What the kit reads from a plugin's code: tools, arguments, and the interesting values of each."""

from collections.abc import Mapping, Sequence
from functools import cache

from attrs import frozen

from agentrail import BlockTool, Context, Continue, Plugin
from agentrail.models import Json
from agentrail.plugins import AnyPlugin, BeforePrompt, BeforeTool, Recovery
from agentrail.testing.plugin_code import reads

CLOSED = frozenset({"north", "south"})
Verdict = Continue[None] | BlockTool[None]


@cache
def is_closed(position: str) -> bool:
    return position in CLOSED


@frozen
class Reader(Plugin[None]):
    """Reads calls in every supported way."""

    most: int = 7

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Verdict:
        name, args = hook.name, hook.args
        path = args.get("path", "a file")
        if name in ("rm", "mv") and "secret" in str(path) and "force" in args:
            return BlockTool("no")
        size = args["size"]
        if is_closed(str(args.get("where"))) or (isinstance(size, int) and size > self.most):
            return BlockTool("no")
        match hook.args:
            case {"to": {"city": str(_)}} if self.is_long(args):
                return BlockTool("no")
            case _:
                return Continue()

    def is_long(self, args: Mapping[str, Json]) -> bool:
        files = args.get("files")
        return isinstance(files, Sequence) and len(files) > 40


class Listener(Plugin[None]):
    """Has no hook that reads calls."""

    def before_prompt(self, hook: BeforePrompt, state: None, ctx: Context) -> Continue[None]:
        return Continue(state)


class Anything(Plugin[None]):
    """Reads the arguments as a whole, none by its name."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Verdict:
        return BlockTool("no") if "secret" in str(hook.args) else Continue()


def values(plugin: AnyPlugin) -> dict[str, tuple[Json, ...]]:
    read = reads(plugin)
    assert read is not None
    return {key.name: key.values for key in read.keys}


def test_tools_and_arguments_are_told_apart() -> None:
    read = reads(Reader())
    assert read is not None
    assert {"rm", "mv"} <= set(read.tools)
    assert [key.name for key in read.keys] == ["path", "force", "size", "where", "to", "files"]


def test_a_key_of_an_object_is_no_argument_and_stands_in_its_values() -> None:
    assert any(isinstance(value, Mapping) and "city" in value for value in values(Reader())["to"])


def test_values_belong_to_the_argument_that_they_are_compared_with() -> None:
    actual = values(Reader())
    assert {"north", "south"} <= set(actual["where"])
    assert "north" not in actual["path"]
    assert {"a file"} <= set(actual["path"])


def test_options_are_values_with_their_neighbours() -> None:
    assert {20, 21, 19} <= set(values(Reader(most=20))["size"])


def test_a_list_whose_length_matters_comes_with_one_item_more() -> None:
    assert 41 in {len(value) for value in values(Reader())["files"] if isinstance(value, tuple)}


def test_what_reads_no_argument_by_name_says_nothing() -> None:
    assert reads(Listener()) is None
    assert reads(Anything()) is None


def test_what_is_added_to_a_dictionary_of_the_plugin_itself_is_no_argument() -> None:
    assert reads(Recovery(["a"])) is None
