from pathlib import Path

import trio.testing

from agentrail.app.spec import SessionSpec
from agentrail.cli.console_tools import ASK_FIRST, remembering, terminal_tools
from agentrail.cli.default_agent import spec_for
from agentrail.plugins.approval import HumanApproval
from agentrail.ports.tool import Tool, ToolContext
from agentrail.tools import EffectClass, Ok, ok
from agentrail.values.content import text_of
from agentrail.values.json import freeze_object

TOOLS = {tool.spec.name: tool for tool in terminal_tools()}


async def call(tool: Tool, **args: object) -> str:
    result = await tool.execute(freeze_object(args), ToolContext())
    assert isinstance(result, Ok)
    return text_of(result.content)


async def test_facts_are_remembered_by_each_tool_of_its_own() -> None:
    mine, other = remembering(), remembering()
    assert await call(mine, fact="tea") == "remembered (1 in all): tea"
    assert await call(mine, fact="milk") == "remembered (2 in all): tea; milk"
    assert await call(mine, fact="milk") == "remembered (2 in all): tea; milk"
    assert await call(other, fact="sugar") == "remembered (1 in all): sugar"


async def test_counting_takes_a_second_for_each_number(autojump_clock: trio.testing.MockClock) -> None:
    told: list[tuple[float, str]] = []
    start = autojump_clock.current_time()
    ctx = ToolContext(report=lambda said: told.append((autojump_clock.current_time() - start, said)))
    assert await TOOLS["count"].execute(freeze_object({"to": 3}), ctx) == ok("counted to 3")
    assert told == [(0, "1 of 3"), (1, "2 of 3"), (2, "3 of 3")]


def test_whatever_may_change_something_or_reaches_further_asks_first(tmp_path: Path) -> None:
    spec: SessionSpec = spec_for("demo", tmp_path)
    (plugin,) = spec.plugins
    assert plugin == HumanApproval(tools=ASK_FIRST, safe_commands=(), timeout=None)
    changing = {tool.spec.name for tool in terminal_tools() if tool.spec.effect is not EffectClass.PURE}
    assert changing - set(ASK_FIRST) == {"shell_kill", "write_todos", "ask_user", "remember", "compact_conversation"}
    assert {name for name, tool in TOOLS.items() if "network" in tool.spec.requires} <= set(ASK_FIRST)
