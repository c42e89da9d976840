"""Builds the code of a session from its specification; for a stored session, finds what fits its state."""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Callable, Collection, Container, Iterable, Iterator, Mapping
from functools import cache, partial
from types import NoneType
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from agentrail.app.handoff_agents import AgentTools, acting_spec, current_spec, tools_by_agent
from agentrail.app.model_chain import MODEL_WANTED, chain_of, links_of, why_no_model
from agentrail.app.model_registry import check_options
from agentrail.app.pricing import PriceList
from agentrail.app.spec import (
    NO_PRICES,
    SessionSpec,
    Specs,
    SpecWanted,
    agents_of,
    answer_form,
    check_spec,
    handoffs_of,
    name_of,
)
from agentrail.app.subagent_code import HERE, Build, subagent_codes, talks
from agentrail.codec.plugin_types import decode_state, hints_of, readable
from agentrail.core.vocabulary.commands import SwitchModelSent
from agentrail.core.vocabulary.inputs import SessionReturned
from agentrail.core.vocabulary.options import Spare
from agentrail.core.vocabulary.state import AttachedTool, State
from agentrail.errors import AgentrailError, BadSpec, PluginMismatch, ToolExists, UsageError, WrongType
from agentrail.hooks.attachments import (
    AttachedPlugin,
    attached_plugin,
    brought_tools,
    options_of,
    refuse_twins,
    refuse_unknown_tools,
    unkeyed,
)
from agentrail.hooks.declarations import BlockedPaths
from agentrail.hooks.live_runner import LiveRunner, Validator
from agentrail.hooks.plugin import UNKNOWN, AnyPlugin, Remainder, find_declaration, state_type
from agentrail.hooks.plugin_checks import ASYNC, indirect
from agentrail.lazy import LazyModule
from agentrail.ports.model import Model, ModelChain
from agentrail.ports.protocol_members import has_members
from agentrail.ports.sandbox import HidesPaths, OnDisk, Sandbox
from agentrail.ports.tool import NO_DEPS, Tool, ToolSource, Web
from agentrail.runtime.access.code_changes import updated
from agentrail.runtime.actor.journal_log import revived
from agentrail.runtime.resources import (
    NO_SHADOW,
    NO_TOOL_CODE,
    FoundCode,
    SectionFiles,
    SessionCode,
    SharedSurroundings,
)
from agentrail.runtime.shared.code_loops import bind_function, bind_functions, bind_model, bind_tool
from agentrail.runtime.work.session_deps import SessionDeps, is_maker, refuse_without_deps
from agentrail.tools import as_tool, validator_for
from agentrail.tools.builtin.handoff_tool import transfer_name
from agentrail.tools.builtin.subagent_tools import task_tools
from agentrail.values.json import EMPTY, Json, JsonObject, freeze_object
from agentrail.values.messages import Compactor
from agentrail.values.step_budget import Meter
from agentrail.values.tools import ToolSpec
from agentrail.values.untrusted_values import as_seconds, type_name

if TYPE_CHECKING:
    from agentrail.codec import plugin_states, plugin_types
    from agentrail.tools import answer_forms
else:  # imported at the first use: only needed for plugin states and answers with a schema
    plugin_types = LazyModule("agentrail.codec.plugin_types")
    plugin_states = LazyModule("agentrail.codec.plugin_states")
    answer_forms = LazyModule("agentrail.tools.answer_forms")

NONE_PRICED: Final = frozenset[str]()

_PUBLISHED: Final = PriceList(NO_PRICES)
_HAS_PRICE: Final = _PUBLISHED.knows
"""The prices of all sessions that give none of their own, and the method that all of them hold."""


def hook_runner_for(
    spec: SessionSpec, own_models: Mapping[str, Model], model_of: Callable[[str], Model], prices: PriceList
) -> LiveRunner:
    """Return the hook runner of a session of *spec*; *own_models* are its own by name, *model_of* returns others."""
    has_price = _HAS_PRICE if prices is _PUBLISHED else prices.knows
    forms = tuple([form for agent in agents_of(spec).values() if (form := answer_form(agent)) is not None])
    return LiveRunner(_storable, WhyNot(own_models, model_of), has_price, _data, _misfit, forms, _why_lost)


def prices_of(spec: SessionSpec) -> PriceList:
    """Return the prices of the models of *spec*."""
    return _PUBLISHED if spec.prices is NO_PRICES else PriceList(spec.prices)


def attachments(spec: SessionSpec) -> list[tuple[str, AnyPlugin]]:
    """Return the plugins of *spec* with their keys; raise an error if two have the same key."""
    keyed = [unkeyed(plugin) for plugin in spec.plugins]
    refuse_twins([key for key, _ in keyed])
    sandbox: object = spec.sandbox
    if not has_members(sandbox, HidesPaths):
        return [(key, plugin.in_sandbox((), frozenset())) for key, plugin in keyed]
    tools = _command_tools(spec)
    return [(key, plugin.in_sandbox(sandbox.hidden, tools)) for key, plugin in keyed]


def shadow_of(spec: SessionSpec) -> Mapping[str, AnyPlugin]:
    """Return the plugins in the shadow of *spec* with their keys; raise an error if two have the same key."""
    if not spec.shadow:
        return NO_SHADOW
    keyed = [unkeyed(plugin) for plugin in spec.shadow]
    refuse_twins([key for key, _ in keyed])
    for key, plugin in keyed:
        attached_plugin(key, plugin)  # raises if it is no plugin that could be attached
    return dict(keyed)


def _command_tools(spec: SessionSpec) -> frozenset[str]:
    """Return the names of the tools of *spec*, and of agents in its session, that run commands in its sandbox."""
    items = [item for agent in agents_of(spec).values() for item in agent.tools if not has_members(item, ToolSource)]
    specs = [as_tool(item).spec for item in items]
    others = {tool_spec.name for tool_spec in specs if "shell" not in tool_spec.requires}
    return frozenset([tool_spec.name for tool_spec in specs]) - others


def surroundings(spec: SessionSpec, working_dir: str) -> SharedSurroundings:
    """Return the surroundings of the tools of *spec*: sandbox, web and working directory."""
    return SharedSurroundings(spec.sandbox, spec.web, working_dir, _own_sandbox(spec), _usual_web)


def refuse_missing_folder(spec: SessionSpec) -> None:
    """Raise `BadSpec` if the folder in which tools of *spec* would work is not there; the model alone would be told."""
    if spec.sandbox is None and spec.working_dir != HERE and not os.path.isdir(spec.working_dir):  # noqa: PTH112 - a text
        raise BadSpec("working_dir", f"is {spec.working_dir!r}, where no folder is; make it, or name another one")


NEED_FOLDER: Final = frozenset({"files", "shell"})
"""What tools require that work in a folder."""


def environment_told(spec: SessionSpec, tools: Mapping[str, Tool]) -> str:
    """Return the text on folder and machine for the model of a session of *spec* with these *tools*.

    It is empty if the session works in no folder of this machine, or if the specification forbids to tell of it.
    """
    works = spec.working_dir != HERE or any(not NEED_FOLDER.isdisjoint(tool.spec.requires) for tool in tools.values())
    if not spec.environment or not works:
        return ""
    if spec.sandbox is None:
        folder = os.path.realpath(spec.working_dir)
    elif has_members(spec.sandbox, OnDisk):
        folder = spec.sandbox.root
    else:
        return ""
    return f"Working folder: {_one_line(folder)}\nPlatform: {_platform()}"


def _one_line(path: str) -> str:
    """Return *path* with a mark for each character that cannot be printed, such as a line break."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in path)


@cache
def _platform() -> str:
    """Return the name of the operating system and of the processor type."""
    import platform  # noqa: PLC0415 - a session without a folder needs none

    return f"{platform.system()} ({platform.machine()})"


def files_of(spec: SessionSpec, around: SharedSurroundings) -> SectionFiles | None:
    """Return the files of *spec* that the prompt shows; `None` if it names none."""
    if not spec.skills and not spec.memory:
        return None
    from agentrail.app.spec_files import SpecFiles  # noqa: PLC0415 - most sessions have none

    return SpecFiles(spec, around, _own_sandbox(spec))


def _skill_tools(spec: SessionSpec) -> tuple[Tool, ...]:
    """Return the tool that reads the skills of *spec*; none if it has no folders of skills."""
    if not spec.skills:
        return ()
    from agentrail.app.spec_files import outside  # noqa: PLC0415 - most sessions have none
    from agentrail.tools.skills.read_skill import ReadSkill  # noqa: PLC0415 - as above

    return (ReadSkill(tuple(dict.fromkeys(spec.skills)), outside(spec.skills, _own_sandbox(spec))),)


def sandbox_for(spec: SessionSpec) -> Sandbox:
    """Return a sandbox for the working folder of *spec*, for one that names no sandbox."""
    return _own_sandbox(spec)(spec.working_dir)


def _own_sandbox(spec: SessionSpec) -> Callable[[str], Sandbox]:
    """Return a function that makes a sandbox for a folder of this machine, in which *spec* hides paths.

    All sessions without plugins have the same one: each session holds it for as long as it is awake.
    """
    return partial(_sandbox_at, spec) if spec.plugins else _usual_sandbox_at


def _sandbox_at(spec: SessionSpec, working_dir: str) -> Sandbox:
    from agentrail.adapters.sandboxes.local import LocalSandbox  # noqa: PLC0415 - most sessions need none

    return LocalSandbox(working_dir, hidden=hidden_by(spec))


def _usual_sandbox_at(working_dir: str) -> Sandbox:
    from agentrail.adapters.sandboxes.local import LocalSandbox  # noqa: PLC0415 - as above

    return LocalSandbox(working_dir)


def hidden_by(spec: SessionSpec) -> tuple[str, ...]:
    """Return the patterns of what a sandbox made for *spec* hides: what its plugins block, else `BLOCKED_PATHS`.

    What one plugin allows is shown only if no other plugin blocks paths without allowing that.
    """
    from agentrail.plugins.shell.guarded_paths import BLOCKED_PATHS  # noqa: PLC0415 - only if a sandbox is made

    plugins = [plugin for _, plugin in map(unkeyed, spec.plugins)]
    blocked = [names.patterns for plugin in plugins if (names := find_declaration(plugin, BlockedPaths)) is not None]
    every = [name for names in blocked for name in names] if blocked else BLOCKED_PATHS
    hidden = [name for name in every if name[:1] != "!" or all(name in names for names in blocked)]
    return tuple(dict.fromkeys(hidden))


@cache
def _usual_web() -> Web:
    """Return the web port for all sessions without their own; it keeps no state, so it can be shared."""
    from agentrail.adapters.web_access import WebAccess  # noqa: PLC0415 - many sessions fetch no page

    return WebAccess()


def tools_of(spec: SessionSpec) -> dict[str, Tool]:
    """Return the tools of *spec* by name, except those of tool sources; raise `ToolExists` if two have one name.

    Raise `UsageError` if one needs an asyncio loop and none is there.
    """
    tools: dict[str, Tool] = {}
    described = {name: agent.description for name, agent in spec.agents.items()}
    talk = any(map(talks, spec.agents.values()))
    skill_tools = (
        *task_tools(described, as_seconds(spec.max_agent_seconds) or 0.0, talk=talk),
        *_skill_tools(spec),
    )
    for item in (*spec.tools, *skill_tools):
        if has_members(item, ToolSource):
            continue
        tool = tool_here(item)
        if tool.spec.name in tools:
            raise ToolExists(tool.spec.name)
        tools[tool.spec.name] = tool
    return tools


def tool_here(value: object) -> Tool:
    """Return *value* as a tool of a session here; raise `UsageError` if it needs an asyncio loop and none is there."""
    return bind_tool(as_tool(value))


def compactor_here(spec: SessionSpec) -> Compactor | None:
    """Return the compactor of *spec*, `None` if it has none; raise `UsageError` as `tool_here` does."""
    return None if spec.compactor is None else bind_function(spec.compactor)


def deps_here(spec: SessionSpec, tools: Iterable[Tool]) -> SessionDeps | None:
    """Return the dependencies of *spec*, `None` if it has none.

    Raise `UsageError` if one of *tools*, or of the tools of its sub-agents, wants others, or as `tool_here` does.
    """
    deps = _deps_of(spec)
    refuse_without_deps(deps, tools)
    _refuse_agents_without_deps(spec, deps, spec.max_agent_depth)
    return deps


def _deps_of(spec: SessionSpec) -> SessionDeps | None:
    """Return the dependencies of *spec* alone; `None` if it has none."""
    if spec.deps is None:
        return None
    maker = bind_function(cast("Callable[..., object]", spec.deps)) if is_maker(spec.deps) else None
    return SessionDeps(spec.deps if maker is None else NO_DEPS, maker)


def _refuse_agents_without_deps(spec: SessionSpec, deps: SessionDeps | None, depth: int) -> None:
    """Raise `UsageError` if a tool of a sub-agent, down to *depth*, wants other dependencies than its own or *deps*."""
    for agent in spec.agents.values() if depth else ():
        agent_deps = _deps_of(agent) or deps
        refuse_without_deps(agent_deps, tools_of(agent).values())
        _refuse_agents_without_deps(agent, agent_deps, depth - 1)


def brought_by(plugins: Iterable[AnyPlugin], tools: Mapping[str, Tool]) -> dict[str, Tool]:
    """Return the tools that *plugins* declare, by name; raise `ToolExists` if a name is taken."""
    brought: dict[str, Tool] = {}
    for plugin in plugins:
        for tool in map(tool_here, brought_tools(plugin)):
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
    """Raise `BadOptions` if a plugin names an unknown tool; the same for sub-agents, down to *depth*."""
    naming = [(key, plugin) for key, plugin in attachments(spec) if plugin.tools_named]
    if naming:
        specs = tuple(_family(spec, depth))
        brought = [
            tool.spec.name for spec_ in specs for _, plugin in attachments(spec_) for tool in brought_tools(plugin)
        ]
        transfers = [transfer_name(name_of(handoff)) for spec_ in specs for handoff in handoffs_of(spec_)]
        tools = dict.fromkeys((*(name for spec_ in specs for name in tools_of(spec_)), *brought, *transfers, *also))
        more = any(sources_of(spec_) for spec_ in specs)
        for key, plugin in naming:
            refuse_unknown_tools(key, plugin, tools, more=more)
    for agent in spec.agents.values() if depth else ():
        _refuse_misnamed(agent, (), depth - 1)


def _family(spec: SessionSpec, depth: int) -> Iterator[SessionSpec]:
    """Yield *spec*, what it may be handed over to, and the same of its sub-agents, down to the nesting limit."""
    yield from agents_of(spec).values()
    for agent in spec.agents.values() if depth else ():
        yield from _family(agent, depth - 1)


def sources_of(spec: SessionSpec) -> tuple[ToolSource, ...]:
    """Return the tool sources of *spec*; raise an error if one cannot be used, or two have the same name."""
    sources: dict[str, ToolSource] = {}
    for item in spec.tools:
        if has_members(item, ToolSource):
            item.check()
            if sources.setdefault(item.name, item) is not item:
                raise BadSpec("tools", f"have two sources called `{item.name}`; give each a `name` of its own")
    return tuple(sources.values())


def own_model(code: SessionCode, model: str | Model) -> str:
    """Return the name of *model*; a model given as an object is also registered in *code* under its name."""
    if isinstance(model, str):
        return model
    problem = why_no_model(model)
    if problem is not None:
        raise WrongType("model", problem, MODEL_WANTED)
    model = bind_model(model)
    if code.models.setdefault(model.name, model) is not model:
        raise UsageError("model-exists", model.name)
    return model.name


class WhyNot:
    """Callable: the reason why a plugin cannot switch to a model with options; a usable model is made at once."""

    __slots__ = ("_known", "_own")

    def __init__(self, own_models: Mapping[str, Model], model_of: Callable[[str], Model]) -> None:
        self._own = own_models
        self._known = model_of

    def __call__(self, name: str, options: JsonObject) -> str | None:
        """Return why the model of this name cannot be used with these options; `None` if it can."""
        try:
            check_options(self._own.get(name) or self._known(name), options)
        except AgentrailError as error:
            return str(error)
        return None


def chosen(
    code: SessionCode, model_of: Callable[[str], Model], model: ModelChain, options: JsonObject
) -> SwitchModelSent:
    """Return the input that switches to a chain; raise an error unless all its models exist and take their options."""
    links: list[Spare] = []
    old_count = len(code.models)
    for link, own_options in chain_of(model, options):
        name = own_model(code, link)
        check_options(code.models.get(name) or model_of(name), own_options)
        links.append(Spare(name, own_options))
    if len(code.models) > old_count:
        code.next_revision()  # so that a sleeping session keeps its model object, which no registry has
    if not links:
        raise WrongType.of("model", model, MODEL_WANTED)
    first, *spares = links
    known_prices = frozenset(link.model for link in links if code.prices.knows(link.model, link.options))
    priced = known_prices or NONE_PRICED  # the shared empty set: a new one would take 216 bytes in each session
    return SwitchModelSent(first.model, first.options, tuple(spares), priced)


def agent_tools(
    code: SessionCode, spec: SessionSpec, model_of: Callable[[str], Model], revision: int
) -> dict[str, AgentTools]:
    """Return the tools of all agents of a session of *spec*, whose revisions begin with *revision*."""

    def choose(agent: SessionSpec) -> SwitchModelSent:
        """Return the models of *agent*; raise an error unless all exist and take their options."""
        return chosen(code, model_of, agent.model or spec.model, freeze_object(agent.model_options))

    return tools_by_agent(spec, revision, tools_of, choose)


def tools_of_all(desks: Mapping[str, AgentTools]) -> dict[str, Tool]:
    """Return the tools of all agents in *desks* by name; of two with one name, either."""
    return {name: tool for desk in desks.values() for name, tool in desk.tools.items()}


def take_tools(code: SessionCode, tools: Mapping[tuple[str, int], Tool]) -> None:
    """Add *tools*, by name and revision, to *code*."""
    code.tools = {**code.tools, **tools} or NO_TOOL_CODE
    for (name, revision), tool in tools.items():
        code.hook_runner.tool(name, revision, LateValidator(tool))


def take_agents(code: SessionCode, desks: Mapping[str, AgentTools]) -> None:
    """Add the tools of all agents in *desks* to *code*, which keeps them while another agent works."""
    tools = {(name, desk.revision): tool for desk in desks.values() for name, tool in desk.tools.items()}
    take_tools(code, tools)
    code.revision = max(code.revision, *[desk.revision for desk in desks.values()])
    if len(desks) > 1:
        code.reserved = frozenset(tools)


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


def _misfit(schema: JsonObject, answer: JsonObject) -> str | None:
    """Return why *answer* does not fit *schema*; `None` if it does. Imports the checker at its first use."""
    return answer_forms.misfit(schema, answer)


def _data(state: object) -> Json:
    """Return the plugin state as JSON. Imports the codec at its first use."""
    return plugin_states.data_of(state)


def _storable(state: object) -> str | None:
    """Return why the plugin state cannot be stored; `None` if it can."""
    return None if state is None else plugin_states.storable(state)


def _why_lost(plugin: AnyPlugin, state: object) -> str | None:
    """Return why the plugin's state could not be read back from the journal; `None` if it could."""
    type_ = state_type(type(plugin))
    if state is None and type_ in (None, NoneType, UNKNOWN):
        return None
    if type_ is not UNKNOWN:
        return plugin_types.why_lost(type_, state)
    name = plugin_states.state_json(state).get("class")
    return None if name is None else f"it is a `{name}`, and its class does not say so: write `Plugin[…]` with the type"


# Functions that build specifications


SPECS_WANTED: Final = "a function, async or not, that takes nothing or a `SpecWanted` and returns a `SessionSpec`"


def check_builder(name: str, builder: object) -> None:
    """Raise `WrongType` if *builder*, which `specs` has under *name*, is no function that builds a specification."""
    if not callable(builder):
        raise WrongType("specs", f"a `{type_name(builder)}` under {name!r}", SPECS_WANTED)
    kind = indirect(builder)
    if kind not in ("", ASYNC):
        raise WrongType("specs", f"a function that is {kind} under {name!r}", SPECS_WANTED)
    if not (_takes(builder) or _takes(builder, "the session")):
        raise WrongType("specs", f"a function that needs other arguments under {name!r}", SPECS_WANTED)


async def build_spec(specs: Specs, stored: State) -> SessionSpec:
    """Return the specification of a stored session, built by its name; raise `UsageError` if nothing has that name."""
    setup = stored.setup
    build = cast("Callable[..., object] | None", specs if callable(specs) else specs.get(setup.spec))
    if build is None:
        raise UsageError("spec-missing", stored.session_id, setup.spec)
    build = bind_function(build)
    request = SpecWanted(stored.session_id, setup.spec, setup.tenant, setup.owner, setup.user_data, stored)
    spec = build() if _takes(build) else build(request)
    if isinstance(spec, Awaitable):
        spec = await cast("Awaitable[object]", spec)
    check_spec(spec)
    return cast("SessionSpec", spec)


def _takes(function: Callable[..., object], *args: object) -> bool:
    """Whether *function* can be called with *args*."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a callable written in C may have no signature
        return not args
    try:
        signature.bind(*args)
    except TypeError:
        return False
    return True


Others: TypeAlias = dict[str, tuple[str, ...]]
"""The plugins whose options differ from the stored ones, by key, with the names of the options that are reset."""


def match_code(
    stored: State,
    records: int,
    spec: SessionSpec,
    model_of: Callable[[str], Model],
    build: Build,
    *,
    pause: bool,
) -> FoundCode:
    """Return the session *stored* with the code of *spec*; its own options and models stay as stored.

    The options of its plugins are those of *spec*.

    Only those that were changed at run time are kept, unless a critical plugin resets them; the result names the reset
    ones. Plugins and tools of *spec* that the session never had are added. Those that it once had and that were
    removed stay removed.
    """
    own_models: dict[str, Model] = {}
    prices = prices_of(spec)
    hook_runner = hook_runner_for(spec, own_models, model_of, prices)
    revision = 1 + _last_revision(stored)
    plugins = dict(attachments(spec))
    if not stored.setup.path:
        refuse_misnamed(spec, (*stored.tools, *stored.removed_tools))
    held_keys = frozenset(plugin_.key for plugin_ in spec.plugins if isinstance(plugin_, Remainder))
    others: Others = {}
    row = [_attached_now(stored, attached, plugins, held_keys, others, hook_runner) for attached in stored.plugins]
    row += _joining(stored, plugins, hook_runner, revision)
    attached_plugins = tuple(sorted((attached for attached, _ in row), key=lambda attached: attached.priority))
    services, around = bind_functions(spec.services), surroundings(spec, stored.setup.working_dir)
    parts = (hook_runner, NO_TOOL_CODE, own_models, services, around)
    code = SessionCode(*parts, LateValidator, prices, (), subagent_codes(spec, build), compactor_here(spec))
    code.shadow = shadow_of(spec)
    desks = agent_tools(code, spec, model_of, revision + 1)
    tools = dict(desks[current_spec(stored, spec).name].tools)
    brought_by(plugins.values(), tools_of_all(desks))
    waiting, without = _waiting(stored, plugins, held_keys, others, hook_runner)
    brought = _brought_tools((*waiting, *attached_plugins), hook_runner)
    tools |= {name: tool for attached, name, tool in brought if _brings(attached, stored.tools.get(name))}
    code.sources = tuple(source for source in sources_of(spec) if source.name not in stored.removed_tools)
    changed, removed = _compare_tools(stored, tools, [source.name for source in code.sources])
    tool_code = _tool_code(stored, tools, changed, revision)
    tool_code |= {(name, attached.revision): tool for attached, name, tool in brought}
    tool_code |= _handed_over(stored, spec, desks)
    code.deps = deps_here(spec, (*tool_code.values(), *tools_of_all(desks).values()))
    code.section_files = files_of(spec, code.surroundings)
    code.revision = revision
    take_tools(code, tool_code)
    if len(desks) > 1:
        take_agents(code, desks)
    _take_models(code, stored, spec, model_of)
    lost = tuple(f"the source of tools `{source.name}`, which is started again" for source in code.sources)
    announced = lost if stored.turn_count else ()
    input_ = (records, attached_plugins, changed, removed, revision, without, announced)
    returned = SessionReturned(*input_, pause, tuple(others.items()), waiting)
    plugin_states = tuple(state for _, state in row[: len(stored.plugins)])
    return stored.but(plugin_states=plugin_states), code, returned


def _take_models(code: SessionCode, stored: State, spec: SessionSpec, model_of: Callable[[str], Model]) -> None:
    """Register the model objects of *spec* in *code*; raise if a stored model of the session refuses its options."""
    for link, _ in chain_of(spec.model, EMPTY):
        own_model(code, link)
    for name, options in links_of(stored):
        check_options(code.models.get(name) or model_of(name), options)


def _last_revision(stored: State) -> int:
    """Return the highest revision in *stored*: each change of plugins or tools of a session has a number."""
    calls = () if stored.batch is None else stored.batch.calls
    handoffs = (call.handoff.revision for call in calls if call.handoff is not None)
    joining = (change.attached.revision for change in stored.plugin_changes if change.attached is not None)
    numbers = (
        *(attached.revision for attached in stored.plugins),
        *(tool.revision for tool in stored.tools.values()),
        *(call.revision for call in calls),
        *handoffs,
        *joining,
    )
    return max(numbers, default=0)


# Plugins


def _attached_now(
    stored: State,
    attached: AttachedPlugin,
    plugins: Mapping[str, AnyPlugin],
    held_keys: Container[str],
    others: Others,
    hook_runner: LiveRunner,
) -> tuple[AttachedPlugin, object]:
    """Return the plugin's description with the options that hold now, and its state.

    Add it to *others* if its options differ from the stored ones. Raise `PluginMismatch` if there is no code for it.
    """
    index = stored.plugins.index(attached)
    state = stored.plugin_states[index]
    plugin = plugins.get(attached.key)
    if plugin is None:
        raise PluginMismatch(stored.session_id, attached.key, "it is not in the specification")
    if plugin.version < attached.version:
        problem = f"its state was written by version {attached.version}, and the code is version {plugin.version}"
        raise PluginMismatch(stored.session_id, attached.key, problem)
    plugin, now, dropped = _resolve_options(stored.session_id, plugin, attached, keeps_all=attached.key in held_keys)
    if plugin.version == attached.version:
        state = revived(stored.session_id, attached.key, plugin, state)
    hook_runner.attach(attached.key, attached.revision, plugin)
    if dropped or any(now.options[name] != option for name, option in attached.options.items() if name in now.options):
        others[attached.key] = dropped
    return now, state


def _resolve_options(
    session_id: str, plugin: AnyPlugin, attached: AttachedPlugin, *, keeps_all: bool
) -> tuple[AnyPlugin, AttachedPlugin, tuple[str, ...]]:
    """Return *plugin* with its current options, its description, and the names of stored options that were reset.

    Options that were changed at run time are kept. But if the options of a critical plugin in the code differ from
    those at the session's start, its changed options are reset, except the pinned ones. With *keeps_all*, none is
    reset.
    """
    now = options_of(plugin)
    stored = attached.options
    keep = [name for name in (stored if keeps_all else attached.changed) if name in now and name in stored]
    if keep and not keeps_all:
        hints = hints_of(type(plugin))
        keep = [name for name in keep if name in hints and readable(hints[name]) is None]
    began = {**stored, **attached.changed}
    if plugin.critical and not keeps_all and any(now[name] != began[name] for name in began if name in now):
        keep = [name for name in keep if name in attached.pinned]
    plugin = _with_options(
        session_id, attached.key, plugin, {name: stored[name] for name in keep if now[name] != stored[name]}
    )
    dropped = tuple(
        name
        for name in attached.changed
        if name not in keep and (name not in stored or stored.get(name) != now.get(name))
    )
    changed = attached.changed if keeps_all else freeze_object({name: now[name] for name in keep})
    pinned = tuple(name for name in attached.pinned if name in keep)
    return plugin, attached_plugin(attached.key, plugin, attached.revision).but(changed=changed, pinned=pinned), dropped


def _with_options(session_id: str, key: str, plugin: AnyPlugin, changed: Mapping[str, Json]) -> AnyPlugin:
    """Return *plugin* with the options *changed*, which are JSON as stored."""
    if not changed:
        return plugin
    hints = hints_of(type(plugin))
    try:
        options = {name: decode_state(hints[name], option) for name, option in changed.items()}
        return updated(plugin, options)
    except Exception as error:  # a plugin class may refuse options by any exception
        raise PluginMismatch(session_id, key, f"it does not take its stored options: {error}") from error


def _joining(
    stored: State, plugins: Mapping[str, AnyPlugin], hook_runner: LiveRunner, revision: int
) -> list[tuple[AttachedPlugin, object]]:
    """Return the descriptions of plugins that are new in the code; their state is `None` until `init`."""
    had = (
        {attached.key for attached in stored.plugins}
        | {change.key for change in stored.plugin_changes}
        | {*stored.removed_plugins}
    )
    joining: list[tuple[AttachedPlugin, object]] = []
    for key, plugin in plugins.items():
        if key not in had:
            hook_runner.attach(key, revision, plugin)
            joining.append((attached_plugin(key, plugin, revision), None))
    return joining


def _waiting(
    stored: State, plugins: Mapping[str, AnyPlugin], held_keys: Container[str], others: Others, hook_runner: LiveRunner
) -> tuple[tuple[AttachedPlugin, ...], tuple[str, ...]]:
    """Return the descriptions of plugins queued to be attached, and the keys of queued plugins without code now."""
    missing: list[str] = []
    attached_plugins: list[AttachedPlugin] = []
    for change in stored.plugin_changes:
        if change.attached is None:
            continue
        plugin = plugins.get(change.key)
        if plugin is None:
            missing.append(change.key)
        else:
            new, attached, dropped = _resolve_options(
                stored.session_id, plugin, change.attached, keeps_all=change.key in held_keys
            )
            hook_runner.attach(change.key, change.attached.revision, new)
            if dropped or any(name not in attached.changed for name in change.options):
                others[change.key] = tuple(dict.fromkeys((*others.get(change.key, ()), *dropped)))
            attached_plugins.append(attached)
    return tuple(attached_plugins), tuple(missing)


# Tools


def _brought_tools(
    attached_plugins: Iterable[AttachedPlugin], hook_runner: LiveRunner
) -> list[tuple[AttachedPlugin, str, Tool]]:
    """Return the tools that the plugins of *attached_plugins* bring: plugin, name and tool."""
    tools = [
        (attached, tool_here(tool))
        for attached in attached_plugins
        for tool in brought_tools(hook_runner.plugin(attached))
    ]
    return [(attached, tool.spec.name, tool) for attached, tool in tools]


def _brings(attached: AttachedPlugin, tool: AttachedTool | None) -> bool:
    """Whether the plugin *attached* has attached *tool* to the session."""
    return tool is not None and tool.plugin == attached.key


def _compare_tools(
    stored: State, tools: Mapping[str, Tool], sources: Collection[str]
) -> tuple[tuple[ToolSpec, ...], tuple[str, ...]]:
    """Return the tools that are new or have changed, and the names of the stored tools that no longer exist."""
    removed = tuple(
        name for name, attached in stored.tools.items() if name not in tools and attached.source not in sources
    )
    changed = [
        tool.spec
        for name, tool in tools.items()
        if (name in stored.tools and stored.tools[name].spec != tool.spec)
        or (name not in stored.tools and name not in stored.removed_tools)
    ]
    return tuple(changed), removed


def _handed_over(stored: State, spec: SessionSpec, desks: Mapping[str, AgentTools]) -> dict[tuple[str, int], Tool]:
    """Return the tools of agents to which calls of the open batch hand over, under the revisions that they name."""
    calls = () if stored.batch is None else stored.batch.calls
    handoffs = [call.handoff for call in calls if call.handoff is not None]
    return {
        (name, handoff.revision): tool
        for handoff in handoffs
        for name, tool in desks[acting_spec(spec, handoff.agent.name, stored.session_id).name].tools.items()
    }


def _tool_code(
    stored: State, tools: Mapping[str, Tool], changed: Iterable[ToolSpec], revision: int
) -> dict[tuple[str, int], Tool]:
    """Return the tools by name and revision; a tool that has not changed keeps its old revision."""
    others = {spec.name for spec in changed}
    own_tools = {
        (name, attached.revision): tools[name]
        for name, attached in stored.tools.items()
        if name in tools and name not in others
    }
    return own_tools | {(name, revision): tools[name] for name in others}
