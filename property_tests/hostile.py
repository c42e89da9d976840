"""Draws hostile values that foreign code may give to a session, though no type checker would accept them.

Values that are costly to make are made once. Nothing here raises `KeyboardInterrupt`, which has to end the program.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType, ModuleType
from typing import Final, NoReturn, cast

import trio

from agentrail.errors import (
    ContextTooLong,
    PermanentModelError,
    PluginRefused,
    RateLimited,
    ToolError,
    TransientModelError,
)
from agentrail.models import (
    AssistantMessage,
    Data,
    Image,
    Response,
    StopReason,
    Text,
    TextChunk,
    Thinking,
    ToolCall,
    Usage,
    UsageChunk,
    UserMessage,
)
from agentrail.tools import Effect, Ok, SetTodos, Todo
from tests.codec.test_strictness import Endless

Chance = random.Random
Draw = Callable[[Chance], object]

RAISED: Final = (ValueError, RecursionError, MemoryError, SystemExit, StopIteration, AttributeError)
"""Errors that methods of hostile values raise."""


class UnspeakableError(Exception):
    """An error whose `str` and `repr` raise `SystemExit`."""

    def __str__(self) -> str:
        raise SystemExit

    __repr__ = __str__


class ForeignBaseError(BaseException):
    """An error that is no `Exception`."""


class UngroupableError(ExceptionGroup[Exception]):
    """An exception group that cannot be split."""

    def derive(self, _: object) -> NoReturn:
        raise ZeroDivisionError


class WordyError(Exception):
    """An error whose `str` returns no plain text."""

    def __str__(self) -> str:
        return LyingText("well")


def _breaks(*_: object, **__: object) -> NoReturn:
    raise BREAKING[0]


BREAKING: Final[list[type[BaseException]]] = [ValueError]
"""The class of the error that all methods of `Breaking` raise now; set when one is drawn."""

DUNDERS: Final = (
    *("__repr__", "__str__", "__bool__", "__eq__", "__ne__", "__hash__", "__len__", "__iter__", "__lt__", "__le__"),
    *(
        "__gt__",
        "__ge__",
        "__index__",
        "__int__",
        "__float__",
        "__add__",
        "__radd__",
        "__sub__",
        "__mul__",
        "__round__",
    ),
    *("__format__", "__contains__", "__getitem__", "__getattr__", "__call__", "__await__", "__aiter__", "__abs__"),
)

Breaking = type("Breaking", (), dict.fromkeys(DUNDERS, _breaks))
BreakingInt = type("BreakingInt", (int,), dict.fromkeys(DUNDERS[:19], _breaks))
BreakingFloat = type("BreakingFloat", (float,), dict.fromkeys(DUNDERS[:19], _breaks))
BreakingText = type("BreakingText", (str,), dict.fromkeys((*DUNDERS[:9], "isascii", "encode", "__format__"), _breaks))
BreakingDict = type("BreakingDict", (dict,), dict.fromkeys((*DUNDERS[:8], "items", "keys", "get"), _breaks))
BreakingList = type("BreakingList", (list,), dict.fromkeys(DUNDERS[:8], _breaks))
BreakingTuple = type("BreakingTuple", (tuple,), dict.fromkeys(DUNDERS[:8], _breaks))


class LyingInt(int):
    """A number that is equal to everything, never less or greater, and that converts to another number."""

    def __eq__(self, _: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 7

    def __lt__(self, _: object) -> bool:
        return False

    __gt__ = __lt__

    def __index__(self) -> int:
        return 10**30

    __int__ = __index__


class LyingText(str):
    """A text that claims to be ASCII, of length 1, and equal to everything."""

    __slots__ = ()

    def isascii(self) -> bool:
        return True

    def __len__(self) -> int:
        return 1

    def __eq__(self, _: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 7


class LyingList(list[object]):
    """A list that claims the length 1, and whose iterator never ends."""

    def __iter__(self) -> Iterator[object]:
        while True:
            yield self

    def __len__(self) -> int:
        return 1


class Impostor:
    """An object whose `__class__` is another class."""

    text = parts = content = args = message = usage = effect = todos = data = 42

    def __init__(self, kind: type[object]) -> None:
        self.kind = kind

    __class__ = property(lambda self: self.kind)  # pyright: ignore[reportIncompatibleMethodOverride]  # on purpose


class Scalar:
    """An object that converts to a number, as numpy's scalars do."""

    dtype = "int64"

    def __index__(self) -> int:
        return 3

    def __float__(self) -> float:
        return 3.0


class Awkward(type):
    """A metaclass whose classes raise when their name or hash is asked for."""

    @property
    def __name__(cls) -> str:  # type: ignore[override]  # on purpose
        raise ValueError

    def __hash__(cls) -> int:
        raise ValueError


Nameless = Awkward("Nameless", (), {})

# Numbers

NUMBERS: Final[tuple[object, ...]] = (
    *(0, 1, -1, 3, 60, 2**31, 2**40, 2**40 + 1, 2**53 + 1, 2**63, 2**64, -(2**63) - 1, 10**17, 10**400, -(10**400)),
    *(10**5000, -999_982_900, True, False, -0.0, 0.5, 1e17, 1e300, -1e300, 1e306, 1e308, 5e-324, 1e-9, 31_536_000.0),
    *(float("nan"), float("inf"), float("-inf"), sys.float_info.max, complex(1, 2)),
    *(Decimal(3), Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), Decimal("1e999999"), Fraction(1, 3)),
    *("1", "1e400", "NaN", "", "٣", b"1", Scalar(), LyingInt(3), LyingInt(-3), BreakingInt(3), BreakingFloat(2.5)),
    BreakingFloat("nan"),
)


def draw_number(chance: Chance) -> object:
    """Draw a number, often an extreme one, or an object that looks like a number."""
    if chance.random() < 0.7:
        return chance.choice(NUMBERS)
    if chance.random() < 0.5:
        return chance.choice((-1, 1)) * chance.getrandbits(chance.choice((4, 20, 62, 64, 65, 2000)))
    return chance.choice((-1, 1)) * chance.random() * 10.0 ** chance.randint(-320, 308)


# Texts

LONG: Final = "x" * 1_000_000
TEXTS: Final[tuple[object, ...]] = (
    *("", " ", "\0", "a\0b", "\ud800", "\udfff\ud800", "a\ud83d", "\u202e\u2066mirror", "é́" * 50, "<status>x"),
    *("</title>", "\x1b[2J", "\r\n", "{}", "%s %d", "{0.__class__}", "../../etc/passwd", "a" * 70_000, "\ufeff"),
    *(LONG, "é" * 1_000_000, LONG + "\ud800", "😀" * 500_000, LONG * 5, "é" * 5_000_000),
    *(LyingText("\ud800"), LyingText(LONG), BreakingText("text"), b"bytes", bytearray(b"x"), 42, None),
)
RARE: Final = 20
"""Of this many draws of a long text, only one returns it; the others return a short text."""


def draw_text(chance: Chance) -> object:
    """Draw a text, or an object that looks like one; long ones are rare."""
    found = chance.choice(TEXTS)
    if type(found) is str and str.__len__(found) > 100_000 and chance.randrange(RARE):
        return "".join(chr(chance.randrange(0x11_0000)) for _ in range(chance.randrange(20)))
    return found


# Containers


def _deep(levels: int, make: Callable[[object], object]) -> object:
    found: object = 1
    for _ in range(levels):
        found = make(found)
    return found


LOOP: Final[list[object]] = []
LOOP.append(LOOP)
KNOT: Final[dict[str, object]] = {}
KNOT["self"] = [KNOT]
CONTAINERS: Final[tuple[object, ...]] = (
    *((), [], {}, LOOP, KNOT, _deep(63, lambda inner: [inner]), _deep(64, lambda inner: {"a": inner})),
    *(_deep(65, lambda inner: (inner,)), _deep(20_000, lambda inner: [inner]), {1: 2}, {None: 1}, {"\ud800": 1}),
    *({LyingText("a"): 1}, {LONG: 1}, {"a": object()}, {"a": {1, 2}}, frozenset({1}), {1, 2}, range(10**9)),
    *(Endless(), LyingList(), BreakingDict(a=1), BreakingList([1]), BreakingTuple((1,)), MappingProxyType({"a": 1})),
    *(MappingProxyType(BreakingDict(a=1)), Impostor(dict), Impostor(list), Impostor(str), Impostor(tuple)),
)
WIDE: Final[tuple[object, ...]] = (
    list(range(9_500)),
    list(range(300_000)),
    {f"key {number}": number for number in range(9_500)},
    {f"key {number}": number for number in range(120_000)},
    [[number] * 400 for number in range(400)],
    tuple(Text("") for _ in range(9_000)),
    tuple(Text("") for _ in range(50_000)),
    [LONG[:1000]] * 4_000,
)


def draw_container(chance: Chance) -> object:
    """Draw a container, or an object that looks like one; those with many items are rare."""
    if not chance.randrange(RARE * 2):
        return chance.choice(WIDE)
    if chance.random() < 0.5:
        return chance.choice(CONTAINERS)
    kind = chance.randrange(3)
    if kind == 0:
        return [draw(chance) for _ in range(chance.randrange(4))]
    if kind == 1:
        return tuple(draw(chance) for _ in range(chance.randrange(4)))
    return {chance.choice(("a", "b", "$", "")): draw(chance) for _ in range(chance.randrange(3))}


# Errors


def _nested(levels: int) -> Exception:
    found: Exception = ValueError("inside")
    for _ in range(levels):
        found = cast("Exception", ExceptionGroup("around", [found]))
    return found


def _chained(levels: int) -> Exception:
    found = ValueError("first")
    for number in range(levels):
        after = ValueError(f"number {number}")
        after.__cause__ = found
        found = after
    return found


def _noted() -> Exception:
    found = ValueError("with notes")
    for _ in range(50):
        found.add_note("n" * 10_000)
    return found


def _misused() -> Exception:
    found = TransientModelError("well", 3.0)
    found.args = ()
    return found


ERRORS: Final[tuple[Callable[[Chance], BaseException], ...]] = (
    lambda chance: chance.choice(RAISED)("well"),
    lambda chance: ValueError(draw(chance)),
    lambda _: UnspeakableError(),
    lambda _: WordyError(),
    lambda _: ForeignBaseError("well"),
    lambda _: BaseExceptionGroup("several", [ForeignBaseError(), SystemExit(3)]),
    lambda _: ExceptionGroup("several", [ValueError(), UnspeakableError()]),
    lambda _: UngroupableError("several", [ValueError()]),
    lambda chance: _nested(chance.choice((1, 5, 300))),
    lambda chance: _chained(chance.choice((1, 5, 300))),
    lambda _: _noted(),
    lambda _: _misused(),
    lambda chance: TransientModelError(draw_text(chance), draw_number(chance)),  # type: ignore[arg-type]
    lambda chance: RateLimited(draw_text(chance), draw_number(chance)),  # type: ignore[arg-type]
    lambda chance: PermanentModelError(draw_text(chance), draw_number(chance)),  # type: ignore[arg-type]
    lambda chance: ContextTooLong(draw_text(chance)),  # type: ignore[arg-type]
    lambda chance: ToolError(draw_text(chance)),  # type: ignore[arg-type]
    lambda chance: PluginRefused(draw_text(chance)),  # type: ignore[arg-type]
    lambda _: trio.TooSlowError(),
)


def draw_error(chance: Chance) -> BaseException:
    """Draw something that can be raised."""
    return chance.choice(ERRORS)(chance)


# Anything else


async def _late() -> int:
    await trio.lowlevel.checkpoint()
    return 3


async def _pieces() -> AsyncIterator[int]:
    yield 3


OPENED: Final[list[Coroutine[object, object, object]]] = []
"""Coroutines that were drawn; the caller of `draw` closes them with `close_coroutines`."""


def _coroutine(_: Chance) -> Awaitable[int]:
    made = _late()
    OPENED.append(made)
    return made


def close_coroutines() -> None:
    """Close the coroutines that were drawn, so that Python does not warn that they were never awaited."""
    while OPENED:
        OPENED.pop().close()


def _breaking(chance: Chance) -> object:
    BREAKING[0] = chance.choice(RAISED)
    return Breaking()


ODD: Final[tuple[Draw, ...]] = (
    _coroutine,
    _breaking,
    lambda _: _pieces(),
    lambda _: iter(()),
    lambda _: (number for number in range(3)),
    lambda _: object(),
    lambda _: Nameless,
    lambda _: int,
    lambda _: sys,
    lambda _: ModuleType("odd"),
    lambda _: len,
    lambda _: NotImplemented,
    lambda _: ...,
    lambda _: StopReason.LENGTH,
    lambda chance: Impostor(chance.choice((Text, Response, Ok, Usage, ToolCall, TextChunk, int, ValueError))),
    lambda chance: Text(draw_text(chance)),  # type: ignore[arg-type]
    lambda chance: Image(draw_text(chance), draw_text(chance)),  # type: ignore[arg-type]
    lambda chance: Data(draw(chance)),  # type: ignore[arg-type]
    lambda chance: Thinking(draw_text(chance), draw_text(chance)),  # type: ignore[arg-type]
    lambda chance: chance.choice((draw_usage, draw_number))(chance),
    lambda chance: TextChunk(draw_text(chance)),  # type: ignore[arg-type]
    lambda chance: UsageChunk(draw_usage(chance)),  # type: ignore[arg-type]
    lambda chance: UserMessage((Text(draw_text(chance)),), draw(chance)),  # type: ignore[arg-type]
    lambda chance: AssistantMessage(draw(chance), draw(chance)),  # type: ignore[arg-type]
    lambda chance: Ok(draw(chance), draw(chance)),  # type: ignore[arg-type]
    lambda chance: Effect(SetTodos((Todo(draw_text(chance)), draw(chance)))),  # type: ignore[arg-type]
)


def draw_usage(chance: Chance) -> object:
    """Draw a usage with up to two wrong fields."""
    fields = [chance.randrange(100) for _ in range(4)]
    wrong: list[object] = [*fields, None, False, 0]
    for _ in range(chance.randrange(3)):
        wrong[chance.randrange(7)] = draw_number(chance)
    return Usage(*wrong)  # type: ignore[arg-type]


DRAWS: Final[tuple[Draw, ...]] = (
    *(draw_number,) * 4,
    *(draw_text,) * 3,
    *(draw_container,) * 3,
    *(draw_error,) * 2,
    lambda chance: chance.choice(ODD)(chance),
    lambda chance: chance.choice(ODD)(chance),
)


def draw(chance: Chance) -> object:
    """Draw anything."""
    return chance.choice(DRAWS)(chance)


# Clocks

LEAPS: Final = (0.5, 40.0, 3_600.0, 86_400.0, 31_536_000.0, 3_155_760_000.0)
"""Seconds by which a clock may jump ahead."""

LATEST: Final = 8e10
"""Time in seconds from which on the clock jumps by `LATE_LEAP` alone."""

LATE_LEAP: Final = 31_536_000.0
"""Seconds. A turn may wait for years; without jumps, leases would be renewed for each ten seconds of them."""

SHOWN: Final = (math.nan, math.inf, -math.inf, 1e300, -1e300, 4e9, 1e12, 1.5e-300, -1000.0)
"""Odd times that a clock shows for a moment."""

DAYS: Final = (
    1_700_000_000.0,
    1_900_000_000.0,
    1_000_000_000.0,
    0.0,
    -5.0,
    math.nan,
    math.inf,
    1e300,
    2_300_000_000.0,
    10**400,
)
"""Times of day, in seconds since 1970."""


class OddClock(trio.abc.Clock, trio.abc.Instrument):
    """A virtual clock that now and then jumps ahead, or shows odd times to Trio's loop and to one task.

    Trio itself cancels scopes that are opened while the clock shows infinity, and fails at scopes with a time limit if
    it shows NaN. So only the loop, when it looks for due deadlines, and the task named *shown_to* see odd times.
    """

    def __init__(self, chance: Chance, shown_to: str, most_steps: int) -> None:
        self.chance = chance
        self.steps = 0
        self.calm = False
        self._most = most_steps
        self._shown_to = shown_to
        self._now = chance.choice((0.0, 1e6, 3e9, -50.0))
        self._shown: float | None = None
        self._in_task = False

    def start_clock(self) -> None:
        """No-op: the clock needs no start."""

    def current_time(self) -> float:
        """Return the time, or the odd time that is shown now; fail if there were too many steps."""
        assert self.steps <= self._most, "it spins, or has no end"
        return self._now if self._shown is None else self._shown

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Jump to *deadline*, as nothing can happen before it; called from a task, return infinity: time is virtual."""
        if self._in_task:
            return math.inf
        assert deadline < math.inf or self.calm, "nothing will ever happen"
        self._now = self._now if self.calm else max(self._now, deadline)
        return 0.0

    def after_io_wait(self, timeout: float) -> None:
        """Now and then jump ahead, or show an odd time to the loop, which looks for due deadlines next."""
        if self.calm:
            return
        if not self.chance.randrange(20):
            self._now += self.chance.choice(LEAPS) if self._now < LATEST else LATE_LEAP
        if not self.chance.randrange(20):
            self._shown = self.chance.choice(SHOWN)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Count the step, and show the right time to all tasks but one."""
        self.steps += 1
        self._in_task = True
        if self._shown_to not in task.name or not self.chance.randrange(3):
            self._shown = None

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Note that no task runs."""
        self._in_task = False


def draw_day(chance: Chance) -> object:
    """Draw a time of day, often an impossible one."""
    return chance.choice(DAYS)
