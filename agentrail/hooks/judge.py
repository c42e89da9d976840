"""Who decides: the one thing a step needs that is not data.

Live, the plugins are asked; at recovery, recorded rulings are read; at a back-test, other plugins are asked. The
machine cannot tell them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from agentrail.errors import ReplayDiffers
from agentrail.hooks.attachments import AttachedPlugin
from agentrail.hooks.context import Context
from agentrail.hooks.moments import Hook
from agentrail.hooks.ruling import NOTHING_GATHERED, START, Gathered, Place, Ruling
from agentrail.values.events.envelope import Envelope
from agentrail.values.json import JsonObject
from agentrail.values.meter import Meter
from agentrail.values.value import Value, value


@value
class Consent(Value):
    """What people have agreed to about one call."""

    approved: JsonObject | None = None
    """The arguments a person approved."""
    holders: frozenset[str] = frozenset()
    """The plugins whose holds were approved."""
    always: frozenset[tuple[str, str]] = frozenset()
    """Pairs of tool and family that pass a hold."""


NO_CONSENT = Consent()


@value
class PluginRow(Value):
    """The plugins of a session and what they remember, at the time of one question."""

    seats: tuple[AttachedPlugin, ...]
    """Who they are, in the order they are asked."""
    states: tuple[object, ...]
    """What each remembers."""
    among: frozenset[str] | None = None
    """Who is asked, if not all are."""


class Judge(Protocol):
    """Rules on hooks and on arguments."""

    def rule(
        self,
        hook: Hook,
        row: PluginRow,
        context: Callable[[], Context],
        place: Place = START,
        gathered: Gathered = NOTHING_GATHERED,
        consent: Consent = NO_CONSENT,
    ) -> Ruling:
        """Ask the plugins of *row*, from *place* on."""
        ...

    def learn(
        self, events: Sequence[Envelope], row: PluginRow, context: Callable[[], Context], failures: Mapping[str, int]
    ) -> Ruling:
        """Show *events* to the plugins that listen; *failures* is how often each has failed in this turn."""
        ...

    def init(self, seat: AttachedPlugin, context: Callable[[], Context]) -> Ruling:
        """Ask a new plugin for its first state."""
        ...

    def options(self, seat: AttachedPlugin, state: object, new: JsonObject) -> Ruling:
        """Ask a plugin, in its new form, for the state to go on with."""
        ...

    def upgrade(self, seat: AttachedPlugin, state: object) -> Ruling:
        """Ask a plugin of a new version to bring its stored state forward."""
        ...

    def check(self, tool: str, revision: int, args: JsonObject, meter: Meter, chars: int, items: int) -> Ruling:
        """Say whether *args* fit the schema of *tool*, and have at most so many *chars*, and keys and *items*."""
        ...


class Recorded:
    """Reads the rulings that were made when the session was live."""

    __slots__ = ("_number", "_rest", "_session")

    def __init__(self, rulings: Iterable[Ruling], session: str = "", number: int = 0) -> None:
        self._rest = iter(rulings)
        self._session = session
        self._number = number

    def _next(self, wanted: str) -> Ruling:
        ruling = next(self._rest, None)
        if ruling is None or ruling.hook != wanted:
            found = "nothing" if ruling is None else f"`{ruling.hook}`"
            raise ReplayDiffers(self._session, self._number, f"its rulings: `{wanted}` is asked, {found} is recorded")
        return ruling

    def rule(
        self,
        hook: Hook,
        row: PluginRow,  # noqa: ARG002 - what was asked is in the record
        context: Callable[[], Context],  # noqa: ARG002
        place: Place = START,  # noqa: ARG002
        gathered: Gathered = NOTHING_GATHERED,  # noqa: ARG002
        consent: Consent = NO_CONSENT,  # noqa: ARG002
    ) -> Ruling:
        """Return the recorded ruling on *hook*."""
        return self._next(hook.moment)

    def learn(
        self,
        events: Sequence[Envelope],  # noqa: ARG002 - what was shown is in the record
        row: PluginRow,  # noqa: ARG002
        context: Callable[[], Context],  # noqa: ARG002
        failures: Mapping[str, int],  # noqa: ARG002
    ) -> Ruling:
        """Return what was learned then."""
        return self._next("on_event")

    def init(self, seat: AttachedPlugin, context: Callable[[], Context]) -> Ruling:  # noqa: ARG002 - recorded
        """Return the recorded first state."""
        return self._next("init")

    def options(self, seat: AttachedPlugin, state: object, new: JsonObject) -> Ruling:  # noqa: ARG002 - recorded
        """Return the recorded state."""
        return self._next("on_options")

    def upgrade(self, seat: AttachedPlugin, state: object) -> Ruling:  # noqa: ARG002 - recorded
        """Return the recorded state."""
        return self._next("upgrade")

    def check(self, tool: str, revision: int, args: JsonObject, meter: Meter, chars: int, items: int) -> Ruling:  # noqa: ARG002 - recorded
        """Return the recorded verdict on the arguments."""
        return self._next("check")

    @property
    def left(self) -> int:
        """How many rulings were not asked for; a replay that leaves any differs."""
        return sum(1 for _ in self._rest)
