"""Connects the parts: builds the objects that all sessions of a supervisor share, and each session's state and code.

Also checks what is handed to `open_supervisor`, and makes the other children of a supervisor, services and supervisors.
"""

from __future__ import annotations

import math
import os
import random
import secrets as random_texts
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, cast

import trio

from agentrail.adapters.journals.memory import ForgettingJournal
from agentrail.api.command_checks import choice_of, looking_at
from agentrail.app.model_registry import Factory, Models
from agentrail.app.preimport import bring
from agentrail.app.session_code import (
    SPECS_WANTED,
    LateValidator,
    agent_tools,
    attachments,
    brought_by,
    build_spec,
    check_builder,
    chosen,
    compactor_here,
    deps_here,
    environment_told,
    files_of,
    hook_runner_for,
    prices_of,
    refuse_misnamed,
    refuse_missing_folder,
    shadow_of,
    sources_of,
    surroundings,
    take_agents,
    take_tools,
    tool_here,
    tools_of_all,
)
from agentrail.app.spec import SessionSpec, Specs, schema_of, stored_name
from agentrail.app.subagent_code import subagent_codes
from agentrail.core.supervision_rules import STRATEGIES, ChildFacts, Policy
from agentrail.core.vocabulary.commands import SwitchModelSent
from agentrail.core.vocabulary.state import NO_TOOLS, AttachedTool, Setup, State
from agentrail.errors import BadChoice, UsageError, WrongType
from agentrail.hooks.attachments import attached_plugin, in_order, refuse_unknown_models
from agentrail.hooks.plugin_checks import ASYNC, indirect
from agentrail.ports.instrumentation import Telemetry
from agentrail.ports.journal import Journal, Retention
from agentrail.ports.model import Model, ModelChain
from agentrail.ports.protocol_checks import why_unfit, why_unfit_call
from agentrail.runtime.actor.session import Session
from agentrail.runtime.diagnosis.journal_contract import held_to_contract
from agentrail.runtime.handle import SessionHandle
from agentrail.runtime.resources import (
    NO_TOOL_CODE,
    FindCode,
    FoundCode,
    SessionCode,
    SharedServices,
    SharedSurroundings,
)
from agentrail.runtime.shared import collector
from agentrail.runtime.shared.admission import Gate
from agentrail.runtime.shared.code_loops import bind_function, bind_functions
from agentrail.runtime.shared.leases import RENEWALS, Leases
from agentrail.runtime.shared.slots import OwnSlots, Slots
from agentrail.runtime.supervision.children import Child, ServiceFunction, ServiceRunner
from agentrail.runtime.supervision.sessions import Sessions
from agentrail.runtime.supervision.supervisor import SupervisorNode
from agentrail.runtime.supervision.tree import Tree
from agentrail.values.json import JsonObject, freeze_object
from agentrail.values.untrusted_values import as_seconds, brief, number, type_name
from agentrail.values.usage import Limit

JOURNAL_WANTED: Final = "an object with the methods of `agentrail.journals.Journal`, such as `SqliteJournal(path)`"
TELEMETRY_WANTED: Final = "an object that can watch a supervisor, such as `agentrail.telemetry.OpenTelemetry()`"
MODELS_WANTED: Final = "a plain function, or a class, that takes the text after the colon and returns a `Model`"
SECRETS_WANTED: Final = "a plain function of the name of a secret, which returns it or None"
NEEDS_JOURNAL: Final = "False, or give the supervisor the `journal` that the others have too"
SERVICE_WANTED: Final = "an `async def` without arguments, or with `*, task_status` alone"

MAX_RESTARTS: Final = 2**31
"""The largest number of restarts, and of sessions admitted at once; larger arguments are cut to it."""

MIN_LEASE: Final = 0.1
"""The least seconds that a lease may last: it is renewed three times in that."""


def check_journal(value: object) -> None:
    """Raise `WrongType` if *value* is neither a journal nor `None`."""
    with looking_at("journal", value):
        problem = None if value is None else why_unfit(value, Journal)
    if problem is not None:
        raise WrongType("journal", problem, JOURNAL_WANTED)


def check_telemetry(value: object) -> None:
    """Raise `WrongType` if *value* is neither `None` nor can watch a supervisor."""
    with looking_at("telemetry", value):
        problem = None if value is None else why_unfit(value, Telemetry)
    if problem is not None:
        raise WrongType("telemetry", problem, TELEMETRY_WANTED)


def check_secrets(value: object) -> None:
    """Raise `WrongType` if *value* is neither a plain function nor `None`."""
    if value is not None and not _is_plain(value):
        raise WrongType("secrets", _describe(value), SECRETS_WANTED)


def check_models(value: object) -> None:
    """Raise `WrongType` if *value* is neither `None` nor a mapping from parts of names to factories of models."""
    for name, factory in _named_entries("models", value, MODELS_WANTED):
        if not _is_plain(factory):
            raise WrongType("models", f"{_describe(factory)} under {name!r}", MODELS_WANTED)
        if ":" in name:
            raise WrongType("models", f"the name {name!r}", "the part of the models' names before the colon")


def check_specs(value: object) -> None:
    """Raise `WrongType` if *value* is neither `None`, a builder of specifications, nor a mapping to them."""
    if callable(value):
        check_builder("any name", value)
        return
    for name, build in _named_entries("specs", value, SPECS_WANTED):
        check_builder(name, build)


def check_retain(value: object) -> None:
    """Raise `WrongType` if *value* is no list or tuple of `Retention`."""
    if not _are_retentions(value):
        raise WrongType("retain", brief(value), "a list of `agentrail.journals.Retention`, such as `[Retention(30)]`")


def _are_retentions(value: object) -> bool:
    return isinstance(value, Sequence) and all(type(item) is Retention for item in cast("Sequence[object]", value))


def check_service(value: object) -> None:
    """Raise an error if *value* is no async function that can be run here, without arguments or with `task_status`."""
    if why_unfit_call(value, _bare) is not None and why_unfit_call(value, _with_status) is not None:
        takes_others = callable(value) and indirect(value) == ASYNC
        raise WrongType(
            "service", "a function that needs arguments" if takes_others else _describe(value), SERVICE_WANTED
        )


async def _bare() -> None:
    """Example of a service function without arguments; the signature of a given one is compared with this one."""


async def _with_status(*, task_status: object) -> None:
    """Example of a service function with `task_status`; the signature of a given one is compared with this one."""


def _named_entries(argument: str, mapping: object, expected: str) -> Iterator[tuple[str, object]]:
    """Yield the entries of *mapping*, name and value; raise `WrongType` if it is no mapping with names as keys."""
    if mapping is None:
        return
    if not isinstance(mapping, Mapping):
        raise WrongType.of(argument, mapping, f"a mapping: for each name {expected}")
    for name, item in cast("Mapping[object, object]", mapping).items():
        if not isinstance(name, str):
            raise WrongType(argument, f"the name {name!r}", "a text as the name")
        yield name, item


def _is_plain(value: object) -> bool:
    """Whether *value* can be called and returns its result directly (not async, no generator)."""
    return callable(value) and not indirect(value)


def _describe(value: object) -> str:
    """Return words for *value* in an error: the kind of function, or its type."""
    kind = indirect(value) if callable(value) else ""
    return f"a function that is {kind}" if kind else f"a `{type_name(value)}`"


def policy(strategy: str, max_restarts: int, period: float) -> Policy:
    """Return the restart policy of a supervisor; raise an error for an invalid argument."""
    strategy = choice_of("strategy", strategy, STRATEGIES)
    restarts, within = number(max_restarts), as_seconds(period)
    if type(restarts) is not int or restarts < 0 or not within:
        raise UsageError("bad-supervisor", brief(max_restarts), brief(period))
    return Policy(strategy, min(restarts, MAX_RESTARTS), within)


def service(run: ServiceFunction, name: str, restart: str, shutdown: float, start_timeout: float) -> Child:
    """Return the `Child` record with which a supervisor runs the service *run*."""
    times = (time_of("shutdown", shutdown), time_of("start_timeout", start_timeout))
    return Child(ServiceRunner(bind_function(run)), ChildFacts(name, restart), *times)


def time_of(name: str, value: object) -> float:
    """Return *value*, the argument *name*, as seconds, cut to ten years; raise `WrongType` if it is no time."""
    plain = as_seconds(value)
    if plain is None:
        raise WrongType(name, brief(value), "seconds, 0 or more")
    return plain


def width_of(value: object) -> float:
    """Return *value* as the number of sessions admitted per pass of the scheduler, or raise `WrongType`."""
    if type(value) is float and value == math.inf:
        return math.inf
    plain = number(value)
    if plain is None or plain < 1:
        raise WrongType("gate_width", brief(value), "a number from 1 on, or `math.inf`")
    return min(plain, MAX_RESTARTS)


class JournalChoice(NamedTuple):
    """The journal that a user gave to a supervisor, and how the supervisor claims sessions in it."""

    journal: Journal
    """The journal."""
    address: str
    """Where others find the supervisor."""
    lease: int
    """For how many milliseconds a claim keeps others away, unless it is renewed."""
    cluster: bool | frozenset[int]
    """Whether other supervisors work on the journal at the same time, so that each looks after its slots: which."""


def storage(
    journal: Journal | None, address: object, lease: object, *, cluster: bool | frozenset[int]
) -> JournalChoice | None:
    """Check the arguments of `open_supervisor` about its journal and return them; `None` if it has no journal.

    Without an *address*, one is made of host name, process id and a random text.
    """
    check_journal(journal)
    if address is None:
        address = f"{socket.gethostname()}/{os.getpid()}/{random_texts.token_hex(4)}"
    if not isinstance(address, str) or not address:
        raise WrongType.of("address", address, "a text by which others find this supervisor")
    plain = as_seconds(lease)
    if plain is None or plain < MIN_LEASE:
        raise WrongType("lease", brief(lease), f"seconds, from {MIN_LEASE} on")
    if journal is None:
        if cluster is not False:
            raise BadChoice("cluster", cluster, NEEDS_JOURNAL)
        return None
    return JournalChoice(journal, address, int(plain * 1000), cluster)


def supervisor(above: SupervisorNode, name: str, policy: Policy, restart: str) -> tuple[SupervisorNode, Child]:
    """Return a new supervisor, and the `Child` record with which its parent *above* runs it."""
    node = SupervisorNode(above.tree, policy, (*above.path, name))
    return node, Child(node, ChildFacts(name, restart), math.inf)


def build_sessions(
    nursery: trio.Nursery,
    policy: Policy,
    storage: JournalChoice | None,
    models: Mapping[str, Factory],
    secrets: Callable[[str], str | None] | None,
    seed: int | None,
    gate_width: float | None,
    limits: Mapping[str, Limit],
) -> Sessions:
    """Return the `Sessions` of a new supervisor; start the tasks that all sessions share in *nursery*."""
    registry = Models(models, secrets)
    registry.check_limited(limits)
    forgetting = ForgettingJournal()
    journal = forgetting if storage is None else storage.journal
    shared = SharedServices(
        nursery=nursery,
        journal=forgetting if storage is None else held_to_contract(journal),
        forget=forgetting.forget if storage is None else None,
        model=registry,
        gate=Gate() if gate_width is None else Gate(width_of(gate_width)),
        limits=limits,
        random_=random.Random(seed),  # noqa: S311 - used for random delays, not for secrets
    )
    tree = Tree(shared)
    if storage is not None:
        shared.leases = Leases(shared.journal, shared.timers, storage.address, storage.lease)
        if isinstance(storage.cluster, frozenset):
            shared.slots = OwnSlots(storage.cluster)
        elif storage.cluster:
            shared.slots = Slots(shared.leases, storage.lease / 1000 / RENEWALS)
            nursery.start_soon(shared.slots.run)
    shared.watchdog.start(shared.threads.working)
    collector.count(tree.sessions)
    nursery.start_soon(shared.timers.run)
    nursery.start_soon(shared.gate.run)
    nursery.start_soon(shared.hearing.run)
    nursery.start_soon(registry.run)
    nursery.start_soon(shared.leases.run)
    return Sessions(SupervisorNode(tree, policy), wrap)


def wrap(session: Session) -> SessionHandle:
    """Return a handle of *session*."""
    return SessionHandle(session, tool_here, _switch_to)


class Builder:
    """Makes the state and code of new sub-agents, and finds the code of stored ones; passed down as `Build`."""

    def __init__(self, model_of: Callable[[str], Model]) -> None:
        self._known = model_of

    def new(
        self, child: str, spec: SessionSpec, path: tuple[str, ...], shared: SharedSurroundings | None
    ) -> tuple[State, SessionCode]:
        """Return the first state and the code of a new session; *shared*: the surroundings of its parent's tools."""
        return new_session(child, spec, self._known, path, shared)

    def finder(self, spec: SessionSpec) -> FindCode:
        """Return a function that finds the code of a stored session from *spec*."""
        from agentrail.app.session_code import match_code  # noqa: PLC0415 - it imports the codec, which only resumed sessions need

        async def find(stored: State, records: int) -> FoundCode:  # noqa: ASYNC124 - async as `FindCode` wants it; other finders await a function of the user
            """Return the code of the session *stored*, made from *spec*."""
            return match_code(stored, records, spec, self._known, self, pause=False)

        return find


def new_session(
    session_id: str,
    spec: SessionSpec,
    model_of: Callable[[str], Model],
    path: tuple[str, ...] = (),
    shared: SharedSurroundings | None = None,
) -> tuple[State, SessionCode]:
    """Return the first state and the code of a new session; *shared* are sandbox and web of a sub-agent's parent."""
    own_models: dict[str, Model] = {}
    prices = prices_of(spec)
    hook_runner = hook_runner_for(spec, own_models, model_of, prices)
    keyed = attachments(spec)
    if not path:  # the specifications of sub-agents were checked with that of their top-level parent
        refuse_misnamed(spec)
        refuse_missing_folder(spec)
    attached_plugins = tuple(attached_plugin(key, plugin) for key, plugin in keyed)
    for attached, (key, plugin) in zip(attached_plugins, keyed, strict=True):
        hook_runner.attach(key, attached.revision, plugin)
    around = surroundings(spec, spec.working_dir) if shared is None else shared
    agents = subagent_codes(spec, Builder(model_of))
    services = bind_functions(spec.services)
    code = SessionCode(
        hook_runner, NO_TOOL_CODE, own_models, services, around, LateValidator, prices, sources_of(spec), agents
    )
    code.compactor, code.shadow = compactor_here(spec), shadow_of(spec)
    code.section_files = files_of(spec, around)
    first = chosen(code, model_of, spec.model, freeze_object(spec.model_options))
    desks = agent_tools(code, spec, model_of, 0)
    tools, all_tools = desks[spec.name].tools, tools_of_all(desks)
    bring(spec, all_tools.values())
    code.environment = environment_told(spec, all_tools)
    brought = brought_by((p for _, p in keyed), all_tools)
    code.deps = deps_here(spec, (*all_tools.values(), *brought.values()))
    take_tools(code, {(name, 0): tool for name, tool in brought.items()})
    take_agents(code, desks)
    for key, plugin in keyed:
        refuse_unknown_models(key, plugin, hook_runner.why_no_model)
    state = State(
        session_id,
        _setup(spec, path, tuple(agents)),
        first.model,
        first.options,
        tools={name: AttachedTool(tool.spec, 0) for name, tool in tools.items()} or NO_TOOLS,
        plugins=tuple(attached_plugins[index] for index in in_order(attached_plugins)),
        fallbacks=first.spares,
        priced_models=first.priced,
    )
    return state, code


def _setup(spec: SessionSpec, path: tuple[str, ...], agents: tuple[str, ...]) -> Setup:
    """Return the constant part of a new session's state; *path* is empty unless it is a sub-agent."""
    return Setup(
        spec.system,
        spec.options,
        spec.working_dir,
        freeze_object(spec.user_data),
        spec.prompt_mode or ("task" if path and not spec.skills and not spec.memory else "full"),
        path=path,
        agents=agents,
        spec=stored_name(spec),
        returns=schema_of(spec),
        agent="" if spec.name == stored_name(spec) else spec.name,
    )


def _switch_to(session: Session, model: ModelChain, options: JsonObject) -> SwitchModelSent:
    """Return the input that switches *session* to the models *model*; raise an error if one cannot be used."""
    return chosen(session.code, session.shared.model, model, options)


class StoredCode:
    """Finds the code for a stored session that is resumed, forked or woken from hibernation; sessions may share one."""

    __slots__ = ("__weakref__", "_pause", "_sessions", "_specs", "spec")

    def __init__(self, sessions: Sessions, specs: Specs, spec: SessionSpec | None, *, pause: bool = False) -> None:
        self._sessions = sessions
        self._specs = specs
        self.spec = spec
        self._pause = pause

    async def __call__(self, stored: State, records: int) -> FoundCode:
        """Return the stored state with its code; see `FindCode`."""
        spec = await build_spec(self._specs, stored) if self.spec is None else self.spec
        model_of = self._sessions.shared.model
        from agentrail.app.session_code import match_code  # noqa: PLC0415 - it imports the codec

        return match_code(stored, records, spec, model_of, Builder(model_of), pause=self._pause)
