"""The files that `agentrail new` writes, by kind: code, a test that passes, and what a project needs beside them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from agentrail.distribution import requirement
from agentrail.values.value import Value


class NewKind(Value):
    """A kind of project that `agentrail new` can write."""

    module: str
    """The name of the module with the code."""
    code: str
    """The text of that module."""
    test: str
    """The text of the module with its test."""
    about: str
    """What the module has, in a sentence for the README."""
    try_it: str
    """The arguments of `agentrail` that try the code."""

    def files(self, name: str, origin: str | None) -> Mapping[str, str]:
        """Return the files of a project called *name*: each name with its text.

        *origin* is where this installation came from, as `install_origin` has it; the project installs it from there.
        """
        project = _PROJECT.format(
            name=_project_name(name),
            module=self.module,
            needs=requirement(origin),
            test_needs=requirement(origin, "testing"),
        )
        readme = _README.format(name=name, module=self.module, about=self.about, try_it=self.try_it)
        return {
            f"{self.module}.py": self.code,
            f"test_{self.module}.py": self.test,
            "pyproject.toml": project,
            "README.md": readme,
        }


def _project_name(name: str) -> str:
    """Return *name* reduced to letters, digits and hyphens, as Python project names are spelt."""
    letters = [letter if letter.isascii() and letter.isalnum() else "-" for letter in name.lower()]
    words = [word for word in "".join(letters).split("-") if word]
    return "-".join(words) or "project"


_PROJECT: Final = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "{name}"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["{needs}"]

[project.optional-dependencies]
test = ["{test_needs}", "mypy"]

[tool.setuptools]
py-modules = ["{module}"]

[tool.pytest.ini_options]
trio_mode = true

[tool.mypy]
strict = true
exclude = ["build/"]  # where `pip install .` copies the module
"""

_README: Final = """\
# {name}

`{module}.py` has {about}; `test_{module}.py` tests it, without a model and without a key.

```sh
python3 -m venv .venv && . .venv/bin/activate
pip install -e '.[test]'
pytest
mypy .
agentrail {try_it}
```
"""

_AGENT: Final = '''\
"""An agent that helps with tea."""

from agentrail import SessionSpec, tool
from agentrail.plugins import BudgetGuard
from agentrail.tools import EffectClass, ToolError

MINUTES = {"black": 4, "green": 2, "herbal": 6}


@tool(effect=EffectClass.PURE)
async def steeping(kind: str) -> int:
    """Tell how many minutes a kind of tea is steeped.

    Args:
        kind: The kind, such as `green`.
    """
    if kind not in MINUTES:
        raise ToolError(f"{kind!r} is not known; ask for one of {', '.join(MINUTES)}")
    return MINUTES[kind]


agent = SessionSpec(
    model="demo",  # it needs no key; `agentrail models` lists others
    system="You help people with their tea. Look times up, do not guess them.",
    tools=[steeping],
    plugins=[BudgetGuard(max_turn_calls=20)],
)
'''

_AGENT_TEST: Final = '''\
"""The agent with a model that answers from a script."""

from agentrail import Supervisor
from agentrail.testing import ScriptedModel, call, say

from agent import agent


async def test_it_looks_the_time_up(supervisor: Supervisor) -> None:
    model = ScriptedModel([say(calls=[call("steeping", {"kind": "green"})]), "Two minutes."])
    session = await supervisor.spawn(agent.but(model=model))
    reply = await session.ask("How long does green tea take?")
    assert reply.text == "Two minutes."
    assert session.messages()[2].text == "2"


async def test_it_is_told_which_kinds_there_are(supervisor: Supervisor) -> None:
    model = ScriptedModel([say(calls=[call("steeping", {"kind": "blue"})]), "I do not know."])
    session = await supervisor.spawn(agent.but(model=model))
    await session.ask("How long does blue tea take?")
    assert session.messages()[2].text == "'blue' is not known; ask for one of black, green, herbal"
'''

_PLUGIN: Final = '''\
"""A plugin that limits how often a turn may call one tool."""

from agentrail import BlockTool, Continue, Plugin
from agentrail.plugins import AfterTurn, BeforeTool, Context
from attrs import frozen


@frozen
class CallLimit(Plugin[int]):
    """Block calls of a tool after some of them in one turn."""

    tool: str = "search"
    most: int = 3

    def init(self, ctx: Context) -> int:
        """Begin with no calls."""
        return 0

    def before_tool(self, hook: BeforeTool, state: int, ctx: Context) -> Continue[int] | BlockTool[int]:
        """Count a call that may run, or block it."""
        if hook.name != self.tool:
            return Continue(state)
        if state >= self.most:
            return BlockTool(f"at most {self.most} calls of `{self.tool}` in a turn", state=state)
        return Continue(state + 1)

    def after_turn(self, hook: AfterTurn, state: int, ctx: Context) -> Continue[int]:
        """Begin to count anew."""
        return Continue(0)
'''

_PLUGIN_TEST: Final = '''\
"""The plugin against the laws of plugins, and in a whole session from a script."""

from agentrail.testing import call, check_plugin, prompt, say, simulate

from plugin import CallLimit


def test_it_keeps_the_laws() -> None:
    check_plugin(CallLimit())


def test_calls_beyond_the_limit_are_blocked_until_the_turn_ends() -> None:
    search, read = call("search", {"text": "tea"}), call("read", {})
    first, second = say(calls=[search, search, read]), say(calls=[search])
    trace = simulate([CallLimit(most=1)], [prompt("Look."), first, say("Done."), prompt("Again."), second])
    assert [start.name for start in trace.started] == ["search", "read", "search"]
    assert [blocked.reason for blocked in trace.blocked] == ["at most 1 calls of `search` in a turn"]
'''

_TOOL: Final = '''\
"""A tool that converts temperatures, and an agent that has it."""

from typing import Annotated, Literal

from agentrail import SessionSpec, tool
from agentrail.tools import EffectClass, Range


@tool(effect=EffectClass.PURE)
async def convert(degrees: Annotated[float, Range(ge=-1000, le=1000)], to: Literal["celsius", "fahrenheit"]) -> str:
    """Convert a temperature.

    Args:
        degrees: The temperature in the other unit.
        to: The unit that is wanted.
    """
    result = (degrees - 32) / 1.8 if to == "celsius" else degrees * 1.8 + 32
    return f"{result:.1f} {to}"


agent = SessionSpec(model="demo", tools=[convert])
'''

_TOOL_TEST: Final = '''\
"""The tool by itself, by what every tool must do, and as a model calls it."""

from collections.abc import Mapping, Sequence

import pytest
from agentrail import Supervisor
from agentrail.testing import ScriptedModel, ToolConformance, call, say

from converter import agent, convert


class TestConvert(ToolConformance):
    @pytest.fixture
    def tool(self) -> object:
        return convert

    def examples(self) -> Sequence[Mapping[str, str | float]]:
        return ({"degrees": 212.0, "to": "celsius"},)


async def test_a_model_gets_the_result(supervisor: Supervisor) -> None:
    calls = [call("convert", {"degrees": 212, "to": "celsius"}), call("convert", {"degrees": 9999, "to": "celsius"})]
    session = await supervisor.spawn(agent.but(model=ScriptedModel([say(calls=calls), "Done."])))
    await session.ask("How hot is that?")
    result, problem = (message.text for message in session.messages()[2:4])
    assert result == "100.0 celsius"
    assert "`degrees`: found 9999" in problem
'''

_HOST: Final = '''\
"""A host that serves an agent over HTTP; a person approves what it writes."""

from agentrail import SessionSpec, tool
from agentrail.host import Host, Profile
from agentrail.plugins import HumanApproval


@tool
async def write_note(text: str) -> str:
    """Write a note (this one only says so).

    Args:
        text: What it says.
    """
    return f"noted: {text}"


desk = SessionSpec(
    model="demo",  # it needs no key; `agentrail models` lists others
    tools=[write_note],
    plugins=[HumanApproval(tools=("write_note",), timeout=None)],
)


def host() -> Host:
    """Make the host that `agentrail serve` runs."""
    return Host([Profile("desk", desk)])
'''

_HOST_TEST: Final = '''\
"""The host at a socket of its own, and a client that talks to it."""

import agentrail
from agentrail.host import Host, Profile
from agentrail.testing import ScriptedModel, call, say

from app import desk


async def test_a_note_is_written_when_a_person_has_approved_it() -> None:
    model = ScriptedModel([say(calls=[call("write_note", {"text": "tea at four"})]), "Noted.", "You are welcome."])
    host = Host([Profile("desk", desk.but(model=model))])
    async with host.serving() as serving:
        async with agentrail.connect(serving.entry) as supervisor:
            session = await supervisor.spawn("desk", "trip")
            async with supervisor.watch_approvals() as approvals:
                await session.prompt("Remember: tea at four.")
                async for waiting in approvals:
                    if session.id in waiting:
                        await session.approve(waiting[session.id][0])
                        break
            assert (await session.ask("Thanks.")).text == "You are welcome."
'''

# The demo model calls any tool by its name and first argument.
_TRY_AGENT: Final = "run --agent agent.py 'steeping green'"
_TRY_TOOL: Final = "run --agent converter.py 'convert 212'"

KINDS: Final[Mapping[str, NewKind]] = MappingProxyType(
    {
        "agent": NewKind("agent", _AGENT, _AGENT_TEST, "an agent with a tool and a limit", _TRY_AGENT),
        "plugin": NewKind("plugin", _PLUGIN, _PLUGIN_TEST, "a plugin with options and a state", "check plugin.py"),
        "tool": NewKind("converter", _TOOL, _TOOL_TEST, "a tool, and an agent that has it", _TRY_TOOL),
        "host": NewKind("app", _HOST, _HOST_TEST, "a host that serves an agent", "serve app.py"),
    }
)
"""The kinds of folders."""
