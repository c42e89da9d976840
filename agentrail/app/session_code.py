"""Builds the code of a session from its specification: the parts common to new and to resumed sessions."""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import cache
from types import NoneType
from typing import TYPE_CHECKING, Final, cast

from agentrail.app.model_chain import MODEL_WANTED, chain_of, why_no_model
from agentrail.app.model_registry import check_options
from agentrail.app.pricing import PriceList
from agentrail.app.spec import NO_PRICES, SessionSpec, Specs, SpecWanted, answer_form, check_spec
from agentrail.app.subagent_code import HERE, talks
from agentrail.core.vocabulary.commands import SwitchModelSent
from agentrail.core.vocabulary.options import Spare
from agentrail.core.vocabulary.state import State
from agentrail.errors import AgentrailError, BadSpec, ModelExists, SpecMissing, ToolExists, WrongType
from agentrail.hooks.attachments import refuse_twins, refuse_unknown_tools, unkeyed
from agentrail.hooks.contract import ASYNC, indirect
from agentrail.hooks.live import Live, Validator
from agentrail.hooks.plugin import UNKNOWN, AnyPlugin, state_type
from agentrail.lazy import LazyModule
from agentrail.ports.model import Model, ModelChain
from agentrail.ports.sandbox import OnDisk, Sandbox
from agentrail.ports.tool import Tool, ToolSource
from agentrail.ports.web import Web
from agentrail.runtime.resources import SectionFiles, SessionCode, SharedSurroundings
from agentrail.tools import as_tool, validator_for
from agentrail.tools.builtin.delegating import task_tools
from agentrail.values.foreign import named, seconds
from agentrail.values.json import Json, JsonObject
from agentrail.values.meter import Meter

if TYPE_CHECKING:
    from agentrail.codec import plugin_types, states
    from agentrail.tools import answers
else:  # only needed if a plugin has a state, or the answer of a turn a form
    plugin_types = LazyModule("agentrail.codec.plugin_types")
    states = LazyModule("agentrail.codec.states")
    answers = LazyModule("agentrail.tools.answers")

NONE_PRICED: Final = frozenset[str]()

_PUBLISHED: Final = PriceList(NO_PRICES)
_HAS_PRICE: Final = _PUBLISHED.knows
"""The prices of all sessions that give none of their own, and the method that all of them hold."""


def judge_for(spec: SessionSpec, own: Mapping[str, Model], known: Callable[[str], Model], prices: PriceList) -> Live:
    """Return the judge of a session of *spec*; *own* are its own models by name, and *known* returns all others."""
    has_price = _HAS_PRICE if prices is _PUBLISHED else prices.knows
    return Live(_storable, _WhyNot(own, known), has_price, _data, _misfit, answer_form(spec), _why_lost)


def prices_of(spec: SessionSpec) -> PriceList:
    """Return the prices of the models of *spec*."""
    return _PUBLISHED if spec.prices is NO_PRICES else PriceList(spec.prices)


def attachments(spec: SessionSpec) -> list[tuple[str, AnyPlugin]]:
    """Return the plugins of *spec* with their keys; raise an error if two have the same key."""
    keyed = [unkeyed(given) for given in spec.plugins]
    refuse_twins([key for key, _ in keyed])
    return keyed


def surroundings(spec: SessionSpec, working_dir: str) -> SharedSurroundings:
    """Return the surroundings of the tools of *spec*: sandbox, web and working directory."""
    return SharedSurroundings(spec.sandbox, spec.web, working_dir, _local_sandbox, _httpx_web)


NEED_FOLDER: Final = frozenset({"files", "shell"})
"""What tools require that work in a folder."""


def environment_told(spec: SessionSpec, tools: Mapping[str, Tool]) -> str:
    """Return what the model of a session of *spec* with these *tools* is told of its folder and machine.

    Nothing, if the session has no folder of this machine to work in, or is not to tell of it.
    """
    works = spec.working_dir != HERE or any(not NEED_FOLDER.isdisjoint(tool.spec.requires) for tool in tools.values())
    if not spec.environment or not works:
        return ""
    if spec.sandbox is None:
        folder = os.path.realpath(spec.working_dir)
    elif isinstance(spec.sandbox, OnDisk):
        folder = spec.sandbox.root
    else:
        return ""
    return f"Working folder: {_one_line(folder)}\nPlatform: {_platform()}"


def _one_line(path: str) -> str:
    """Return *path* with a mark for each character that is not printed, such as the end of a line."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in path)


@cache
def _platform() -> str:
    import platform  # noqa: PLC0415 - a session without a folder needs none

    return f"{platform.system()} ({platform.machine()})"


def files_of(spec: SessionSpec, around: SharedSurroundings) -> SectionFiles | None:
    """Return the files of *spec* that the prompt shows; `None` if it names none."""
    if not spec.skills and not spec.memory:
        return None
    from agentrail.app.preparing.spec_files import SpecFiles  # noqa: PLC0415 - most sessions have none

    return SpecFiles(spec, around, _local_sandbox)


def _skill_tools(spec: SessionSpec) -> tuple[Tool, ...]:
    """Return the tool that reads the skills of *spec*; none if it has no folders of skills."""
    if not spec.skills:
        return ()
    from agentrail.app.preparing.spec_files import outside  # noqa: PLC0415 - most sessions have none
    from agentrail.tools.skills.read_skill import ReadSkill  # noqa: PLC0415 - as above

    return (ReadSkill(tuple(dict.fromkeys(spec.skills)), outside(spec.skills, _local_sandbox)),)


def _local_sandbox(working_dir: str) -> Sandbox:
    from agentrail.adapters.sandboxes.local import LocalSandbox  # noqa: PLC0415 - a session without tools needs none

    return LocalSandbox(working_dir)


@cache
def _httpx_web() -> Web:
    """Return the web port for all sessions without their own; it keeps no state, so it can be shared."""
    from agentrail.adapters.web import HttpxWeb  # noqa: PLC0415 - many sessions fetch no page

    return HttpxWeb()


def tools_of(spec: SessionSpec) -> dict[str, Tool]:
    """Return the tools of *spec* by name, except those of tool sources; raise `ToolExists` if two have one name."""
    tools: dict[str, Tool] = {}
    described = {name: agent.description for name, agent in spec.agents.items()}
    talk = any(map(talks, spec.agents.values()))
    made = (
        *task_tools(described, seconds(spec.max_agent_seconds) or 0.0, talk=talk),
        *_skill_tools(spec),
    )
    for given in (*spec.tools, *made):
        if isinstance(given, ToolSource):
            continue
        tool = as_tool(given)
        if tool.spec.name in tools:
            raise ToolExists(tool.spec.name)
        tools[tool.spec.name] = tool
    return tools


def brought_by(plugins: Iterable[AnyPlugin], tools: Mapping[str, Tool]) -> dict[str, Tool]:
    """Return the tools that *plugins* bring, by name; raise `ToolExists` if two have one name, or one is of *tools*."""
    brought: dict[str, Tool] = {}
    for plugin in plugins:
        for tool in map(as_tool, plugin.tools_brought):
            if tool.spec.name in tools or tool.spec.name in brought:
                raise ToolExists(tool.spec.name)
            brought[tool.spec.name] = tool
    return brought


def refuse_misnamed(spec: SessionSpec, also: Iterable[str] = ()) -> None:
    """Raise `BadOptions` if a plugin of *spec* or of its sub-agents names a tool that none of them has.

    *also* are names of further tools. A plugin may be inherited by sub-agents, so it may name their tools. The names of
    tools from a source, such as an MCP server, are not known yet.
    """
    _refuse_misnamed(spec, also, spec.max_agent_depth)


def _refuse_misnamed(spec: SessionSpec, also: Iterable[str], depth: int) -> None:
    naming = [(key, plugin) for key, plugin in attachments(spec) if plugin.tools_named]
    if naming:
        specs = tuple(_family(spec, depth))
        brought = [tool.spec.name for one in specs for _, plugin in attachments(one) for tool in plugin.tools_brought]
        tools = dict.fromkeys((*(name for one in specs for name in tools_of(one)), *brought, *also))
        more = any(sources_of(one) for one in specs)
        for key, plugin in naming:
            refuse_unknown_tools(key, plugin, tools, more=more)
    for agent in spec.agents.values() if depth else ():
        _refuse_misnamed(agent, (), depth - 1)


def _family(spec: SessionSpec, depth: int) -> Iterator[SessionSpec]:
    """Yield *spec* and the specifications of its sub-agents, down to the nesting limit."""
    yield spec
    for agent in spec.agents.values() if depth else ():
        yield from _family(agent, depth - 1)


def sources_of(spec: SessionSpec) -> tuple[ToolSource, ...]:
    """Return the tool sources of *spec*; raise an error if one cannot be used, or two have the same name."""
    found: dict[str, ToolSource] = {}
    for given in spec.tools:
        if isinstance(given, ToolSource):
            given.check()
            if found.setdefault(given.name, given) is not given:
                raise BadSpec("tools", f"have two sources called `{given.name}`; give each a `name` of its own")
    return tuple(found.values())


def own_model(code: SessionCode, model: str | Model) -> str:
    """Return the name of *model*; a model given as an object is also registered in *code* under its name."""
    if isinstance(model, str):
        return model
    problem = why_no_model(model)
    if problem is not None:
        raise WrongType("model", problem, MODEL_WANTED)
    if code.models.setdefault(model.name, model) is not model:
        raise ModelExists(model.name)
    return model.name


class _WhyNot:
    """Tells why a plugin cannot switch to a model with some options; a model that can be used is made at once."""

    __slots__ = ("_known", "_own")

    def __init__(self, own: Mapping[str, Model], known: Callable[[str], Model]) -> None:
        self._own = own
        self._known = known

    def __call__(self, name: str, options: JsonObject) -> str | None:
        try:
            check_options(self._own.get(name) or self._known(name), options)
        except AgentrailError as error:
            return str(error)
        return None


def chosen(code: SessionCode, known: Callable[[str], Model], model: ModelChain, options: JsonObject) -> SwitchModelSent:
    """Return the input that switches to a chain; raise an error unless all its models exist and take their options."""
    links: list[Spare] = []
    before = len(code.models)
    for link, own_options in chain_of(model, options):
        name = own_model(code, link)
        check_options(code.models.get(name) or known(name), own_options)
        links.append(Spare(name, own_options))
    if len(code.models) > before:
        code.next_revision()  # so that a session that hibernates keeps it: nobody else has this model
    if not links:
        raise WrongType.of("model", model, MODEL_WANTED)
    first, *spares = links
    known_prices = frozenset(link.model for link in links if code.prices.knows(link.model, link.options))
    priced = known_prices or NONE_PRICED  # the shared empty set: a new one would take 216 bytes in each session
    return SwitchModelSent(first.model, first.options, tuple(spares), priced)


class LateValidator:
    """Checks the arguments of calls of a tool; the validator itself is built at the first check."""

    __slots__ = ("_check", "_tool")

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self._check: Validator | None = None

    def __call__(self, args: JsonObject, meter: Meter) -> str | None:
        """Return why *args* do not fit the tool's schema; `None` if they fit."""
        if self._check is None:
            self._check = validator_for(self._tool.spec)
        return self._check(args, meter)


def _misfit(schema: JsonObject, found: JsonObject) -> str | None:
    return answers.misfit(schema, found)


def _data(state: object) -> Json:
    return states.data_of(state)


def _storable(state: object) -> str | None:
    return None if state is None else states.storable(state)


def _why_lost(plugin: AnyPlugin, state: object) -> str | None:
    wanted = state_type(type(plugin))
    if state is None and wanted in (None, NoneType, UNKNOWN):
        return None
    if wanted is not UNKNOWN:
        return plugin_types.why_lost(wanted, state)
    name = states.kept(state).get("class")
    return None if name is None else f"it is a `{name}`, and its class does not say so: write `Plugin[…]` with the type"


# Functions that build specifications


SPECS_WANTED: Final = "a function, async or not, that takes nothing or a `SpecWanted` and returns a `SessionSpec`"


def check_builder(name: str, found: object) -> None:
    """Raise `WrongType` if *found*, which `specs` has under *name*, is no function that builds a specification."""
    if not callable(found):
        raise WrongType("specs", f"a `{named(found)}` under {name!r}", SPECS_WANTED)
    kind = indirect(found)
    if kind not in ("", ASYNC):
        raise WrongType("specs", f"a function that is {kind} under {name!r}", SPECS_WANTED)
    if not (_takes(found) or _takes(found, "the session")):
        raise WrongType("specs", f"a function that needs other arguments under {name!r}", SPECS_WANTED)


async def built(specs: Specs, stored: State) -> SessionSpec:
    """Return the specification of a stored session, built by its name; raise `SpecMissing` if nothing has that name."""
    setup = stored.setup
    build = cast("Callable[..., object] | None", specs if callable(specs) else specs.get(setup.spec))
    if build is None:
        raise SpecMissing(stored.session_id, setup.spec)
    wanted = SpecWanted(stored.session_id, setup.spec, setup.tenant, setup.owner, setup.user_data, stored)
    spec = build() if _takes(build) else build(wanted)
    if isinstance(spec, Awaitable):
        spec = await cast("Awaitable[object]", spec)
    check_spec(spec)
    return cast("SessionSpec", spec)


def _takes(function: Callable[..., object], *given: object) -> bool:
    """Whether *function* can be called with what is *given*."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a callable written in C may have no signature
        return not given
    try:
        signature.bind(*given)
    except TypeError:
        return False
    return True
