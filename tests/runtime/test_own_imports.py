"""Time in which agentrail imports modules of its own is not logged as the fault of a tool or hook."""

from __future__ import annotations

import importlib.util
import logging
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest
import trio
from attrs import frozen

from agentrail import Context, Continue, Plugin, open_supervisor
from agentrail.events import AgentEnd, PluginSlow
from agentrail.models import JsonObject
from agentrail.plugins import BeforePrompt
from agentrail.runtime.diagnosis import own_imports
from agentrail.runtime.diagnosis.own_imports import OwnImports, imports_ours
from agentrail.runtime.diagnosis.stacks import PACKAGE, TRIO, line_of_user
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import ToolContext, ToolResult, ok
from tests.each_case import each_case
from tests.kit import Element
from tests.runtime.tools import fake
from tests.runtime.world import spec_of

pytestmark = pytest.mark.usefixtures("of_watchdog")

IMPORTER: Final = '  File "<frozen importlib._bootstrap>", line 1176 in _find_and_load'
MINE: Final = '  File "/home/me/agent.py", line 7 in look_up'
MY_MODULE: Final = '  File "/home/me/tables.py", line 1 in <module>'
OURS: Final = f'  File "{PACKAGE}tools/function.py", line 107 in execute'
OUR_MODULE: Final = f'  File "{PACKAGE}insight/lanes.py", line 3 in <module>'
LIBRARY: Final = '  File "/venv/lib/python3.11/site-packages/httpx/__init__.py", line 3 in <module>'
LOOP: Final = f'  File "{TRIO}_core/_run.py", line 2866 in unrolled_run'
PROGRAM: Final = '  File "/home/me/agent.py", line 40 in <module>'


@each_case(
    [
        ((OUR_MODULE, IMPORTER, MINE, OURS), True),
        ((OUR_MODULE, IMPORTER, OURS), True),
        ((LIBRARY, IMPORTER, LIBRARY, IMPORTER, OURS), True),
        ((IMPORTER, OURS), True),
        ((MY_MODULE, IMPORTER, MINE, OURS), False),
        ((LIBRARY, IMPORTER, MINE, OURS), False),
        ((MINE, OURS), False),
        ((OURS,), False),
        ((), False),
    ]
)
def test_whose_import_it_is(frames: tuple[str, ...], ours: bool) -> None:
    assert imports_ours((*frames, LOOP, OUR_MODULE, IMPORTER, PROGRAM)) is ours


@each_case(
    [
        ((MINE, OURS), "/home/me/agent.py:7 in look_up"),
        ((LIBRARY, MINE, OURS), "/home/me/agent.py:7 in look_up"),
        ((IMPORTER, LIBRARY, OURS), "/venv/lib/python3.11/site-packages/httpx/__init__.py:3 in <module>"),
        ((OURS, OURS), f"{PACKAGE}tools/function.py:107 in execute"),
        ((), "an unknown place"),
    ]
)
def test_the_line_is_that_of_the_program(frames: tuple[str, ...], line: str) -> None:
    assert line_of_user((*frames, LOOP, PROGRAM)) == line


def test_the_time_since_the_last_look_counts_if_a_module_has_come_meanwhile() -> None:
    imports, step = OwnImports(), ("s", "PromptSent", 10.0, 0.0, len(sys.modules))
    assert imports.seconds(step, 10.25) == 0.0
    sys.modules["agentrail.new"] = ModuleType("new")
    try:
        assert imports.seconds(step, 10.5) == 0.25
        assert imports.seconds(step, 10.75) == 0.25
        sys.modules["another.new"] = ModuleType("new")
        assert imports.seconds(step, 11.0) == 0.25
        assert imports.seconds(step, 12.0, (OUR_MODULE, IMPORTER, MINE)) == 1.25
        assert imports.seconds(("s", "PromptSent", 12.0, 0.0, len(sys.modules)), 13.0) == 0.0
    finally:
        for name in ("agentrail.new", "another.new"):
            sys.modules.pop(name, None)


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """A function that imports a module whose code takes 0.4 s; one of agentrail, or another one."""
    monkeypatch.setattr(own_imports, "PACKAGE", str(tmp_path / "agentrail"))

    def import_now(package: str) -> None:
        name, path = f"{package}.slow", tmp_path / package / "slow.py"
        path.parent.mkdir()
        path.write_text("import threading\nthreading.Event().wait(0.4)\n", encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)

    yield import_now
    for name in ("agentrail.slow", "mine.slow"):
        sys.modules.pop(name, None)


@frozen
class Loads(Plugin):
    """Imports a module at its hook."""

    load: Callable[[], None]

    def before_prompt(self, hook: BeforePrompt, state: None, ctx: Context) -> Continue[None]:
        self.load()
        return Continue()


@pytest.mark.long
@pytest.mark.usefixtures("slow_hooks_are_told")
@pytest.mark.parametrize("package", ["agentrail", "mine"])
@pytest.mark.parametrize("position", ["tool", "hook"])
def test_an_import_is_blamed_on_a_tool_or_hook_only_if_it_is_theirs(
    package: str, position: str, load: Callable[[str], None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "agentrail.watchdog")
    slow_plugins: list[PluginSlow] = []

    async def main() -> None:
        async def body(_args: JsonObject, _ctx: ToolContext) -> ToolResult:  # noqa: ASYNC124
            load(package)
            return ok("done")

        script: list[Element] = [say(calls=[call("load")]), "done"] if position == "tool" else ["done"]
        plugins = [Loads(partial(load, package))] if position == "hook" else []
        async with open_supervisor() as supervisor:
            spec = spec_of(ScriptedModel(script), tools=[fake("load", body)], plugins=plugins)
            session = await supervisor.spawn(spec, "mine")
            await session.ask("go")
            async with session.subscribe(since=0, types=[PluginSlow, AgentEnd]) as events:
                async for envelope in events:
                    if isinstance(envelope.event, PluginSlow):
                        slow_plugins.append(envelope.event)
                    if isinstance(envelope.event, AgentEnd) and (
                        slow_plugins or not (package == "mine" and position == "hook")
                    ):
                        break

    trio.run(main)
    name = "the task `tool load (mine/c3)`" if position == "tool" else "session mine: `PromptSent`"
    texts = [record.getMessage() for record in caplog.records if record.name == "agentrail.watchdog"]
    blamed = [text for text in texts if text.startswith(name)]
    records = [
        record for record in caplog.records if record.getMessage().startswith("agentrail has held up the loop for ")
    ]
    assert bool(blamed) == (package == "mine")
    assert [record.levelno for record in records] == ([] if package == "mine" else [logging.INFO])
    assert bool(slow_plugins) == (package == "mine" and position == "hook")
