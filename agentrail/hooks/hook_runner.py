"""`HookRunner`: runs plugins for the machine, which is pure and does not run foreign code itself.

In a live session it runs the session's plugins (`LiveRunner`), in a back-test other plugins. Where a recorded step is
made again (`redo`), it returns the recorded rulings (`RecordedRunner`): audits and explanations do that. A session that
comes back does not: its state is folded from its records. The machine cannot tell them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, cast

from agentrail.errors import ReplayDiffers
from agentrail.hooks.actions import UNCHANGED, Continue
from agentrail.hooks.attachments import AttachedPlugin
from agentrail.hooks.context import Context
from agentrail.hooks.hook_types import Hook
from agentrail.hooks.plugin import ON_EVENT, AnyPlugin
from agentrail.hooks.ruling import NO_DECISIONS, START, Decisions, Position, Ruling
from agentrail.values.events.envelope import Envelope
from agentrail.values.json import JsonObject
from agentrail.values.step_budget import Meter
from agentrail.values.value import Value


class Consent(Value):
    """Approvals of people that concern one call."""

    approved: JsonObject | None = None
    """Arguments that a person approved; `None` if none were."""
    holders: frozenset[str] = frozenset()
    """Keys of the plugins whose holds a person approved."""
    always: frozenset[tuple[str, str]] = frozenset()
    """Pairs of tool and command family that pass without a hold."""


NO_CONSENT = Consent()


class PluginRow(Value, gc=True):
    """The plugins of a session with their states, as passed to the hook runner."""

    attached_plugins: tuple[AttachedPlugin, ...]
    """Descriptions of the plugins, in the order in which they are asked."""
    states: tuple[object, ...]
    """State of each plugin, in the same order."""
    among: frozenset[str] | None = None
    """Keys of the plugins to ask; `None` if all are."""

    def listeners(self, hook: str) -> tuple[AttachedPlugin, ...]:
        """Return the plugins to ask that have the hook of this name, in order."""
        among = self.among
        return tuple(
            attached
            for attached in self.attached_plugins
            if hook in attached.hooks and (among is None or attached.key in among)
        )


Method = Callable[[Hook, object, Context], object]


class PluginEntry(Value, gc=True):
    """One plugin with its method for one hook."""

    index: int
    """Index of the plugin among all plugins of the session."""
    attached: AttachedPlugin
    """Description of the plugin."""
    method: Method
    """The plugin's method for the hook."""
    plugin: AnyPlugin
    """The plugin itself."""


class FirstAction(NamedTuple):
    """The first action of a hook run other than a plain `Continue`, or the exception that a plugin raised."""

    entry: PluginEntry
    """The plugin."""
    answer: object = None
    """What it returned."""
    error: BaseException | None = None
    """What it raised; `None` if it returned."""


def first_spoken(
    entries: Iterable[PluginEntry], hook: Hook, states: Sequence[object], ctx: Context
) -> FirstAction | None:
    """Call the plugins in order; return the first action that is not a plain `Continue`, or `None`."""
    for entry in entries:
        plugin_state = states[entry.index]
        try:
            answer: object = entry.method(hook, plugin_state, ctx)
            if type(answer) is Continue:
                went_on = cast("Continue[object]", answer)
                if not went_on.emits and (went_on.state is UNCHANGED or went_on.state is plugin_state):
                    continue
        # A hook is sync, so no cancellation of its task can be raised in it; any exception is the plugin's own.
        except BaseException as error:  # noqa: BLE001, ASYNC103 - a plugin may raise anything; it is reported, never hidden
            return FirstAction(entry, error=error)  # noqa: ASYNC104 - it is reported
        return FirstAction(entry, answer)
    return None


def have_on_event(attached_plugins: Iterable[AttachedPlugin]) -> bool:
    """Whether any of the plugins has `on_event`."""
    return any(ON_EVENT in attached.hooks for attached in attached_plugins)


ReadAnswer = Callable[[JsonObject], object]
"""Function that makes the object of an answer that fits its schema; it raises what the object's class raises."""


class AnswerForm(Value, gc=True):
    """The wanted form of a turn's answer: its schema, and the function that makes the object."""

    schema: JsonObject
    """The JSON Schema of the answer."""
    read: ReadAnswer
    """Makes the object of an answer that fits the schema."""


Storable = Callable[[object], str | None]
StateCheck = Callable[[AnyPlugin, object], str | None]
"""Function that returns why a new state of a plugin would not come back from a journal; `None` if it would."""
ModelCheck = Callable[[str, JsonObject], str | None]
"""Function that returns why the model of this name cannot be used with these options; `None` if it can."""
PriceCheck = Callable[[str, JsonObject], bool]
"""Function that returns whether the price of the model of this name, with these options, is known."""


class AnswerChecks(NamedTuple):
    """The functions with which a hook run checks the actions of plugins."""

    storable: Storable
    """Checks a new state: returns why it cannot be stored; `None` if it can."""
    why_no_model: ModelCheck
    """Checks a model that a plugin chose."""
    has_price: PriceCheck
    """Says whether the price of that model is known."""
    why_lost: StateCheck
    """Checks that a new state would come back as it is."""

    def state_problem(self, plugin: AnyPlugin, state: object) -> str | None:
        """Return why the new *state* of *plugin* cannot be stored and read back; `None` if it can."""
        problem = self.storable(state) or self.why_lost(plugin, state)
        return None if problem is None else f"its state cannot be stored: {problem}"


class Askers(Protocol):
    """Interface: the callers that want answers as objects."""

    def readers(self, prompt: str) -> Sequence[ReadAnswer]:
        """Return the functions that make objects for the callers of *prompt*; empty if none is known."""
        ...


class HookRunner(Protocol):
    """Runs hooks of plugins and checks arguments of calls; each answer is a `Ruling`."""

    def unheard(self, hook: str, attached_plugins: tuple[AttachedPlugin, ...]) -> Ruling | None:
        """Return the ruling if no plugin has the hook of this name; `None` if `rule` must be called."""
        ...

    def run(
        self,
        hook: Hook,
        row: PluginRow,
        context: Callable[[], Context],
        position: Position = START,
        decisions: Decisions = NO_DECISIONS,
        consent: Consent = NO_CONSENT,
    ) -> Ruling:
        """Run *hook* of the plugins of *row*, from *position* on, and return their combined ruling."""
        ...

    def learns(self, attached_plugins: tuple[AttachedPlugin, ...]) -> bool:
        """Whether any of the plugins has `on_event`, so that `learn` must be asked."""
        ...

    def learn(
        self, events: Sequence[Envelope], row: PluginRow, context: Callable[[], Context], failures: Mapping[str, int]
    ) -> Ruling:
        """Pass *events* to plugins with `on_event`; *failures* counts, by key, their failures in this turn."""
        ...

    def init(self, attached: AttachedPlugin, context: Callable[[], Context]) -> Ruling:
        """Call `init` of a new plugin; the ruling has its first state."""
        ...

    def options(self, attached: AttachedPlugin, state: object, new: JsonObject) -> Ruling:
        """Call `on_options` of a plugin with its *new* options; the ruling has its new state."""
        ...

    def upgrade(self, attached: AttachedPlugin, state: object) -> Ruling:
        """Call `upgrade` of a plugin whose stored state is of an earlier version; the ruling has its new state."""
        ...

    def check(self, tool: str, revision: int, args: JsonObject, meter: Meter) -> Ruling:
        """Check whether *args* fit the schema of *tool*, and are not too large."""
        ...

    def answer(self, schema: JsonObject, answer: JsonObject, prompt: str | None) -> Ruling:
        """Check whether *answer* of a turn fits *schema*, and the class that the caller asked for, if known.

        *prompt* is the id of the prompt that gave the schema; `None` if the session gave it.
        """
        ...


class RecordedRunner:
    """Hook runner for replay: returns recorded rulings one by one, without running any plugin."""

    __slots__ = ("_number", "_rest", "_session")

    def __init__(self, rulings: Iterable[Ruling], session: str = "", number: int = 0) -> None:
        self._rest = iter(rulings)
        self._session = session
        self._number = number

    def _next(self, hook: str) -> Ruling:
        """Return the next recorded ruling; raise `ReplayDiffers` if it is about another hook."""
        ruling = next(self._rest, None)
        if ruling is None or ruling.hook != hook:
            recorded = "nothing" if ruling is None else f"`{ruling.hook}`"
            raise ReplayDiffers(self._session, self._number, f"its rulings: `{hook}` is asked, {recorded} is recorded")
        return ruling

    def unheard(self, hook: str, attached_plugins: tuple[AttachedPlugin, ...]) -> Ruling | None:  # noqa: ARG002
        """Return `None`: all rulings are recorded, also those on hooks that no plugin has."""
        return None

    def run(
        self,
        hook: Hook,
        row: PluginRow,  # noqa: ARG002 - the ruling is recorded, so its question is not needed
        context: Callable[[], Context],  # noqa: ARG002
        position: Position = START,  # noqa: ARG002
        decisions: Decisions = NO_DECISIONS,  # noqa: ARG002
        consent: Consent = NO_CONSENT,  # noqa: ARG002
    ) -> Ruling:
        """Return the next recorded ruling; raise `ReplayDiffers` if it is not about *hook*."""
        return self._next(hook.hook_name)

    def learns(self, attached_plugins: tuple[AttachedPlugin, ...]) -> bool:
        """Whether any of the plugins has `on_event`."""
        return have_on_event(attached_plugins)

    def learn(
        self,
        events: Sequence[Envelope],  # noqa: ARG002 - the ruling is recorded, so the events are not needed
        row: PluginRow,  # noqa: ARG002
        context: Callable[[], Context],  # noqa: ARG002
        failures: Mapping[str, int],  # noqa: ARG002
    ) -> Ruling:
        """Return the next recorded ruling, which must be of `on_event`."""
        return self._next("on_event")

    def init(self, attached: AttachedPlugin, context: Callable[[], Context]) -> Ruling:  # noqa: ARG002 - the ruling is recorded
        """Return the next recorded ruling, which must be of `init`."""
        return self._next("init")

    def options(self, attached: AttachedPlugin, state: object, new: JsonObject) -> Ruling:  # noqa: ARG002 - the ruling is recorded
        """Return the next recorded ruling, which must be of `on_options`."""
        return self._next("on_options")

    def upgrade(self, attached: AttachedPlugin, state: object) -> Ruling:  # noqa: ARG002 - the ruling is recorded
        """Return the next recorded ruling, which must be of `upgrade`."""
        return self._next("upgrade")

    def check(self, tool: str, revision: int, args: JsonObject, meter: Meter) -> Ruling:  # noqa: ARG002 - the ruling is recorded
        """Return the next recorded ruling, which must be of a check of arguments."""
        return self._next("check")

    def answer(self, schema: JsonObject, answer: JsonObject, prompt: str | None) -> Ruling:  # noqa: ARG002 - the ruling is recorded
        """Return the next recorded ruling, which must be of a check of an answer."""
        return self._next("answer")

    @property
    def left(self) -> int:
        """Number of rulings not used yet; if any are left after a step, the replay differs from the record."""
        return sum(1 for _ in self._rest)

    def check_all_used(self) -> None:
        """Raise `ReplayDiffers` if a recorded ruling was not asked for."""
        if self.left:
            raise ReplayDiffers(self._session, self._number, "its rulings: some were not asked for")


class PluginsAway(RecordedRunner):
    """Hook runner for a step without the code of its session: no plugin is asked, and each hook passes."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(())

    def _next(self, hook: str) -> Ruling:
        return Ruling(hook)
