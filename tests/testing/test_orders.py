"""An order matters if two outcomes differ, and is found wherever `find_conflict` finds it."""

from __future__ import annotations

import pytest
from attrs import frozen

from agentrail import (
    Abort,
    AddContext,
    Ask,
    BlockTool,
    Context,
    Continue,
    Plugin,
    ReplacePrompt,
    ReplaceToolArgs,
    ReplaceToolResult,
)
from agentrail.plugins import (
    AfterTool,
    AnyPlugin,
    Attachable,
    BeforePrompt,
    BeforeRequest,
    BeforeTool,
    BudgetGuard,
    HumanApproval,
    Keyed,
    ReadFile,
    SecurityGuard,
)
from agentrail.testing import ScriptStep, Trace, call, find_conflict, order_report, prompt, say, simulate
from agentrail.testing.turns.orders import difference
from agentrail.tools import ok
from agentrail.values.tools import result_text
from tests.profiles import CAMPAIGN


def path_of(hook: BeforeTool) -> str:
    path = hook.args.get("path")
    return path if isinstance(path, str) else ""


@frozen
class Vault(Plugin[None]):
    """Blocks the folder of secrets."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None] | BlockTool[None]:
        return BlockTool("that is a secret") if path_of(hook).startswith("/vault/") else Continue()


@frozen
class ShortNames(Plugin[None]):
    """Takes the name of the mount off paths."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None] | ReplaceToolArgs[None]:
        path = path_of(hook)
        if not path.startswith("/mnt"):
            return Continue()
        return ReplaceToolArgs({**hook.args, "path": path.removeprefix("/mnt")})


@frozen
class KeyReads(Plugin[int]):
    """Counts how often the key is read; alone of the three it names a whole path."""

    def init(self, ctx: Context) -> int:
        return 0

    def before_tool(self, hook: BeforeTool, state: int, ctx: Context) -> Continue[int]:
        return Continue(state + (hook.args.get("path") == "/mnt/vault/key"))


def no_secret_is_read(trace: Trace) -> None:
    guarded = any(isinstance(plugin, Vault) for plugin in trace.plugins)
    paths = (start.args.get("path") for start in trace.started)
    assert not guarded or not any(isinstance(path, str) and path.startswith("/vault/") for path in paths)


SHIPPED = (SecurityGuard(), BudgetGuard(max_calls=5), HumanApproval(tools=("write",)))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12 if CAMPAIGN else 1))
def test_an_order_is_found_in_few_examples_although_no_plugin_names_the_value_that_shows_it(seed: int) -> None:
    """One text stands in the code of each; the path that shows the order is made of both."""
    report = order_report((Vault(), ShortNames(), *SHIPPED[:1]), examples=40, seed=seed)
    assert (Vault(), ShortNames()) in [(matters.first, matters.second) for matters in report]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12 if CAMPAIGN else 1))
@pytest.mark.parametrize(
    "others",
    [
        pytest.param((), id="alone"),
        pytest.param((KeyReads(),), id="beside a third"),
        pytest.param(SHIPPED, id="of five", marks=pytest.mark.campaign),
        pytest.param((KeyReads(), *SHIPPED), id="of six", marks=pytest.mark.campaign),
    ],
)
def test_an_order_that_breaks_an_invariant_is_in_the_report(others: tuple[AnyPlugin, ...], seed: int) -> None:
    pair = (Vault(), ShortNames())
    conflict = find_conflict((*pair, *others), no_secret_is_read, seed=seed)
    assert conflict is not None
    assert conflict.plugins == pair
    report = order_report((*pair, *others), examples=200, seed=seed)
    (matters,) = (matters for matters in report if (matters.first, matters.second) == pair)
    assert matters.hook == "before_tool"


@frozen
class Trim(Plugin[None]):
    """Takes a polite word off prompts."""

    def before_prompt(self, hook: BeforePrompt, state: None, ctx: Context) -> Continue[None] | ReplacePrompt[None]:
        short = hook.text.removeprefix("please:")
        return Continue() if short in ("", hook.text) else ReplacePrompt(short)


@frozen
class NoWipe(Plugin[None]):
    """Aborts turns that are to wipe something."""

    def before_prompt(self, hook: BeforePrompt, state: None, ctx: Context) -> Continue[None] | Abort[None]:
        return Abort("that stays") if hook.text.startswith("wipe") else Continue()


@frozen
class Unwrap(Plugin[None]):
    """Takes a heading off results."""

    def after_tool(self, hook: AfterTool, state: None, ctx: Context) -> Continue[None] | ReplaceToolResult[None]:
        short = result_text(hook.result).removeprefix("output:")
        return Continue() if short in ("", result_text(hook.result)) else ReplaceToolResult(ok(short))


@frozen
class Alarms(Plugin[int]):
    """Counts results that are alarms."""

    def init(self, ctx: Context) -> int:
        return 0

    def after_tool(self, hook: AfterTool, state: int, ctx: Context) -> Continue[int]:
        return Continue(state + result_text(hook.result).startswith("alarm"))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12 if CAMPAIGN else 1))
@pytest.mark.parametrize(
    ("first", "second", "hook"),
    [(Trim(), NoWipe(), "before_prompt"), (Unwrap(), Alarms(), "after_tool")],
    ids=["prompts", "results"],
)
def test_an_order_at_other_hooks_is_found_too(first: AnyPlugin, second: AnyPlugin, hook: str, seed: int) -> None:
    (actual,) = order_report((first, second), examples=400, seed=seed)
    assert actual.hook == hook


@frozen
class Notes(Plugin[None]):
    """Adds a line to each request."""

    def before_request(self, hook: BeforeRequest, state: None, ctx: Context) -> AddContext[None]:
        return AddContext("it rains")


@frozen
class Looks(Plugin[None]):
    """Reads a file before each request, and does nothing with it."""

    def before_request(self, hook: BeforeRequest, state: None, ctx: Context) -> Continue[None] | Ask[None]:
        return Ask(ReadFile("weather")) if hook.answer is None else Continue()


@frozen
class Redo(Plugin[None]):
    """Puts a text in place of each prompt."""

    text: str

    def before_prompt(self, hook: BeforePrompt, state: None, ctx: Context) -> ReplacePrompt[None]:
        return ReplacePrompt(self.text)


@frozen
class Counts(Plugin[int]):
    """Counts the calls up to a number."""

    most: int

    def init(self, ctx: Context) -> int:
        return 0

    def before_tool(self, hook: BeforeTool, state: int, ctx: Context) -> Continue[int]:
        return Continue(min(self.most, state + (path_of(hook) != "")))


def orders_differ(first: Attachable, second: Attachable, script: list[ScriptStep]) -> str | None:
    traces = (simulate(pair, script, as_given=True) for pair in ((first, second), (second, first)))
    return difference(*traces)


READ = say(calls=[call("read", {"path": "/mnt/vault/a"})])


@pytest.mark.parametrize(
    ("first", "second", "hook"),
    [
        (Notes(), Looks(), None),
        (Looks(), Notes(), None),
        (Vault(), ShortNames(), "before_tool"),
        (Vault(), Counts(0), None),
        (Counts(0), ShortNames(), None),
        (ShortNames(), Counts(1), None),
    ],
)
def test_an_order_is_shown_by_two_outcomes_that_differ(first: AnyPlugin, second: AnyPlugin, hook: str | None) -> None:
    """A question that comes before or after another plugin's text changes nothing that anybody sees."""
    assert orders_differ(first, second, [prompt("go"), READ]) == hook


def test_a_prompt_that_each_replaces_is_seen() -> None:
    first, second = Keyed("first", Redo("one")), Keyed("second", Redo("two"))
    assert orders_differ(first, second, [prompt("go")]) == "before_prompt"
