"""What a user hands in is looked at where it is handed in: journals, models, sandboxes, services, ids."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from agentrail import SessionSpec, open_supervisor
from agentrail.errors import BadChoice, BadSpec, NotOpened, SessionNotStored, UsageError, WrongType
from agentrail.journals import NO_LEASE, Journal, Lease, MemoryJournal, SessionFilter
from agentrail.models import EmitChunk, ModelRequest, Response
from agentrail.ports.journal import SLOTS, slot_of
from agentrail.ports.protocol_checks import why_unfit
from agentrail.sandboxes import MemorySandbox
from agentrail.testing import ScriptedModel, say
from agentrail.tools import tool
from tests.runtime.world import World, spec_of


class Few:
    async def claim(
        self, session_id: str, holder: str, lease: Lease = NO_LEASE, *, take_over: bool | str = False
    ) -> None:
        """One method of many."""


class Sync(MemoryJournal):
    def claim(self, session_id: str, holder: str) -> object:  # type: ignore[override]  # that is the mistake
        return 5


class Short(MemoryJournal):
    async def append(self, claim: object) -> int:  # type: ignore[override]  # that is the mistake
        return 5


class Held(MemoryJournal):
    append = 5  # type: ignore[assignment]  # that is the mistake


JOURNALS: dict[str, tuple[object, str]] = {
    "path": ("x.db", r"a `str`, which has no method `claim`, as `journal`; give .* such as `SqliteJournal\(path\)`"),
    "class": (MemoryJournal, "the class `MemoryJournal`, and no object of it, as `journal`"),
    "few methods": (Few(), "a `Few`, which has no method `renew`, as `journal`"),
    "sync": (Sync(), r"whose `claim` is no `async def claim\(self, session_id, holder, lease="),
    "other arguments": (Short(), r"whose `append` is no `async def append\(self, claim, expected, records\)`"),
    "no method": (Held(), "which has no method `append`"),
}


@pytest.mark.parametrize(("journal", "message"), JOURNALS.values(), ids=JOURNALS)
async def test_what_is_no_journal_is_refused_by_the_call(journal: Journal, message: str) -> None:
    with pytest.raises(WrongType, match=message):
        open_supervisor(journal=journal)


async def build() -> SessionSpec:
    return SessionSpec(model="demo")


async def several() -> AsyncIterator[SessionSpec]:
    yield SessionSpec(model="demo")


def both(model: str, name: str) -> SessionSpec:
    return SessionSpec(model=model, name=name)


async def secret(_: str) -> str:
    return "x"


ARGUMENTS: dict[str, tuple[dict[str, object], str]] = {
    "a specification": ({"specs": {"a": SessionSpec(model="demo")}}, "a `SessionSpec` under 'a' as `specs`"),
    "a builder that yields": ({"specs": {"a": several}}, "a function that is a generator under 'a' as `specs`"),
    "a builder of two": ({"specs": {"a": both}}, "a function that needs other arguments under 'a' as `specs`"),
    "a list of builders": ({"specs": [build]}, "a `list` as `specs`; give a mapping"),
    "a number for a name": ({"specs": {5: SessionSpec}}, "the name 5 as `specs`"),
    "a model": ({"models": {"a": ScriptedModel([])}}, "a `ScriptedModel` under 'a' as `models`"),
    "an async factory": ({"models": {"a": secret}}, "a function that is async under 'a' as `models`"),
    "a model's whole name": ({"models": {"a:b": ScriptedModel}}, "the name 'a:b' as `models`; .* before the colon"),
    "async secrets": ({"secrets": secret}, "a function that is async as `secrets`"),
}


@pytest.mark.parametrize(("values", "message"), ARGUMENTS.values(), ids=ARGUMENTS)
async def test_what_does_not_fit_an_argument_is_refused_by_the_call(values: dict[str, object], message: str) -> None:
    with pytest.raises(WrongType, match=message):
        open_supervisor(**values)  # type: ignore[arg-type]  # on purpose


async def test_a_factory_that_makes_no_model_is_named() -> None:
    async with open_supervisor(models={"own": lambda _: ScriptedModel}) as supervisor:  # type: ignore[dict-item, return-value]
        with pytest.raises(WrongType, match=r"the class `ScriptedModel`, .* from 'own' as `models`"):
            await supervisor.spawn(SessionSpec(model="own:x"))


def passes_on(inner: object) -> object:
    """Return a journal that passes everything on, by methods of the object."""

    def passing(name: str) -> Callable[..., Awaitable[object]]:
        def passed(*args: object, **more: object) -> Awaitable[object]:
            answer: Awaitable[object] = getattr(inner, name)(*args, **more)
            return answer

        return passed

    methods = (name for name in vars(Journal) if not name.startswith("_"))
    return SimpleNamespace(**{name: passing(name) for name in methods})


class Wrapped(MemoryJournal):
    @functools.wraps(MemoryJournal.close)
    def close(self, *args: object) -> Awaitable[None]:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().close()


def test_a_journal_may_be_written_in_other_ways() -> None:
    for journal in (MemoryJournal(), Wrapped(), passes_on(MemoryJournal())):
        assert why_unfit(journal, Journal) is None


# Specifications


class Named:
    name = "own"


class SyncModel(Named):
    def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        raise NotImplementedError


class Yielding(Named):
    async def stream(self, request: ModelRequest, emit: EmitChunk) -> AsyncIterator[object]:
        yield say("x")


class Hasty(Named):
    async def stream(self, request: ModelRequest) -> Response:
        raise NotImplementedError


class Whole(Named):
    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        raise NotImplementedError


class Nameless:
    def name(self) -> str:
        return "own"

    stream = Whole.stream


@tool
async def dig() -> str:
    """Dig."""
    return ""


NO_STREAM = r"whose `stream` is no `async def stream\(self, request, emit\)`; use a name, or"

SPECS: dict[str, tuple[dict[str, object], str]] = {
    "model: class": ({"model": Whole}, "`model` is the class `Whole`, and no object of it; use a name"),
    "model: sync": ({"model": SyncModel()}, NO_STREAM),
    "model: generator": ({"model": Yielding()}, NO_STREAM),
    "model: other arguments": ({"model": Hasty()}, NO_STREAM),
    "model: name as method": ({"model": Nameless()}, "`model` is a `Nameless`, whose `name` is no text; use"),
    "chain": ({"model": ["demo", Whole]}, "`model` is the class `Whole`"),
    "sandbox: text": (
        {"sandbox": "folder"},
        r"`sandbox` is a `str`, .*; use a sandbox, such as `LocalSandbox",
    ),
    "sandbox: class": ({"sandbox": MemorySandbox}, "`sandbox` is the class `MemorySandbox`"),
    "sandbox: other": ({"sandbox": Whole()}, "`sandbox` is a `Whole`, which has no method `read`"),
    "web": ({"web": Whole()}, "`web` is a `Whole`, which has no method `fetch`"),
    "tools: one": ({"tools": dig}, "`tools` is a `FunctionTool`; write a list, with brackets also around a single one"),
    "tools: once": ({"tools": iter([dig])}, "`tools` is a `list_iterator`; write a list"),
    "tools: none": ({"tools": None}, "`tools` is a `NoneType`; write a list"),
    "plugins": ({"plugins": "BudgetGuard"}, "`plugins` is a `str`; write a list"),
    "agents": ({"agents": [SessionSpec()]}, "`agents` is a `list`; use a mapping"),
    "user data": ({"user_data": 5}, "`user_data` is a `int`; use a mapping"),
    "services: sync": (
        {"services": {"a": lambda payload: payload}},
        "`services` have a function that is no `async def",
    ),
    "services: arguments": ({"services": {"a": build}}, "`services` have a function that is no `async def"),
    "services: value": (
        {"services": {"a": 5}},
        "`services` have a `int` under `a`; use an `async def`",
    ),
}


@pytest.mark.parametrize(("fields", "message"), SPECS.values(), ids=SPECS)
async def test_a_specification_that_could_not_run_is_refused_by_spawn(
    world: World, fields: dict[str, object], message: str
) -> None:
    with pytest.raises(BadSpec, match=message):
        await world.supervisor.spawn(SessionSpec(**{"model": "demo", **fields}))  # type: ignore[arg-type]  # on purpose
    assert world.supervisor.sessions() == ()


async def test_a_model_of_a_wrong_form_is_refused_by_the_switch(world: World) -> None:
    session = await world.spawn(["hello"])
    for model in (ScriptedModel, SyncModel()):
        with pytest.raises(WrongType, match="`model`; give a name, or an object with `name` and `async def stream"):
            await session.switch_model(model)  # type: ignore[arg-type]  # on purpose


# Supervisors


async def test_a_supervisor_that_was_not_entered_says_how() -> None:
    opening: Any = open_supervisor()  # type checkers refuse what follows
    with pytest.raises(NotOpened, match=r"cannot use `await` here: .*; write `async with open_supervisor\(\) as"):
        await opening
    with pytest.raises(NotOpened, match="cannot use `with` here"), opening:
        pass
    with pytest.raises(NotOpened, match="cannot use `spawn` here"):
        _ = opening.spawn
    with pytest.raises(AttributeError, match="has no `spwn`"):
        _ = opening.spwn


async def test_an_id_that_nothing_is_stored_under_is_told_with_where_to_look() -> None:
    async with open_supervisor(journal=MemoryJournal()) as supervisor:
        for attempt in (supervisor.resume("nope"), supervisor.fork("nope")):
            with pytest.raises(SessionNotStored, match="no session `nope` in the journal; `await supervisor"):
                await attempt


async def test_an_id_or_name_that_is_no_text_is_refused(world: World) -> None:
    supervisor, spec, wrong = world.supervisor, SessionSpec(model="demo"), SessionSpec(model="demo")
    for attempt in (
        supervisor.resume(wrong, spec),  # type: ignore[arg-type]  # on purpose, here and below
        supervisor.open(None, spec),  # type: ignore[arg-type]
        supervisor.fork(wrong),  # type: ignore[arg-type]
        supervisor.fork("a", id=5),  # type: ignore[arg-type]
        supervisor.start_service(trio.sleep_forever, 5),  # type: ignore[arg-type]
        supervisor.start_supervisor(5),  # type: ignore[arg-type]
    ):
        with pytest.raises(WrongType, match="; give text"):
            await attempt


@pytest.mark.parametrize(
    "values",
    [
        {"wanted": 5},
        {"wanted": "acme"},
        {"wanted": SessionFilter(tenant=3)},  # type: ignore[arg-type]  # on purpose, here and below
        {"wanted": SessionFilter(label="x" * 201)},
        {"wanted": SessionFilter(due_before=1.5)},  # type: ignore[arg-type]
        {"wanted": SessionFilter(at_work=1)},  # type: ignore[arg-type]
        {"wanted": SessionFilter(slots={1})},  # type: ignore[arg-type]
        {"wanted": SessionFilter(slots=frozenset({SLOTS}))},
        {"after": "s"},
        {"limit": 0},
    ],
    ids=str,
)
async def test_a_list_that_cannot_be_is_refused(world: World, values: dict[str, object]) -> None:
    with pytest.raises((WrongType, BadChoice)):
        await world.supervisor.stored(**values)  # type: ignore[arg-type]  # on purpose


async def test_a_list_is_wanted_by_any_of_its_fields(world: World) -> None:
    fine = await world.supervisor.spawn(spec_of(ScriptedModel(["fine"])), "s", tenant="acme", labels=["demo"])
    assert await world.supervisor.stored() != ()
    for expected, actual in (
        (SessionFilter(tenant="acme"), ("s",)),
        (SessionFilter(owner="nobody"), ()),
        (SessionFilter(label="demo"), ("s",)),
        (SessionFilter(ended=True), ()),
        (SessionFilter(at_work=False), ("s",)),
        (SessionFilter(due_before=0), ()),
        (SessionFilter(slots=frozenset({slot_of("s")})), ("s",)),
        (SessionFilter(slots=frozenset({slot_of("t")})), ()),
    ):
        assert tuple(session.session_id for session in await world.supervisor.stored(expected)) == actual
    await fine.stop()


class Runs:
    async def run(self) -> None:
        """Not what a supervisor calls."""


@pytest.mark.parametrize("service", [5, lambda: None, trio.sleep, Runs, Runs()])
async def test_what_cannot_be_run_as_a_service_is_refused_and_ends_nothing(world: World, service: object) -> None:
    with pytest.raises(WrongType, match="as `service`; give an `async def` without arguments, or with"):
        await world.supervisor.start_service(service, "a")  # type: ignore[arg-type]  # on purpose
    await world.supervisor.start_service(functools.partial(trio.sleep, 1e9), "b")
    assert [child.name for child in world.supervisor.tree().children] == ["b"]


def test_an_error_of_a_supervisor_that_was_not_entered_is_an_attribute_error() -> None:
    assert issubclass(NotOpened, AttributeError)
    assert issubclass(NotOpened, UsageError)
