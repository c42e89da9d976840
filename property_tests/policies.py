"""Small policies for properties of back-tests, and changes of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import frozen

from agentrail import (
    Abort,
    AddContext,
    BlockTool,
    Continue,
    Intervene,
    Plugin,
    ReplacePrompt,
    ReplaceToolArgs,
    ReplaceToolResult,
    SetSection,
    SwitchModel,
)
from agentrail.events import Envelope, ToolExecutionStart
from agentrail.plugins import (
    AfterTool,
    AnyPlugin,
    BeforeFinish,
    BeforePrompt,
    BeforeRequest,
    BeforeTool,
    BudgetGuard,
    CallModel,
    CallService,
    Context,
    HumanApproval,
)
from agentrail.testing import Holder, Recorder
from agentrail.testing.probe_plugins import Asker, CriticalRaiser, Raiser
from agentrail.tools import ok


@frozen
class Closed(Plugin[None]):
    """Blocks calls about one path."""

    path: str = "secret"
    tool: str = ""
    why: str = "closed"

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None] | BlockTool[None]:
        is_meant = hook.args.get("path") == self.path and self.tool in ("", hook.name)
        return BlockTool(self.why) if is_meant else Continue()


@frozen
class Counting(Plugin[int]):
    """Blocks after so many calls that it has heard of."""

    most: int = 9

    def init(self, ctx: Context) -> int:
        return 0

    def on_event(self, event: Envelope, state: int, ctx: Context) -> int:
        return state + isinstance(event.event, ToolExecutionStart)

    def before_tool(self, hook: BeforeTool, state: int, ctx: Context) -> Continue[int] | BlockTool[int]:
        return BlockTool("too many", state) if state >= self.most else Continue()


@frozen
class Speaking(Plugin[None]):
    """Says something at one hook or another."""

    section: str = "be calm"
    prompt: str = ""
    context: str = ""
    rounds: int = 99
    finish: str = ""
    model: str = ""
    result: str = ""

    def before_prompt(
        self, hook: BeforePrompt, state: None, ctx: Context
    ) -> Continue[None] | ReplacePrompt[None] | SetSection[None]:
        if self.prompt:
            return ReplacePrompt(self.prompt)
        return SetSection("mood", self.section) if ctx.turn < 1 else Continue()

    def before_request(
        self, hook: BeforeRequest, state: None, ctx: Context
    ) -> Continue[None] | AddContext[None] | SwitchModel[None] | Abort[None]:
        if ctx.round > self.rounds:
            return Abort("enough rounds")
        if self.model and ctx.round == 2:
            return SwitchModel(self.model)
        return AddContext(self.context) if self.context and ctx.round == 2 else Continue()

    def before_finish(self, hook: BeforeFinish, state: None, ctx: Context) -> Continue[None] | Intervene[None]:
        return Intervene(self.finish) if self.finish and not hook.texts else Continue()

    def after_tool(self, hook: AfterTool, state: None, ctx: Context) -> Continue[None] | ReplaceToolResult[None]:
        return ReplaceToolResult(ok(self.result)) if self.result and hook.name == "read" else Continue()


@frozen
class Replacing(Plugin[None]):
    """Asked early; puts another path in the place of `b`."""

    priority = 5
    to: str = "a"

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None] | ReplaceToolArgs[None]:
        return ReplaceToolArgs({**hook.args, "path": self.to}) if hook.args.get("path") == "b" else Continue()


@frozen
class ReplacingLate(Replacing):
    """The same, asked late."""

    priority = 900


BASE: Final[Mapping[str, AnyPlugin]] = {
    "recorder": Recorder(),
    "closed": Closed(),
    "approval": HumanApproval(tools=("write",)),
    "budget": BudgetGuard(max_rounds=40, max_turn_calls=8, warn_at=1.1),
    "counting": Counting(),
    "speaking": Speaking(),
    "replacing": Replacing(),
    "asker": Asker("after_tool", CallService("lookup"), 10.0, again=False),
    "holder": Holder(frozenset({"solo"}), 120.0, "family"),
}
"""The plugins that the recorded sessions had, by key."""

CHANGES: Final[Mapping[str, Mapping[str, AnyPlugin | None]]] = {
    "another path is closed": {"closed": Closed("a")},
    "no path is closed": {"closed": Closed("nothing")},
    "closed for one tool alone": {"closed": Closed(tool="fix")},
    "another reason": {"closed": Closed(why="not today")},
    "one more tool wants approval": {"approval": HumanApproval(tools=("write", "fix"))},
    "a tool wants approval no more": {"approval": HumanApproval(tools=("dig",))},
    "fewer calls in a turn": {"budget": BudgetGuard(max_rounds=40, max_turn_calls=2, warn_at=1.1)},
    "fewer rounds": {"budget": BudgetGuard(max_rounds=5, max_turn_calls=8, warn_at=1.1)},
    "a lower count of what was heard": {"counting": Counting(3)},
    "another section": {"speaking": Speaking("be quick")},
    "another prompt": {"speaking": Speaking(prompt="do this instead")},
    "context is added": {"speaking": Speaking(context="mind the gap")},
    "an abort after three rounds": {"speaking": Speaking(rounds=3)},
    "an intervention": {"speaking": Speaking(finish="think again")},
    "another model": {"speaking": Speaking(model="model2")},
    "another result": {"speaking": Speaking(result="hidden")},
    "other arguments": {"replacing": Replacing("other")},
    "the one that replaces is asked last": {"replacing": ReplacingLate()},
    "a plugin is left out": {"asker": None},
    "another question": {"asker": Asker("after_tool", CallModel("is this right?"), 10.0, again=False)},
    "another deadline of a hold": {"holder": Holder(frozenset({"solo"}), 5.0, "family")},
    "a critical plugin that breaks joins": {"broken": CriticalRaiser("after_response")},
    "a plugin that breaks joins": {"broken": Raiser("after_response")},
    "nothing": {},
}
"""Changes of these plugins: others by key, or `None` for one that is left out."""


def drawn_changes() -> dict[str, Mapping[str, AnyPlugin | None]]:
    """Return some two hundred further changes, for the campaign."""
    paths, tools = ("a", "b", "c", "d", "secret"), ("", "read", "write", "fix", "keep", "solo")
    words = tuple(f"word {number}" for number in range(8))
    changes: dict[str, Mapping[str, AnyPlugin | None]] = {
        f"{path} is closed for {tool or 'all'}": {"closed": Closed(path, tool)} for path in paths for tool in tools
    }
    changes |= {f"closed, because of {word}": {"closed": Closed("a", why=word)} for word in words}
    named = [tools[1:][first:last] for first in range(5) for last in range(first + 1, 6)]
    changes |= {f"approval of {' and '.join(names)}": {"approval": HumanApproval(tools=names)} for names in named}
    for number in range(1, 13):
        turn = BudgetGuard(max_rounds=40, max_turn_calls=number, warn_at=1.1)
        changes[f"{number} calls in a turn"] = {"budget": turn}
        changes[f"{number} rounds"] = {"budget": BudgetGuard(max_rounds=number, max_turn_calls=8, warn_at=1.1)}
        changes[f"{number} calls in all"] = {"counting": Counting(number)}
        changes[f"an abort after {number} rounds"] = {"speaking": Speaking(rounds=number)}
        changes[f"a hold of {number} seconds"] = {"holder": Holder(frozenset({"solo"}), float(number), "family")}
    for word in words:
        for name, plugin in {
            "section": Speaking(word),
            "prompt": Speaking(prompt=word),
            "context": Speaking(context=word),
            "intervention": Speaking(finish=word),
            "model": Speaking(model=word),
            "result": Speaking(result=word),
            "arguments": Replacing(word),
            "arguments, late": ReplacingLate(word),
        }.items():
            changes[f"another {name}: {word}"] = {"speaking" if isinstance(plugin, Speaking) else "replacing": plugin}
    for hook in ("after_tool", "before_tool", "before_request", "before_finish", "before_prompt"):
        changes[f"a question at {hook}"] = {"asker": Asker(hook, CallModel("is this right?"), 10.0, again=False)}
        changes[f"a plugin breaks at {hook}"] = {"broken": Raiser(hook)}
        changes[f"a critical plugin breaks at {hook}"] = {"broken": CriticalRaiser(hook)}
    return changes


def changed(change: Mapping[str, AnyPlugin | None]) -> dict[str, AnyPlugin]:
    """Return the plugins after a change."""
    return {key: plugin for key, plugin in {**BASE, **change}.items() if plugin is not None}
