"""`open_supervisor`: from here on, sessions live and die under one roof."""

from __future__ import annotations

import random
import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager

import trio

from agentrail.adapters.files import TextFiles
from agentrail.adapters.journals.memory import MemoryJournal
from agentrail.app.models import Factory, Models
from agentrail.app.spec import SessionSpec
from agentrail.core.compacting import drop_oldest_rounds
from agentrail.core.state import Attached, Setup, State
from agentrail.hooks.live import Live, Validator
from agentrail.hooks.seats import in_order, refuse_twins, seat_for, unkeyed
from agentrail.ports.journal import Journal
from agentrail.ports.model import Compacted, Model
from agentrail.ports.tool import Tool
from agentrail.runtime.gate import WIDTH, Gate
from agentrail.runtime.handle import SessionHandle
from agentrail.runtime.parts import House, Outfit
from agentrail.runtime.session import Session
from agentrail.runtime.supervisor import Sessions
from agentrail.tools import as_tool, validator_for
from agentrail.values.json import freeze_object
from agentrail.values.messages import Message

SIMPLE = (type(None), bool, int, str)


class Supervisor:
    """Spawns sessions, knows them by their ids, and ends them all when it ends."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def spawn(self, spec: SessionSpec, id: str | None = None) -> SessionHandle:  # noqa: A002 - what users call it
        """Start a session and return its handle; raise why it does not start."""
        spec.check()
        session_id = f"s-{secrets.token_hex(16)}" if id is None else id
        state, outfit = outfitted(session_id, spec, self._sessions.house.model)
        return await self._sessions.start(state, outfit)

    def session(self, id: str) -> SessionHandle:  # noqa: A002 - what users call it
        """Return the handle of a session that is here."""
        return self._sessions.handle(id)

    def sessions(self) -> tuple[SessionHandle, ...]:
        """Return the handles of all sessions, in the order they were started."""
        return self._sessions.handles()


@asynccontextmanager
async def open_supervisor(
    *,
    journal: Journal | None = None,
    models: Mapping[str, Factory] | None = None,
    seed: int | None = None,
    gate_width: float = WIDTH,
) -> AsyncGenerator[Supervisor, None]:
    """Open a supervisor; leaving the `async with` stops everything under it, the youngest first."""
    try:
        async with trio.open_nursery() as nursery:  # noqa: TID251 - the one nursery that everything hangs in
            house = House(
                nursery=nursery,
                journal=MemoryJournal() if journal is None else journal,
                model=Models(models or {}),
                compactor=_compact,
                gate=Gate(gate_width),
                random_=random.Random(seed),  # noqa: S311 - jitter, no secrets
            )
            nursery.start_soon(house.timers.run)
            nursery.start_soon(house.gate.run)
            sessions = Sessions(house, wrap)
            try:
                yield Supervisor(sessions)
            finally:
                with trio.CancelScope(shield=True):
                    await sessions.close()
    except BaseExceptionGroup as group:
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from group.exceptions[0].__cause__
        raise


def wrap(session: Session) -> SessionHandle:
    """Return a handle of *session*."""
    return SessionHandle(session, as_tool, _model_name)


def outfitted(session_id: str, spec: SessionSpec, known: object) -> tuple[State, Outfit]:
    """Return the state that a session begins with, and its code."""
    judge = Live(_storable)
    keyed = [unkeyed(given) for given in spec.plugins]
    refuse_twins([key for key, _ in keyed])
    seats = tuple(seat_for(key, plugin) for key, plugin in keyed)
    order = in_order(seats)
    for seat, (key, plugin) in zip(seats, keyed, strict=True):
        judge.seat(key, seat.revision, plugin)
    tools = {(tool.spec.name, 0): tool for tool in (as_tool(given) for given in spec.tools)}
    outfit = Outfit(judge, tools, {}, spec.services, TextFiles(spec.working_dir), _validator)
    for (name, revision), tool in tools.items():
        judge.tool(name, revision, _validator(tool))
    model = _own_model(outfit, spec.model)
    if isinstance(spec.model, str) and callable(known):
        known(model)
    state = State(
        session_id,
        Setup(
            spec.system,
            spec.options,
            spec.working_dir,
            freeze_object(spec.user_data),
            spec.prompt_mode,
        ),
        model,
        freeze_object(spec.model_options),
        tools={name: Attached(tool.spec, 0) for (name, _), tool in tools.items()},
        seats=tuple(seats[place] for place in order),
    )
    return state, outfit


def _own_model(outfit: Outfit, model: str | Model) -> str:
    if isinstance(model, str):
        return model
    outfit.models[model.name] = model
    return model.name


def _model_name(session: Session, model: str | Model) -> str:
    """Return the name of *model*, after making sure that there is such a model."""
    name = _own_model(session.outfit, model)
    session.performer.model(name)
    return name


def _validator(tool: Tool) -> Validator:
    """Return what checks arguments of *tool*; it is made when the first arguments come."""
    made: list[Validator] = []

    def check(args: object) -> str | None:
        if not made:
            made.append(validator_for(tool.spec))
        return made[0](freeze_object(args))

    return check


def _storable(state: object) -> str | None:
    if isinstance(state, SIMPLE):
        return None
    from agentrail.codec import storable  # noqa: PLC0415 - most sessions have no such state

    return storable(state)


async def _compact(messages: Sequence[Message], keep: int) -> Compacted:
    await trio.lowlevel.checkpoint()
    return Compacted(*drop_oldest_rounds(messages, keep))
