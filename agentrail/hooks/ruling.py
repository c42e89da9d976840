"""What a row of plugins decided at one hook, as data: this is what the journal keeps instead of running them again."""

from __future__ import annotations

from enum import Enum
from typing import Final

from agentrail.hooks.actions import AskAnswer, AskRequest
from agentrail.hooks.moments import HOOK_NAMES
from agentrail.values.events.envelope import Event
from agentrail.values.json import JsonObject
from agentrail.values.messages import Message
from agentrail.values.tools import Err, Ok
from agentrail.values.value import Value, value


class Verdict(Enum):
    """How a pipeline ended, or why it stopped on the way."""

    PASS = "pass"  # noqa: S105 - not a password
    ABORT = "abort"
    SKIP = "skip"
    BLOCK = "block"
    HOLD = "hold"
    ASK = "ask"


@value
class Switch(Value):
    """A plugin chose a model."""

    model: str
    """Which."""
    options: JsonObject
    """With which options of its provider."""
    plugin: str
    """Who chose."""
    priced: bool = False
    """Whether its price is known."""


@value
class Gathered(Value):
    """What the plugins of one pipeline have accumulated so far."""

    texts: tuple[str, ...] = ()
    """Interventions, in plugin order."""
    args: JsonObject | None = None
    """Arguments as replaced last."""
    messages: tuple[Message, ...] | None = None
    """Messages as replaced last."""
    result: Ok | Err | None = None
    """A result as replaced last."""
    replaced_by: tuple[str, ...] = ()
    """Who replaced, in order."""
    replaced_at: int = -1
    """The place of the last who replaced arguments; -1: nobody."""
    switch: Switch | None = None
    """The model chosen last."""
    sections: tuple[tuple[str, str | None], ...] = ()
    """Sections set, in order."""
    emits: tuple[Event, ...] = ()
    """What is broadcast when the pipeline ends, whatever its end."""
    asks: tuple[tuple[str, int], ...] = ()
    """How often each plugin has asked in this pipeline."""


NOTHING_GATHERED: Final = Gathered()


@value
class Place(Value):
    """Where in its row a pipeline goes on."""

    seat: int = 0
    """The place of the plugin in the session's row."""
    final: bool = False
    """Whether guards are being asked once more about replaced arguments."""
    asked: AskRequest | None = None
    """What that plugin asked for."""
    answer: AskAnswer | None = None
    """And what it got."""


START: Final = Place()


@value
class Pause(Value):
    """Why a pipeline stopped on the way, and what it waits for."""

    place: Place
    """At whom it stopped."""
    request: AskRequest | None = None
    """What is to be done; `None`: a person is to decide."""
    deadline: float | None = None
    """Seconds it may take."""
    hint: str = ""
    """What the person should know."""
    family: str | None = None
    """What "always" would mean."""


@value
class Ruling(Value):
    """The outcome of one run of a pipeline."""

    hook: str
    """Which hook, or `init`, `on_options`, `on_event`, `check`."""
    verdict: Verdict = Verdict.PASS
    """How it ended, or why it stopped."""
    by: str | None = None
    """The plugin that ended or stopped it."""
    reason: str = ""
    """Its words."""
    critical: bool = False
    """Whether a critical plugin broke, which is why it ended."""
    gathered: Gathered = NOTHING_GATHERED
    """What was accumulated."""
    states: tuple[tuple[int, object], ...] = ()
    """The plugin states that changed, by place."""
    errors: tuple[Event, ...] = ()
    """`plugin_error` for each plugin that broke."""
    pause: Pause | None = None
    """Where it stopped, if it did."""
    logs: tuple[tuple[str, str, JsonObject], ...] = ()
    """Lines for the log, of `on_event`: level, message, fields."""


UNRULED: Final = {name: Ruling(name) for name in HOOK_NAMES}
"""What a hook that no plugin implements decides."""

FITS: Final = Ruling("check")
"""The arguments fit the schema."""


def check_failed(problem: str) -> Ruling:
    """Return the ruling on arguments that do not fit."""
    return Ruling("check", Verdict.BLOCK, reason=problem)
