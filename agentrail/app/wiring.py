"""Putting the parts together: what all sessions share, and what each is given."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import trio

from agentrail.adapters.journals.memory import MemoryJournal
from agentrail.app.chain import chain_of, is_model
from agentrail.app.models import Factory, Models, check_options
from agentrail.app.pricing import PriceList
from agentrail.app.spec import MODEL_WANTED, SessionSpec
from agentrail.core.compacting import drop_oldest_rounds
from agentrail.core.sent import SwitchModelSent
from agentrail.core.state import Attached, Setup, Spare, State
from agentrail.core.supervising import Policy
from agentrail.errors import AgentrailError, BadSpec, ModelExists, ToolExists, WrongType
from agentrail.hooks.live import Live, Validator
from agentrail.hooks.pipeline import ModelCheck
from agentrail.hooks.seats import in_order, refuse_twins, seat_for, unkeyed
from agentrail.ports.journal import Journal
from agentrail.ports.model import Compacted, Model, ModelChain
from agentrail.ports.sandbox import Sandbox
from agentrail.ports.source import ToolSource
from agentrail.ports.tool import Tool
from agentrail.ports.web import Web
from agentrail.runtime.gate import Gate
from agentrail.runtime.handle import SessionHandle
from agentrail.runtime.node import Node, Tree
from agentrail.runtime.parts import House, Outfit, Surroundings
from agentrail.runtime.session import Session
from agentrail.runtime.supervisor import Sessions
from agentrail.tools import as_tool, validator_for
from agentrail.values.json import JsonObject, freeze_object
from agentrail.values.limits import Limit
from agentrail.values.messages import Message


def wired(
    nursery: trio.Nursery,
    policy: Policy,
    journal: Journal | None,
    models: Mapping[str, Factory],
    secrets: Callable[[str], str | None] | None,
    seed: int | None,
    gate_width: float | None,
    limits: Mapping[str, Limit],
) -> Sessions:
    """Return the sessions of a new supervisor, with the tasks that they share already running."""
    registry = Models(models, secrets)
    registry.check_limited(limits)
    house = House(
        nursery=nursery,
        journal=MemoryJournal() if journal is None else journal,
        model=registry,
        compactor=_compact,
        gate=Gate() if gate_width is None else Gate(gate_width),
        limits=limits,
        random_=random.Random(seed),  # noqa: S311 - jitter, no secrets
    )
    house.watchdog.start()
    nursery.start_soon(house.timers.run)
    nursery.start_soon(house.gate.run)
    nursery.start_soon(registry.run)
    return Sessions(Node(Tree(house), policy), wrap)


def wrap(session: Session) -> SessionHandle:
    """Return a handle of *session*."""
    return SessionHandle(session, as_tool, _switched)


def outfitted(session_id: str, spec: SessionSpec, known: Callable[[str], Model]) -> tuple[State, Outfit]:
    """Return the state that a session begins with, and its code."""
    own: dict[str, Model] = {}
    prices = PriceList(spec.prices)
    judge = Live(_storable, _model_check(own, known), prices.knows)
    keyed = [unkeyed(given) for given in spec.plugins]
    refuse_twins([key for key, _ in keyed])
    seats = tuple(seat_for(key, plugin) for key, plugin in keyed)
    order = in_order(seats)
    for seat, (key, plugin) in zip(seats, keyed, strict=True):
        judge.seat(key, seat.revision, plugin)
    tools = _tools(spec)
    outfit = Outfit(judge, tools, own, spec.services, _surroundings(spec), _validator, prices, _sources(spec))
    for (name, revision), tool in tools.items():
        judge.tool(name, revision, _validator(tool))
    chosen = _chosen(outfit, known, spec.model, freeze_object(spec.model_options))
    state = State(
        session_id,
        Setup(
            spec.system,
            spec.options,
            spec.working_dir,
            freeze_object(spec.user_data),
            spec.prompt_mode,
        ),
        chosen.model,
        chosen.options,
        tools={name: Attached(tool.spec, 0) for (name, _), tool in tools.items()},
        seats=tuple(seats[place] for place in order),
        spares=chosen.spares,
        priced=chosen.priced,
    )
    return state, outfit


def _surroundings(spec: SessionSpec) -> Surroundings:
    """Return where the tools work."""
    return Surroundings(spec.sandbox, spec.web, spec.working_dir, _local_sandbox, _httpx_web)


def _local_sandbox(working_dir: str) -> Sandbox:
    from agentrail.adapters.sandboxes.local import LocalSandbox  # noqa: PLC0415 - a session without tools needs none

    return LocalSandbox(working_dir)


def _httpx_web() -> Web:
    from agentrail.adapters.web import HttpxWeb  # noqa: PLC0415 - see above

    return HttpxWeb()


def _tools(spec: SessionSpec) -> dict[tuple[str, int], Tool]:
    tools: dict[tuple[str, int], Tool] = {}
    for given in spec.tools:
        if isinstance(given, ToolSource):
            continue
        tool = as_tool(given)
        if (tool.spec.name, 0) in tools:
            raise ToolExists(tool.spec.name)
        tools[tool.spec.name, 0] = tool
    return tools


def _sources(spec: SessionSpec) -> tuple[ToolSource, ...]:
    found: dict[str, ToolSource] = {}
    for given in spec.tools:
        if isinstance(given, ToolSource):
            given.check()
            if found.setdefault(given.name, given) is not given:
                raise BadSpec("tools", f"have two sources called `{given.name}`; give each a `name` of its own")
    return tuple(found.values())


def _own_model(outfit: Outfit, model: str | Model) -> str:
    if isinstance(model, str):
        return model
    if not is_model(model):
        raise WrongType.of("model", model, MODEL_WANTED)
    if outfit.models.setdefault(model.name, model) is not model:
        raise ModelExists(model.name)
    return model.name


def _model_check(own: Mapping[str, Model], known: Callable[[str], Model]) -> ModelCheck:
    """Return what says why a plugin cannot choose a model with such options; one that it can is made at once."""

    def why_not(name: str, options: JsonObject) -> str | None:
        try:
            check_options(own.get(name) or known(name), options)
        except AgentrailError as error:
            return str(error)
        return None

    return why_not


def _chosen(outfit: Outfit, known: Callable[[str], Model], model: ModelChain, options: JsonObject) -> SwitchModelSent:
    """Return the choice of a chain, after making sure that there are such models and that they take their options."""
    links: list[Spare] = []
    for link, own_options in chain_of(model, options):
        name = _own_model(outfit, link)
        check_options(outfit.models.get(name) or known(name), own_options)
        links.append(Spare(name, own_options))
    if not links:
        raise WrongType.of("model", model, MODEL_WANTED)
    first, *spares = links
    priced = frozenset(link.model for link in links if outfit.prices.knows(link.model, link.options))
    return SwitchModelSent(first.model, first.options, tuple(spares), priced)


def _switched(session: Session, model: ModelChain, options: JsonObject) -> SwitchModelSent:
    return _chosen(session.outfit, session.house.model, model, options)


def _validator(tool: Tool) -> Validator:
    """Return what checks arguments of *tool*; it is made when the first arguments come."""
    made: list[Validator] = []

    def check(args: JsonObject) -> str | None:
        if not made:
            made.append(validator_for(tool.spec))
        return made[0](args)

    return check


def _storable(state: object) -> str | None:
    if state is None:
        return None
    from agentrail.codec import storable  # noqa: PLC0415 - a session whose plugins have no state need not pay for it

    return storable(state)


async def _compact(messages: Sequence[Message], keep: int) -> Compacted:
    await trio.lowlevel.checkpoint()
    return Compacted(*drop_oldest_rounds(messages, keep))
