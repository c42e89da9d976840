"""`SessionSpec`: the user's description of a session, and the checks of it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import compress
from operator import attrgetter, is_not
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, Self, TypeAlias, cast

from typing_extensions import TypeForm

from agentrail.app.model_chain import MODEL_WANTED, chain_of, why_no_model
from agentrail.core.system_prompt import MODES
from agentrail.core.vocabulary.options import CHOICES, TIMES, Options
from agentrail.core.vocabulary.state import State
from agentrail.errors import BadChoice, BadReturns, BadSpec, NotJson, WrongType
from agentrail.hooks.plugin import Attachable
from agentrail.hooks.plugin_checks import ASYNC, indirect
from agentrail.ports.model import ModelChain
from agentrail.ports.protocol_checks import why_unfit, why_unfit_call
from agentrail.ports.protocol_members import has_members
from agentrail.ports.sandbox import Sandbox
from agentrail.ports.tool import Service, ToolSource, Web
from agentrail.runtime.work.session_deps import is_maker, takes_session
from agentrail.tools.skills.folder_scan import why_no_path
from agentrail.values.argument_checks import refuse_unknown
from agentrail.values.json import EMPTY, FrozenObject, Json, JsonObject, freeze_object
from agentrail.values.messages import AskModel, Compactor, Leaving
from agentrail.values.old_names import with_new_names
from agentrail.values.untrusted_values import TEN_YEARS, brief, mended, number, type_name
from agentrail.values.usage import Price
from agentrail.values.value import Authored, defaults_of

if TYPE_CHECKING:
    from agentrail.app.pricing import Prices
    from agentrail.hooks.hook_runner import AnswerForm

NO_PRICES: Mapping[str, Price] = MappingProxyType({})
NO_AGENTS: Mapping[str, SessionSpec] = MappingProxyType({})
_NO_SERVICES: Mapping[str, Service] = MappingProxyType({})


class SessionSpec(Options, kw_only=True, gc=True, weakref=True):
    """Describes a session to start. All fields except `model` have a default; limits and times are in `Options`."""

    model: ModelChain = ""
    """The model: a name such as `demo` or `anthropic:…`, or a `Model` object; a list of several is a chain.

    A model of a chain gets a request if those before it cannot answer. One with options is a pair: `(name, options)`.
    """
    name: str = ""
    """The name of the specification, by which `open_supervisor(specs=…)` finds the code of a stored session."""
    tools: Sequence[object] = ()
    """Tools: decorated functions, objects with `spec` and `execute`, and MCP servers."""
    plugins: Sequence[Attachable] = ()
    """Plugins; one of each class, unless given a key."""
    shadow: Sequence[Attachable] = ()
    """Plugins that are asked beside `plugins`, in the place of those with the same key, and change nothing.

    `session.shadow()` tells what would have been otherwise, and so do `ShadowDiffers` events.
    """
    system: str = ""
    """The system prompt of this agent: the layer `user` of what the model gets. A sub-agent has its own."""
    working_dir: str = "."
    """Folder in which the tools work."""
    sandbox: Sandbox | None = None
    """The sandbox of the file and shell tools; `None` if it is a `LocalSandbox` of the working directory."""
    web: Web | None = None
    """The fetcher of web pages for tools, which may search too; `None` if it is `WebAccess()`."""
    user_data: Mapping[str, Json] = EMPTY
    """Your own data: plugins and tools can read it, and events of plugins contain it."""
    deps: object = None
    """What tools get as `ToolContext[Deps].deps`, such as clients and pools: an object, or a function that makes it.

    A function, method, class or `partial` makes it; it may be async, and take a `DepsWanted`. It is never stored.
    """
    prompt_mode: Literal["full", "task", "minimal", "none"] | None = None
    """Which layers of the system prompt are sent; if `None`, `full`, and `task` for a sub-agent.

    A sub-agent with `skills` or `memory` of its own has `full`, because `task` does not send them.
    """
    skills: Sequence[str] = ()
    """Folders with skills in them; of two skills with one name, that of the later folder counts.

    A path is relative to the sandbox; one that begins with `/` or `~/` is a folder of this machine.
    """
    environment: bool = True
    """Whether the model is told the working folder, the platform and the date, if the session has such a folder.

    It has one if it has tools for files or commands, or a `working_dir`, and a sandbox on this machine.
    """
    memory: Sequence[str] = ()
    """Memory files, such as `AGENTS.md`, whose texts are sent as sections; paths are as those of `skills`."""
    model_options: Mapping[str, Json] = EMPTY
    """Options for the model's provider; in a chain, for that of the first model."""
    prices: Prices = NO_PRICES
    """Your own prices: a `Price` by model, or a function of model and `Usage` that returns a cost; else published."""
    compactor: Compactor | None = None
    """The function that writes what replaces messages which leave the context; `None`: the model writes a summary."""
    services: Mapping[str, Service] = _NO_SERVICES
    """Async functions that plugins may call by `Ask(CallService(…))`."""

    agents: Mapping[str, SessionSpec] = NO_AGENTS
    """The sub-agents that the tool `task` may start, by name; each inherits what its spec leaves out."""
    description: str = ""
    """The description of a sub-agent, by which the parent's model chooses it."""
    returns: Mapping[str, Json] | TypeForm[object] = EMPTY
    """The form of all answers: a JSON Schema, a class such as a dataclass, or a type; if empty, text."""
    handoffs: Sequence[SessionSpec | Handoff | str] = ()
    """The agents that the model may hand the conversation over to: specifications, or names of others of the session.

    Such an agent brings its prompt, tools, model and answer form. All else, such as plugins and limits, stays.
    """

    def __repr__(self) -> str:
        # Dependencies hold secrets, and may raise when they are compared or shown.
        return super().__repr__() if self.deps is None else repr(self.but(deps=None))

    def but(self, **changes: object) -> Self:
        """Return a copy with *changes*."""
        name = type(self).__name__
        new = with_new_names(name, changes, self.__struct_fields__)
        refuse_unknown(name, new, self.__struct_fields__)
        return super().but(**new)

    @property
    def options(self) -> Options:
        """The limits, times and other settings of `Options` alone, which are stored with the session."""
        changed = _changed_options(self)
        if not changed:
            return DEFAULTS
        return _share(DEFAULTS.but(**{name: _normalize(name, value) for name, value in changed.items()}))

    def check(self) -> None:
        """Raise `BadSpec` if a session of this specification, or of its sub-agents, could not run."""
        _check_alone(self)
        _check_handoffs(self)
        _check_agents(self.agents, self.model, int(number(self.max_agent_depth) or 0))


class StoredSpec(SessionSpec, kw_only=True, gc=True):
    """A specification whose sessions are stored under another name than the one by which agents hand back to it."""

    stored_name: str
    """The name under which they are stored."""


def stored_as(spec: SessionSpec, name: str) -> SessionSpec:
    """Return *spec* for sessions that are stored under *name*."""
    if not spec.handoffs:
        return spec.but(name=name)
    fields = {field: getattr(spec, field) for field in SessionSpec.__struct_fields__}
    return StoredSpec(**fields, stored_name=name)


def stored_name(spec: SessionSpec) -> str:
    """Return the name under which sessions of *spec* are stored."""
    return spec.stored_name if isinstance(spec, StoredSpec) else spec.name


class Handoff(Authored, gc=True):
    """An agent that goes on with the conversation when the model calls its tool; for `SessionSpec.handoffs`."""

    agent: SessionSpec | str
    """Its specification; or its name, if another agent of the session, or the session itself, has that."""
    history: Literal["all", "turn", "summary"] = "all"
    """What it sees: all messages, those of the open turn, or a summary of the earlier ones."""


def _check_alone(spec: SessionSpec) -> None:
    """Raise `BadSpec` if a session of *spec* could not run; its sub-agents are not checked.

    Most specifications set few fields, and a default, which is known by its identity, needs no check at each spawn.
    """
    if not spec.model:
        raise BadSpec("model", MISSING)
    fields = FIELDS(spec)
    changed = tuple(map(is_not, fields, DEFAULT_FIELDS))
    for name, value in zip(compress(SessionSpec.__struct_fields__, changed), compress(fields, changed), strict=True):
        if name in CHECKS:
            CHECKS[name](name, value)
    if spec.skills and "skills" in spec.memory:
        raise BadSpec("memory", "has a file `skills`, as the list of skills in the prompt is called; write `./skills`")
    for model, _ in chain_of(spec.model, spec.model_options):
        _check_model(model)
    schema_of(spec)


def stays_valid(spec: SessionSpec) -> bool:
    """Whether *spec*, which was checked, need not be checked again: nothing in it that was looked at can change.

    Of `tools` and `plugins`, the check looks at the kind of list alone; what is in them is checked at each spawn.
    """
    looked_into = any(map(is_not, LOOKED_INTO(spec), DEFAULT_LOOKED_INTO))
    return not looked_into and not isinstance(spec.model, list | tuple)


def schema_of(spec: SessionSpec) -> JsonObject:
    """Return the JSON Schema of the answers of *spec*, empty if they are text; raise `BadSpec` if it is invalid."""
    form = answer_form(spec)
    return EMPTY if form is None else form.schema


_PLAIN_MAPPINGS: Final = frozenset[type]((dict, FrozenObject, MappingProxyType))
"""Mappings that run no code of the program when they are looked at."""


def answer_form(spec: SessionSpec) -> AnswerForm | None:
    """Return the form of the answers of *spec*, `None` if they are text; raise `BadSpec` if it is invalid."""
    # Not compared with `EMPTY`: a mapping of the program may have no end.
    if type(spec.returns) in _PLAIN_MAPPINGS and not spec.returns:
        return None
    from agentrail.tools.answer_forms import form_of  # noqa: PLC0415 - only needed if answers have a form

    try:
        return form_of(spec.returns)
    except BadReturns as why:
        raise BadSpec("returns", f"will not do: {why.args[0]}") from why


def _check_sequence(name: str, value: object) -> None:
    """Raise `BadSpec` if *value* is not a list of things."""
    if isinstance(value, str | bytes) or not isinstance(value, tuple | list | Collection):
        raise BadSpec(name, f"is a `{type_name(value)}`; write a list, with brackets also around a single one")


def _check_mapping(name: str, value: object) -> None:
    """Raise `BadSpec` if *value* is no mapping."""
    if not isinstance(value, dict | Mapping):
        raise BadSpec(name, f"is a `{type_name(value)}`; use a mapping from names")


def _check_services(name: str, value: object) -> None:
    """Raise `BadSpec` if *value* is no mapping to services."""
    _check_mapping(name, value)
    for service_name, service in cast("Mapping[str, object]", value).items():
        problem = why_unfit_call(service, answering)
        if problem is not None:
            raise BadSpec(name, f"have {problem} under `{service_name}`; use {SERVICE_WANTED}")


def _check_compactor(name: str, value: object) -> None:
    """Raise `BadSpec` if *value* is no compactor."""
    problem = None if value is None else why_unfit_call(value, compacting)
    if problem is not None:
        raise BadSpec(name, f"is {problem}; use {COMPACTOR_WANTED}")


def _check_port(name: str, value: object) -> None:
    """Raise `BadSpec` if *value* is not what the port of this name has to be."""
    port, expected = PORTS[name]
    problem = None if value is None else why_unfit(value, port)
    if problem is not None:
        raise BadSpec(name, f"is {problem.rstrip(',')}; use {expected}")


def _check_deps(name: str, deps: object) -> None:
    """Raise `BadSpec` if *deps* are a function that cannot make dependencies."""
    if deps is None or not is_maker(deps):
        return
    what, kind = "a class" if isinstance(deps, type) else "a function", indirect(deps)
    if kind not in {"", ASYNC}:
        raise BadSpec(name, f"is {what} that is {kind}; {DEPS_WANTED}")
    if takes_session(cast("Callable[..., object]", deps)) is None:
        raise BadSpec(name, f"is {what} that needs other arguments; {DEPS_WANTED}")


def _check_user_data(name: str, value: object) -> None:
    """Raise `BadSpec` if *value* is no JSON."""
    _check_mapping(name, value)
    try:
        freeze_object(value)
    except NotJson as why:
        path, thing = why.args
        problem = (
            f"holds {thing} at {path}, and it is stored with the session as JSON; give live objects as "
            "`SessionSpec(deps=…)`, which is not stored"
        )
        raise BadSpec(name, problem) from None


def _check_paths(name: str, value: object) -> None:
    """Raise `BadSpec` if *value* is no list of paths."""
    _check_sequence(name, value)
    for path in cast("Sequence[object]", value):
        problem = why_no_path(path)
        if problem is not None:
            raise BadSpec(name, f"has {brief(path)}: {problem}")


async def answering(payload: Json) -> Json:  # noqa: ASYNC124 - it stands for what awaits something
    """Example of a service: the signature of each given service is compared with this one."""
    return payload


async def compacting(leaving: Leaving, ask: AskModel) -> str:  # noqa: ARG001, ASYNC124 - it stands for what uses them
    """Example of a compactor: the signature of a given one is compared with this one."""
    return ""


def _check_agents(agents: Mapping[str, SessionSpec], model: ModelChain, depth: int) -> None:
    """Raise `BadSpec` if one of *agents* cannot be a sub-agent; their own sub-agents too, down to the nesting limit."""
    for name, agent in agents.items() if depth else ():
        if not isinstance(cast("object", name), str) or NAME.fullmatch(name) is None:
            raise BadSpec("agents", f"have one called {name!r}; use 1 to 64 letters, digits, `_` and `-`")
        if not isinstance(cast("object", agent), SessionSpec):
            raise BadSpec("agents", f"have a `{type(agent).__name__}` under `{name}`; use a `SessionSpec`")
        if not agent.description.strip():
            raise BadSpec("agents", f"have `{name}` without a `description`, by which the model chooses; give it one")
        inherits = agent.but(model=agent.model or model)
        _check_alone(inherits)
        _check_handoffs(inherits)
        _check_agents(agent.agents, inherits.model, depth - 1)


def handoffs_of(spec: SessionSpec) -> Iterator[Handoff]:
    """Yield the handoffs of *spec*; raise `BadSpec` if one of them is none."""
    for item in cast("tuple[object, ...]", spec.handoffs):
        handoff = item if isinstance(item, Handoff) else Handoff(cast("SessionSpec | str", item))
        if not isinstance(cast("object", handoff.agent), SessionSpec | str):
            raise BadSpec("handoffs", f"have a `{type_name(handoff.agent)}`; use a `SessionSpec`, or the name of one")
        if handoff.history not in HISTORIES:
            choices = ", ".join(f"`{choice}`" for choice in HISTORIES)
            raise BadSpec("handoffs", f"have `history={brief(handoff.history)}`; use one of {choices}")
        yield handoff


def name_of(handoff: Handoff) -> str:
    """Return the name of the agent of *handoff*."""
    return handoff.agent if isinstance(handoff.agent, str) else handoff.agent.name


def agents_of(spec: SessionSpec) -> dict[str, SessionSpec]:
    """Return *spec* and all agents that its session may be handed over to, by name, *spec* first.

    Raise `BadSpec` if two of them have the same name, or a name is that of none.
    """
    agents = {spec.name: spec}
    if not spec.handoffs:
        return agents
    waiting, named = [spec], list[str]()
    while waiting:
        for handoff in handoffs_of(waiting.pop(0)):
            agent = handoff.agent
            if isinstance(agent, str):
                named.append(agent)
            elif agent.name not in agents:
                agents[agent.name] = agent
                waiting.append(agent)
            elif agents[agent.name] is not agent:
                raise BadSpec("handoffs", f"have two agents called {agent.name!r}; give each a `name` of its own")
    for name in named:
        if name not in agents:
            names = ", ".join(f"`{other}`" for other in agents if other)
            raise BadSpec("handoffs", f"name {name!r}, and no agent is called so; those there are: {names or 'none'}")
    return agents


def _check_handoffs(spec: SessionSpec) -> None:
    """Raise `BadSpec` if a session of *spec* cannot be handed over as its `handoffs` say."""
    if not spec.handoffs:
        return
    agents = agents_of(spec)
    for agent in agents.values():
        names = [name_of(handoff) for handoff in handoffs_of(agent)]
        for name in names:
            if name == agent.name or names.count(name) > 1:
                raise BadSpec(
                    "handoffs", f"of {agent.name!r} have {name!r} twice, or itself; name each other agent once"
                )
            _check_target(agents[name])
        if agent is not spec:
            _check_alone(agent.but(model=agent.model or spec.model, **_inherited(agent, spec)))


def _check_target(agent: SessionSpec) -> None:
    """Raise `BadSpec` if the model cannot be told of *agent*."""
    if HANDOFF_NAME.fullmatch(agent.name) is None:
        raise BadSpec("handoffs", f"have an agent called {agent.name!r}; use 1 to 52 letters, digits, `_` and `-`")
    if not agent.description.strip():
        raise BadSpec(
            "handoffs", f"have `{agent.name}` without a `description`, by which the model chooses; give it one"
        )


def _inherited(agent: SessionSpec, spec: SessionSpec) -> dict[str, object]:
    """Return the fields that *agent* has from *spec*; raise `BadSpec` if it brings what only a session can have."""
    if any(has_members(tool, ToolSource) for tool in agent.tools):
        problem = f"have `{agent.name}` with a source of tools; give that to the session, whose sources stay attached"
        raise BadSpec("handoffs", problem)
    defaults = defaults_of(SessionSpec)
    inherited: dict[str, object] = {}
    for field in SessionSpec.__struct_fields__:
        if field in OWN:
            continue
        agent_value, session_value = cast("object", getattr(agent, field)), cast("object", getattr(spec, field))
        is_same = agent_value is session_value or agent_value in (defaults[field], session_value)
        if field == "plugins":  # a host and the command line add some to those of the session
            is_same = all(plugin in spec.plugins for plugin in agent.plugins)
        if not is_same:
            problem = f"have `{agent.name}` with `{field}` of its own; give that to the session, which keeps it for all"
            raise BadSpec("handoffs", problem)
        inherited[field] = session_value
    return inherited


def _changed_options(spec: SessionSpec) -> dict[str, object]:
    """Return the fields of `Options` in *spec* that are not (by identity) the default, by name."""
    figures = FIGURES(spec)
    changed = tuple(map(is_not, figures, DEFAULT_FIGURES))
    return dict(zip(compress(Options.__struct_fields__, changed), compress(figures, changed), strict=True))


@lru_cache(maxsize=64)
def _share(options: Options) -> Options:
    """Return one shared object for all options equal to *options*, so that sessions keep them in memory once."""
    return options


def _check_model(value: object) -> None:
    """Raise `BadSpec` if *value* is no name of a model and no model."""
    if isinstance(value, str):
        if not value.strip():
            raise BadSpec("model", MISSING)
        return
    problem = why_no_model(value)
    if problem is not None:
        raise BadSpec("model", f"is {problem.rstrip(',')}; use {MODEL_WANTED}")


def _check_prices(name: str, value: object) -> None:
    """Raise `BadSpec` if *value* is neither a function nor a mapping of prices."""
    if callable(value):
        return
    if not isinstance(value, Mapping):
        raise BadSpec(name, f"is a `{type(value).__name__}`; use {PRICES_WANTED}")
    for price in cast("Mapping[object, object]", value).values():
        if not isinstance(price, Price):
            raise BadSpec(name, f"holds a `{type(price).__name__}`; use {PRICES_WANTED}")


def _check_text(name: str, value: object) -> None:
    """Raise `BadSpec` if *value* is no text that can be stored."""
    if type(value) is not str:
        raise BadSpec(name, f"is a `{type_name(value)}`; it must be text")
    if not value.isascii() and mended(value) != value:
        raise BadSpec(name, "has half a surrogate pair, which no file can hold; leave it out")


def _check_folder(name: str, value: object) -> None:
    """Raise `BadSpec` if *value* is no text that can name a folder."""
    _check_text(name, value)
    if "\0" in cast("str", value):
        raise BadSpec(name, "has a NUL character; give the path of a folder")


def _check_choice(name: str, value: object) -> None:
    """Raise an error if *value* is none of the choices that the field has."""
    if name == "prompt_mode" and value is None:
        return
    _check_text(name, value)
    choices = MODES if name == "prompt_mode" else CHOICES[name]
    if value not in choices:
        raise BadChoice.among(name, value, choices)


def _check_flag(name: str, value: object) -> None:
    """Raise `BadSpec` if *value* is not `True` or `False`."""
    if not isinstance(value, bool):
        raise BadSpec(name, f"is {brief(value)}; it must be True or False")


def _check_figure(name: str, value: object) -> None:
    """Raise `BadSpec` if *value*, a number in `Options`, has another type than its default, or is out of its limits."""
    default, least = getattr(DEFAULTS, name), AT_LEAST[name]
    is_whole = isinstance(default, int) or name == "context_window"
    plain = number(value)
    if plain is None or (is_whole and type(plain) is not int):
        raise BadSpec(name, f"is {brief(value)}; it must be a {'whole' if is_whole else 'finite'} number")
    if plain < least:
        raise BadSpec(name, f"is {brief(plain)}; it must be at least {least}")
    if name not in TIMES and plain > MOST:
        raise BadSpec(name, f"is {brief(plain)}; it must be at most {MOST}")


def _normalize(name: str, value: object) -> object:
    """Return a field of `Options` as it is stored: numbers as plain numbers, times cut to ten years."""
    plain = number(value)
    if plain is None:
        return value
    return min(plain, TEN_YEARS) if name in TIMES else plain


NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Pattern of the names that a sub-agent may have."""

HANDOFF_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,52}")
"""Pattern of the names of agents: with `transfer_to_` before it, each is the name of a tool."""

HISTORIES: Final = ("all", "turn", "summary")

OWN: Final = frozenset({"description", "handoffs", "model", "model_options", "name", "returns", "system", "tools"})
"""Fields of a specification that a handoff brings with it. All others are the session's own, and stay."""


DEFAULTS = Options()

FIGURES: Final = cast("Callable[[Options], tuple[object, ...]]", attrgetter(*Options.__struct_fields__))
"""Function that returns the fields of `Options` as a tuple, in their order."""

DEFAULT_FIGURES: Final = FIGURES(DEFAULTS)

PORTS: Final[Mapping[str, tuple[type[object], str]]] = {
    "sandbox": (Sandbox, "a sandbox, such as `LocalSandbox(folder)`, or None"),
    "web": (Web, "an object with `async def fetch(self, url, *, timeout, raw=False)`, or None"),
}
"""The ports that a specification may hold, each with the protocol and what to give."""

SERVICE_WANTED: Final = "an `async def` of one argument, the payload"

DEPS_WANTED: Final = "use an object, a class without arguments, or a function that takes nothing or a `DepsWanted`"

COMPACTOR_WANTED: Final = "an `async def` of two arguments: a `Leaving`, and a function that asks the model"

PRICES_WANTED = "a `Price` for each name of a model, or a function of the name and the usage"

MISSING = 'is missing; use model="demo" to try things out without a key'

AT_LEAST: Mapping[str, float] = {
    "max_rounds": 1,
    "max_turn_seconds": 0,
    "max_prompt_queue": 0,
    "max_steering_queue": 0,
    "max_interventions": 0,
    "stall_timeout": 0.001,
    "stall_limit": 1,
    "max_retries": 0,
    "retry_base": 0,
    "fallback_after": 1,
    "tool_max_retries": 0,
    "answer_max_retries": 0,
    "max_parallel_tools": 1,
    "repeat_pattern": 2,
    "file_loop_warn": 1,
    "file_loop_abort": 1,
    "context_window": 1,
    "compact_at": 0,
    "compact_to": 0,
    "max_agents": 0,
    "max_agent_depth": 0,
    "max_agent_seconds": 0.001,
    "event_buffer_size": 0,
    "hibernate_after": 0.001,
    "shutdown": 0,
}
"""The smallest allowed value of each number in `Options`."""

MOST: Final = 2**53
"""The largest allowed value of a number in `Options` that is no time."""

FIELDS: Final = cast("Callable[[SessionSpec], tuple[object, ...]]", attrgetter(*SessionSpec.__struct_fields__))
"""Function that returns the fields of a specification as a tuple, in their order."""

DEFAULT_FIELDS: Final = FIELDS(SessionSpec())

CHECKS: Final[Mapping[str, Callable[[str, object], None]]] = {
    **dict.fromkeys(("tools", "plugins", "shadow", "handoffs"), _check_sequence),
    **dict.fromkeys(("agents", "model_options"), _check_mapping),
    "user_data": _check_user_data,
    **dict.fromkeys(("skills", "memory"), _check_paths),
    "services": _check_services,
    "compactor": _check_compactor,
    "deps": _check_deps,
    **dict.fromkeys(PORTS, _check_port),
    "prices": _check_prices,
    **dict.fromkeys(("inline_tags", "environment"), _check_flag),
    **dict.fromkeys(("name", "system", "description"), _check_text),
    "working_dir": _check_folder,
    **dict.fromkeys(AT_LEAST, _check_figure),
    **dict.fromkeys(("prompt_mode", *CHOICES), _check_choice),
}
"""What is checked of each field that is not the default."""

LOOKED_INTO: Final = cast(
    "Callable[[SessionSpec], tuple[object, ...]]",
    attrgetter(
        *("agents", "handoffs", "memory", "model_options", "prices", "returns", "services", "skills", "user_data")
    ),
)
"""Function that returns the fields of a specification whose items are checked too, which a program may change."""

DEFAULT_LOOKED_INTO: Final = LOOKED_INTO(SessionSpec())

SPEC_WANTED: Final = "a `SessionSpec`"


def check_spec(spec: object) -> None:
    """Raise `WrongType` if *spec* is no `SessionSpec`, and `BadSpec` if it is invalid."""
    if not isinstance(spec, SessionSpec):
        raise WrongType.of("spec", spec, SPEC_WANTED)
    spec.check()


class SpecWanted(Authored):
    """A stored session whose specification is wanted; passed to a function in `specs` that takes an argument."""

    session_id: str
    """Id of the session."""
    name: str
    """Name of its specification."""
    tenant: str
    """Tenant of the session."""
    owner: str
    """Owner of the session."""
    user_data: JsonObject
    """User data of the specification that it was spawned with."""
    state: State
    """The session's state, as its records have it."""


Built: TypeAlias = SessionSpec | Awaitable[SessionSpec]

Specs: TypeAlias = Mapping[str, Callable[[], Built] | Callable[[SpecWanted], Built]] | Callable[[SpecWanted], Built]
"""Functions that build specifications, by the name of the specification; async or not. Or one function for any name.

A function that needs an argument is told of the session: see `SpecWanted`.
"""
