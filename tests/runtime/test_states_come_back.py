"""What a plugin keeps, and pinned options: it comes back from a journal as it was, or is refused when it is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import pytest
from attrs import frozen

from agentrail import Context, Continue, Plugin, Secret, SessionSpec, open_supervisor
from agentrail.errors import AgentrailError, BadOptions
from agentrail.journals import SqliteJournal
from agentrail.models import Json, JsonObject
from agentrail.plugins import AfterTurn, AnyPlugin
from agentrail.testing import ScriptedModel
from tests.runtime.journals import AwakeJournal

T = TypeVar("T")


class Mood(Enum):
    GOOD = "good"


@frozen
class Count:
    count: int = 0
    note: str | None = None


@frozen
class Holder(Generic[T]):
    held: T


@dataclass(frozen=True)
class Row:
    names: tuple[str, ...]


class Pair(NamedTuple):
    left: int
    right: str


FORMS: dict[str, tuple[object, object, str]] = {
    "int": (int, 5, ""),
    "bool in int": (int, True, "it is a `bool` where a whole number is wanted"),
    "int in float": (float, 5, ""),
    "int in bool": (bool, 1, "it is an `int` where a boolean is wanted"),
    "text": (str, "a", ""),
    "number in text": (str, 1, "it is an `int` where text is wanted"),
    "optional": (int | None, None, ""),
    "tuple of numbers": (tuple[int, ...], (1, 2), ""),
    "bool in a tuple": (tuple[int, ...], (1, True), "its `[1]` is a `bool` where a whole number is wanted"),
    "bare tuple": (tuple, (1,), "it is hinted `tuple`, which cannot be read back"),
    "tuple of two": (tuple[int, str], (1, "a"), ""),
    "sequence": (Sequence[int], (1, 2), ""),
    "set": (frozenset[str], frozenset({"a", "b"}), ""),
    "bare set": (frozenset, frozenset({1}), "it is hinted `frozenset`, which cannot be read back"),
    "mapping": (Mapping[str, int], MappingProxyType({"a": 1}), ""),
    "bare mapping": (Mapping, MappingProxyType({"a": 1}), "it is hinted `Mapping`, which cannot be read back"),
    "numbers as keys": (Mapping[int, int], MappingProxyType({"a": 1}), "which cannot be read back"),
    "JSON": (Json, ("a", 1, None), ""),
    "enum": (Mood, Mood.GOOD, ""),
    "enum in JSON": (Json, (Mood.GOOD,), "its `[0]` is a `Mood`, and would come back as a `str`"),
    "set in JSON": (Json, frozenset({1}), "it is a `frozenset`, and would come back as a `tuple`"),
    "literal": (Literal["a", "b"], "a", ""),
    "wrong literal": (Literal["a", "b"], "c", "is wanted"),
    "attrs": (Count, Count(1, "a"), ""),
    "bool in attrs": (Count, Count(True), "its `count` is a `bool` where a whole number is wanted"),
    "text in attrs": (Count, Count("1"), "its `count` is a `str` where a whole number is wanted"),  # type: ignore[arg-type]
    "dataclass": (Row, Row(("a",)), ""),
    "wrong dataclass": (Row, Row((1,)), "where text is wanted"),  # type: ignore[arg-type]
    "named tuple": (Pair, Pair(1, "a"), ""),
    "generic": (Holder, Holder(1), "which cannot be read back"),
    "generic of int": (Holder[int], Holder(1), "which cannot be read back"),
    "another class": (Count, Row(("a",)), "it is another class where a `Count` is wanted"),
    "Any with plain data": (Any, (1, "a"), ""),
    "Any with a class": (Any, Count(), "write `Plugin[…]` with the type"),
    "object with an enum in a tuple": (object, (Count(),), "write `Plugin[…]` with the type"),
}
"""For each form: the annotation, the state, and a part of the error; none if the state comes back."""


def keeper(hint: object, first: object, later: object = None) -> AnyPlugin:
    """Return a plugin whose state is hinted *hint*: *first*, and after a turn *later* unless that is `None`."""

    class Keeper(Plugin[hint]):  # type: ignore[valid-type]
        def init(self, ctx: Context) -> object:
            return first

        def after_turn(self, hook: AfterTurn, state: object, ctx: Context) -> Continue[object]:
            return Continue(state if later is None else later)

    return Keeper()


def spec(*plugins: AnyPlugin) -> SessionSpec:
    """Return a specification with *plugins*."""
    return SessionSpec(model=ScriptedModel(["hi"]), plugins=list(plugins))


async def state_after_return(path: Path, plugin: AnyPlugin) -> object:
    """Return the state of *plugin* in a session that came back from the journal at *path*."""
    async with open_supervisor(journal=AwakeJournal(SqliteJournal(path))) as supervisor:
        session = await supervisor.resume("s", spec(plugin))
        return session.inspect().plugin_states[0]


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
async def test_a_first_state_comes_back_or_is_refused(form: str, tmp_path: Path) -> None:
    hint, state, problem = FORMS[form]
    plugin = keeper(hint, state)
    async with open_supervisor(journal=AwakeJournal(SqliteJournal(tmp_path / "j.db"))) as supervisor:
        if problem:
            with pytest.raises(AgentrailError) as refused:
                await supervisor.spawn(spec(plugin), "s")
            assert problem in str(refused.value)
            return
        await supervisor.spawn(spec(plugin), "s")
    again = await state_after_return(tmp_path / "j.db", plugin)
    assert again == state
    assert isinstance(again, Mapping) or type(again) is type(state)


@pytest.mark.long
@pytest.mark.parametrize("form", [form for form, row in FORMS.items() if row[0] in (int, Count, tuple[int, ...])])
async def test_a_later_state_comes_back_or_breaks_its_hook(form: str, tmp_path: Path) -> None:
    hint, state, problem = FORMS[form]
    first = {int: 0, Count: Count()}.get(hint, ())  # type: ignore[call-overload]
    plugin = keeper(hint, first, state)
    async with open_supervisor(journal=AwakeJournal(SqliteJournal(tmp_path / "j.db"))) as supervisor:
        session = await supervisor.spawn(spec(plugin), "s")
        await session.ask("hi")
    again = await state_after_return(tmp_path / "j.db", plugin)
    assert again == (first if problem else state)


async def test_a_plugin_attached_later_is_refused_too(tmp_path: Path) -> None:
    async with open_supervisor(journal=AwakeJournal(SqliteJournal(tmp_path / "j.db"))) as supervisor:
        session = await supervisor.spawn(spec(), "s")
        await session.attach_plugin(keeper(int, True))
        assert session.inspect().plugins == ()
        assert (await session.ask("hi")).text == "hi"


async def test_options_that_make_a_state_that_would_be_lost_are_refused(tmp_path: Path) -> None:
    async with open_supervisor(journal=AwakeJournal(SqliteJournal(tmp_path / "j.db"))) as supervisor:
        session = await supervisor.spawn(spec(Restated()), "s")
        await session.update_plugin(Restated, on=True)
        assert session.inspect().plugin_states == (0,)
        assert session.inspect().plugins[0].options == {"on": False}


@frozen
class Restated(Plugin[int]):
    """Its state becomes its option, which is no number."""

    on: bool = False

    def init(self, ctx: Context) -> int:
        return 0

    def on_options(self, new: JsonObject, state: int) -> int:
        return self.on


@frozen
class Optioned(Plugin[None]):
    number: int = 0
    names: tuple[str, ...] = ()
    mood: Mood = Mood.GOOD
    path: Path = Path("a")
    day: date = date(2026, 1, 1)
    raw: bytes = b""
    secret: Secret | None = None
    anything: Any = None
    loose: tuple = ()  # type: ignore[type-arg]


PINS: dict[str, tuple[Any, bool]] = {
    "number": (5, True),
    "names": (("a", "b"), True),
    "mood": (Mood.GOOD, False),
    "path": (Path("b"), False),
    "day": (date(2026, 2, 2), False),
    "raw": (b"x", False),
    "secret": (Secret("hush-hush-hush"), False),
    "anything": ("a", False),
    "loose": (("a",), False),
}
"""For each option: a new value, and whether it can be pinned."""


@pytest.mark.parametrize("name", PINS)
async def test_a_pinned_option_comes_back_or_is_refused(name: str, tmp_path: Path) -> None:
    value, can_be_kept = PINS[name]
    async with open_supervisor(journal=AwakeJournal(SqliteJournal(tmp_path / "j.db"))) as supervisor:
        session = await supervisor.spawn(spec(Optioned()), "s")
        if not can_be_kept:
            with pytest.raises(BadOptions, match=f"`{name}` cannot be pinned: .*; give it without `pin`"):
                await session.update_plugin(Optioned, pin=True, **{name: value})
            return
        await session.update_plugin(Optioned, pin=True, **{name: value})
    async with open_supervisor(journal=AwakeJournal(SqliteJournal(tmp_path / "j.db"))) as supervisor:
        session = await supervisor.resume("s", spec(Optioned()))
        assert session.inspect().plugins[0].options[name] == value
