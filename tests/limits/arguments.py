"""Scenes of the arguments of the built-in tools, and of what the shell tool shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from agentrail.sandboxes import Execution, MemorySandbox, Output
from agentrail.tools import ToolSpec, validator_for
from agentrail.tools.builtin import subagent_tools
from agentrail.tools.builtin.shell import HEAD, TAIL, _output_for_model
from tests.kit import freeze_object
from tests.limits import scene
from tests.tools.builtin.rig import TOOLS

SPECS: Final[Mapping[str, ToolSpec]] = {name: tool.spec for name, tool in TOOLS.items()} | {
    tool.spec.name: tool.spec
    for tool in (
        subagent_tools.task_result,
        subagent_tools.task_cancel,
        subagent_tools.task_wait,
        subagent_tools.task_send,
        subagent_tools.message_send,
    )
}

Made = Callable[[int], Mapping[str, object]]

ARGUMENTS: Final[Mapping[str, tuple[int, Made]]] = {
    "delegating.task_result.task.max(200)": (200, lambda size: {"task": "x" * size}),
    "delegating.task_cancel.task.max(200)": (200, lambda size: {"task": "x" * size}),
    "delegating.task_wait.tasks.max(200)": (200, lambda size: {"tasks": ["x" * size]}),
    "delegating.task_send.task.max(200)": (200, lambda size: {"task": "x" * size, "message": "x"}),
    "messaging.message_send.to.max(200)": (200, lambda size: {"to": "x" * size, "message": "x"}),
    "read_file.read_file.offset.le(9007199254740992)": (2**53, lambda size: {"path": "a", "offset": size}),
    "read_file.read_file.limit.le(2000)": (2000, lambda size: {"path": "a", "limit": size}),
    "search.grep.pattern.max(1000)": (1000, lambda size: {"pattern": "x" * size}),
    "search.grep.glob.max(1000)": (1000, lambda size: {"pattern": "x", "glob": "x" * size}),
    "search.grep.context.le(20)": (20, lambda size: {"pattern": "x", "context": size}),
    "search.grep.limit.le(1000)": (1000, lambda size: {"pattern": "x", "limit": size}),
    "search.glob.pattern.max(1000)": (1000, lambda size: {"pattern": "x" * size}),
    "search.glob.limit.le(2000)": (2000, lambda size: {"pattern": "x", "limit": size}),
    "search.list_dir.limit.le(2000)": (2000, lambda size: {"limit": size}),
    "shell.shell.timeout.le(600)": (600, lambda size: {"command": "a", "timeout": size}),
    "shell.shell_output.job.max(100)": (100, lambda size: {"job": "x" * size}),
    "shell.shell_output.since.le(9007199254740992)": (2**53, lambda size: {"since": size}),
    "shell.shell_kill.job.max(100)": (100, lambda size: {"job": "x" * size}),
    "talking.write_todos.todos.max(100)": (100, lambda size: {"todos": [{"text": "x", "status": "done"}] * size}),
    "talking.Item.text.max(500)": (500, lambda size: {"todos": [{"text": "x" * size, "status": "done"}]}),
    "remembering.compact_conversation.reason.max(500)": (500, lambda size: {"reason": "x" * size}),
    "remembering.read_history.first.max(30)": (30, lambda size: {"first": "1" * size}),
    "remembering.read_history.search.max(500)": (500, lambda size: {"search": "x" * size}),
    "talking.ask_user.question.max(4000)": (4000, lambda size: {"question": "x" * size}),
    "talking.ask_user.options.max(500)": (500, lambda size: {"question": "x", "options": ["x" * size]}),
    "talking.ask_user.options.max(20)": (20, lambda size: {"question": "x", "options": ["x"] * size}),
    "web_fetch.web_fetch.url.max(4000)": (4000, lambda size: {"url": "x" * size}),
    "web_search.web_search.query.max(400)": (400, lambda size: {"query": "x" * size}),
    "web_search.web_search.max_results.le(20)": (20, lambda size: {"query": "x", "max_results": size}),
    "web_fetch.web_fetch.offset.le(2147483648)": (2**31, lambda size: {"url": "x", "offset": size}),
}
"""The bounds of arguments: name in the list, value, and a function that makes otherwise right arguments of a size."""


def fits(tool: str, new_value: Made, size: int) -> bool:
    return validator_for(SPECS[tool])(freeze_object(new_value(size))) is None


for _name, (_figure, _made) in ARGUMENTS.items():
    _tool = "write_todos" if "Item" in _name else _name.split(".")[1]
    scene(f"tools.builtin.{_name}", _figure)(partial(fits, _tool, _made))


async def shown(output: str) -> str:
    execution = Execution(0, Output(output.encode(), total=len(output)))
    text, _ = await _output_for_model(MemorySandbox(), execution, "c")
    return text


@scene("tools.builtin.shell.HEAD[]", HEAD[1])
async def characters_at_the_beginning_of_an_output(size: int) -> bool:
    return "x" * size in await shown("x" * size + "y" * 100_000)


@scene("tools.builtin.shell.HEAD[]", HEAD[0])
async def lines_at_the_beginning_of_an_output(count: int) -> bool:
    return f"line {count}\n" in await shown("".join(f"line {number}\n" for number in range(1, 5001)))


@scene("tools.builtin.shell.TAIL[]", TAIL[1])
async def characters_at_the_end_of_an_output(size: int) -> bool:
    return "x" * size in await shown("y" * 100_000 + "x" * size)


@scene("tools.builtin.shell.TAIL[]", TAIL[0])
async def lines_at_the_end_of_an_output(count: int) -> bool:
    return f"line {5001 - count}\n" in await shown("".join(f"line {number}\n" for number in range(1, 5001)))
