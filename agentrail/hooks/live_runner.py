"""`LiveRunner`: the hook runner of a live session, which runs the plugins' code."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeVar, cast

from agentrail.errors import BrokenPlugin, PluginRefused
from agentrail.hooks.actions import Action
from agentrail.hooks.attachments import AttachedPlugin
from agentrail.hooks.context import Context, Log
from agentrail.hooks.declarations import EventLines, UsageLimits
from agentrail.hooks.hook_run import Complain, LiveHookRun, nobody_listens
from agentrail.hooks.hook_runner import (
    NO_CONSENT,
    AnswerChecks,
    AnswerForm,
    Askers,
    Consent,
    Method,
    ModelCheck,
    PluginEntry,
    PluginRow,
    PriceCheck,
    ReadAnswer,
    StateCheck,
    Storable,
    first_spoken,
)
from agentrail.hooks.hook_types import BeforeTool, Hook
from agentrail.hooks.plugin import ON_EVENT, SCREEN, AnyPlugin, Plugin, find_declaration, takes_none
from agentrail.hooks.ruling import (
    ANSWERS,
    FITS,
    NO_DECISIONS,
    START,
    UNLEARNT,
    UNRULED,
    Decisions,
    PluginAnswer,
    Position,
    Ruling,
    Verdict,
    answer_failed,
    check_failed,
)
from agentrail.values.events.envelope import Envelope, Event
from agentrail.values.events.plugins import PluginError, PluginSlow
from agentrail.values.json import MAX_DEPTH, MAX_ITEMS, Json, JsonObject, excess, freeze_object
from agentrail.values.step_budget import Meter
from agentrail.values.untrusted_content import fit_text
from agentrail.values.untrusted_values import MAX_MESSAGE_CHARS, brief, error_text, mended
from agentrail.values.value import Value

T = TypeVar("T")

Validator = Callable[[JsonObject, Meter], str | None]

Misfit = Callable[[JsonObject, JsonObject], str | None]
"""Function that returns why an object (second) does not fit a JSON Schema (first); `None` if it fits."""

MAX_FAILURES: Final = 3
"""Failures of `on_event` in one turn after which a plugin gets no more events until the next turn."""

UNHEARD: Final[frozenset[type[Event]]] = frozenset({PluginSlow})
"""The events that are never passed to `on_event`.

`PluginSlow` reports a slow `on_event`. If it were passed to `on_event`, that might be slow again, and so on for ever.
`PluginError` needs no such exception, because `MAX_FAILURES` limits it.
"""

MAX_ARGUMENT_CHARS: Final = 1_000_000
"""How many characters of text the arguments of one call may have: more than any model writes, and quick to check."""

_UNREAD: Final = ""
"""The only key of arguments that were no valid JSON; a model adapter puts the invalid text under it."""

STATE_MISSING: Final = "its `init` returned nothing (is a `return` missing?), and its class declares another state"

Data = Callable[[object], Json]
"""Function that returns a plugin's stored state as JSON."""

_NO_PLUGINS: Final[Mapping[tuple[str, int], AnyPlugin]] = MappingProxyType({})
_NO_VALIDATORS: Final[Mapping[tuple[str, int], Validator]] = MappingProxyType({})
"""What a session without plugins or tools holds, of which there may be many."""


def any_model(_: str, _options: JsonObject) -> str | None:
    """Default `ModelCheck`: accept any model name."""
    return None


def no_price(_: str, _options: JsonObject) -> bool:
    """Default `PriceCheck`: no price is known."""
    return False


def comes_back(_: AnyPlugin, _state: object) -> str | None:
    """Default `StateCheck`: accept any state, because no journal reads it."""
    return None


def no_schemas(_: JsonObject, _answer: JsonObject) -> str | None:
    """Default `Misfit`: refuse each answer, because no schema can be checked."""
    return "it cannot be checked here"


def as_it_is(state: object) -> Json:
    """Default `Data`: return the state itself. It is enough if no state is stored."""
    return cast("Json", state)


class Audience(Value, gc=True):
    """The plugins of a session by what they want: who hears, learns, limits, screens or writes lines."""

    attached_plugins: tuple[AttachedPlugin, ...]
    """All of them."""
    entries: Mapping[str, tuple[PluginEntry, ...]]
    """Those that have a method, by its name: a hook, `on_event` or `screen`; in the order in which they are asked."""
    lines: tuple[EventLines, ...]
    """How durable events are to be written to the log."""
    limits: tuple[tuple[AttachedPlugin, UsageLimits], ...]
    """Limits of what the session may use, each with the plugin that declares it, in their order."""
    amends: bool
    """Whether any of them screens texts, or may abort a turn when it is shown an event."""


NO_AUDIENCE: Final = Audience((), MappingProxyType({}), (), (), amends=False)


class LiveRunner:
    """Runs plugins and validators.

    It holds only code, by key and revision; the session holds the states of the plugins.
    """

    __slots__ = (
        "_audience",
        "_checks",
        "_data",
        "_forms",
        "_misfit",
        "_plugins",
        "_validators",
        "askers",
        "complain",
    )

    def __init__(
        self,
        storable: Storable,
        why_no_model: ModelCheck = any_model,
        has_price: PriceCheck = no_price,
        data: Data = as_it_is,
        misfit: Misfit = no_schemas,
        forms: Sequence[AnswerForm] = (),
        why_lost: StateCheck = comes_back,
    ) -> None:
        self._data = data
        self._forms = forms
        self._misfit = misfit
        self._plugins: Mapping[tuple[str, int], AnyPlugin] = _NO_PLUGINS
        self._validators: Mapping[tuple[str, int], Validator] = _NO_VALIDATORS
        self._checks = AnswerChecks(storable, why_no_model, has_price, why_lost)
        self._audience = NO_AUDIENCE
        self.askers: Askers | None = None
        self.complain: Complain = nobody_listens

    def copy(self, why_no_model: ModelCheck) -> LiveRunner:
        """Return a runner with the same code for another session; what comes or goes in one, the other does not see."""
        checks = self._checks
        copy = LiveRunner(
            checks.storable,
            why_no_model,
            checks.has_price,
            self._data,
            self._misfit,
            self._forms,
            checks.why_lost,
        )
        # Each of them makes its own mapping when it adds something.
        copy._plugins = self._plugins = _read_only(self._plugins)
        copy._validators = self._validators = _read_only(self._validators)
        return copy

    def why_no_model(self, name: str, options: JsonObject) -> str | None:
        """Return why the model of this name cannot be used with these options; `None` if it can."""
        return self._checks.why_no_model(name, options)

    def attach(self, key: str, revision: int, plugin: AnyPlugin) -> None:
        """Add the code of *plugin* under the key and revision of its description."""
        if not isinstance(self._plugins, dict):
            self._plugins = dict(self._plugins)
        self._plugins[key, revision] = plugin

    def plugin(self, attached: AttachedPlugin) -> AnyPlugin:
        """Return the plugin that *attached* describes."""
        return self._plugins[attached.key, attached.revision]

    def tool(self, name: str, revision: int, validator: Validator) -> None:
        """Add the *validator* of a tool's arguments."""
        if not isinstance(self._validators, dict):
            self._validators = dict(self._validators)
        self._validators[name, revision] = validator

    def keep(self, plugins: Container[tuple[str, int]], tools: Container[tuple[str, int]]) -> None:
        """Drop the code of all plugins and validators except the given ones."""
        self._plugins = {code: plugin for code, plugin in self._plugins.items() if code in plugins}
        self._validators = {code: validator for code, validator in self._validators.items() if code in tools}

    def audience(self, attached_plugins: tuple[AttachedPlugin, ...]) -> Audience:
        """Return who of the plugins wants what; found out again only when the plugins have changed."""
        audience = self._audience
        return audience if attached_plugins is audience.attached_plugins else self._find_audience(attached_plugins)

    def _find_audience(self, attached_plugins: tuple[AttachedPlugin, ...]) -> Audience:
        """Find out who of the plugins wants what, and note it for `audience`."""
        row: dict[str, list[PluginEntry]] = {}
        plugins = [(attached, self._plugins[attached.key, attached.revision]) for attached in attached_plugins]
        for index, (attached, plugin) in enumerate(plugins):
            for hook in attached.hooks:
                method = cast("Method", getattr(plugin, hook))
                row.setdefault(hook, []).append(PluginEntry(index, attached, method, plugin))
        lines = [find_declaration(plugin, EventLines) for _, plugin in plugins]
        limits = [(attached, find_declaration(plugin, UsageLimits)) for attached, plugin in plugins]
        self._audience = Audience(
            attached_plugins,
            {hook: tuple(entries) for hook, entries in row.items()},
            tuple([declaration for declaration in lines if declaration is not None]),
            tuple([(attached, declaration) for attached, declaration in limits if declaration is not None]),
            SCREEN in row or any(attached.critical and ON_EVENT in attached.hooks for attached in attached_plugins),
        )
        return self._audience

    def unheard(self, hook: str, attached_plugins: tuple[AttachedPlugin, ...]) -> Ruling | None:
        """Return the ruling if no plugin has the hook of this name; `None` if `rule` must be called."""
        if not attached_plugins:
            return UNRULED[hook]
        return None if hook in self.audience(attached_plugins).entries else UNRULED[hook]

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
        entries = self.audience(row.attached_plugins).entries.get(hook.hook_name)
        if entries is None:
            return UNRULED[hook.hook_name]
        if row.among is not None:
            entries = _among(row.among, entries)
        ctx, spoken = context(), None
        if position is START and decisions is NO_DECISIONS and type(hook) is not BeforeTool:
            spoken = first_spoken(entries, hook, row.states, ctx)
            if spoken is None:
                return UNRULED[hook.hook_name]
        hook_run = LiveHookRun(hook, row.states, ctx, decisions, consent, self._checks, self.complain)
        return hook_run.run(entries, position, spoken)

    def learns(self, attached_plugins: tuple[AttachedPlugin, ...]) -> bool:
        """Whether any of the plugins has `on_event`."""
        return ON_EVENT in self.audience(attached_plugins).entries

    def learn(
        self, events: Sequence[Envelope], row: PluginRow, context: Callable[[], Context], failures: Mapping[str, int]
    ) -> Ruling:
        """Pass *events* to plugins with `on_event`, except those of `UNHEARD`; one that fails too often gets none."""
        ctx = context()
        states: dict[int, object] = {}
        errors: list[Event] = []
        logs: list[tuple[str, str, JsonObject]] = []
        loggers: list[PluginAnswer] = []
        broke_critical = None
        for entry in self.audience(row.attached_plugins).entries.get(ON_EVENT, ()):
            failed = failures.get(entry.attached.key, 0)
            on_event = cast("Callable[[Envelope, object, Context], object]", entry.method)
            old_state = state = row.states[entry.index]
            for envelope in events:
                if failed >= MAX_FAILURES:
                    break
                if type(envelope.event) in UNHEARD:
                    continue
                try:
                    answer = on_event(envelope, state, ctx)
                    if answer is not state:
                        state = self._new_state(entry, answer, state, logs)
                except BaseException as error:  # noqa: BLE001, ASYNC103 - a plugin may raise anything; it is reported
                    problem = error_text(error)
                    self.complain(entry.attached, ON_EVENT, problem, error)
                    errors.append(PluginError(entry.attached.key, ON_EVENT, problem))
                    failed += 1
                    broke_critical = entry.attached.key if entry.attached.critical else broke_critical
            loggers += [PluginAnswer(entry.attached.key, "log")] * (len(logs) - len(loggers))
            if state is not old_state:
                states[entry.index] = state
        if not (states or errors or logs):
            return UNLEARNT
        return Ruling(
            ON_EVENT,
            *_outcome(broke_critical),
            states=tuple(states.items()),
            errors=tuple(errors),
            logs=tuple(logs),
            answers=tuple(loggers),
        )

    def _new_state(
        self, entry: PluginEntry, answer: object, state: object, logs: list[tuple[str, str, JsonObject]]
    ) -> object:
        """Return the new state in the *answer* of a plugin's `on_event`, and add its log line to *logs*."""
        if isinstance(answer, Log):
            line = cast("Log[object]", answer)
            logs.append((fit_text(line.level), fit_text(line.message), freeze_object(line.fields)))
            answer = line.state
        if isinstance(answer, Action):
            raise BrokenPlugin(entry.attached.key, ON_EVENT, f"it returned `{answer.kind}` where its state is wanted")
        problem = None if answer is state else self._checks.state_problem(entry.plugin, answer)
        if problem is not None:
            raise BrokenPlugin(entry.attached.key, ON_EVENT, problem)
        return answer

    def init(self, attached: AttachedPlugin, context: Callable[[], Context]) -> Ruling:
        """Call `init` of a new plugin; the ruling has its first state."""
        plugin = cast("Plugin[object]", self._plugins[attached.key, attached.revision])
        return self._stateful("init", attached, plugin, lambda: plugin.init(context()))

    def options(self, attached: AttachedPlugin, state: object, new: JsonObject) -> Ruling:
        """Call `on_options` of the plugin in *attached* with its *new* options; return a ruling with its new state."""
        plugin = cast("Plugin[object]", self._plugins[attached.key, attached.revision])
        return self._stateful("on_options", attached, plugin, lambda: plugin.on_options(new, state))

    def upgrade(self, attached: AttachedPlugin, state: object) -> Ruling:
        """Call `upgrade` of the plugin *attached* with its *state* of an earlier version; the ruling has a new one."""
        plugin = cast("Plugin[object]", self._plugins[attached.key, attached.revision])
        return self._stateful("upgrade", attached, plugin, lambda: plugin.upgrade(self._data(state)))

    def _stateful(self, hook: str, attached: AttachedPlugin, plugin: AnyPlugin, call: Callable[[], object]) -> Ruling:
        """Return a ruling with the state that *call* returns; it is an abort if *call* or storing the state fails."""
        try:
            state = call()
            is_missing = hook == "init" and state is None and not takes_none(type(plugin))
            problem = STATE_MISSING if is_missing else self._checks.state_problem(plugin, state)
        except PluginRefused as refusal:
            return Ruling(hook, Verdict.ABORT, attached.key, _reason(refusal))
        except BaseException as error:  # noqa: BLE001, ASYNC103 - a plugin may raise anything; it is reported
            problem = error_text(error)
            self.complain(attached, hook, problem, error)
            return Ruling(hook, Verdict.ABORT, attached.key, problem, critical=True)  # noqa: ASYNC104 - it is reported
        if problem is not None:
            return Ruling(hook, Verdict.ABORT, attached.key, problem, critical=True)
        return Ruling(hook, states=((0, state),))

    def check(self, tool: str, revision: int, args: JsonObject, meter: Meter) -> Ruling:
        """Check whether *args* fit the schema of *tool*, and are not too large."""
        more = excess(args, MAX_ARGUMENT_CHARS, MAX_ITEMS)
        if len(args) == 1 and _UNREAD in args:
            limits = f"{MAX_DEPTH} levels or {MAX_ITEMS} keys and items"
            problem: str | None = f"they are no JSON object, or one of more than {limits}"
        elif more is not None:
            problem = f"they {more}; send less in one call"
        else:
            problem = self._validators[tool, revision](args, meter)
        return FITS if problem is None else check_failed(problem)

    def answer(self, schema: JsonObject, answer: JsonObject, prompt: str | None) -> Ruling:
        """Check whether *answer* of a turn fits *schema*, and the class that the caller asked for, if known.

        The class is known while a caller of *prompt* waits, or if this process sent the prompt and its caller does not
        wait, or if the specification of the session gave it (*prompt* is `None`).
        """
        problem = self._misfit(schema, answer)
        if problem is None:
            problem = refused(self._readers(schema, prompt), answer)
        return ANSWERS if problem is None else answer_failed(problem)

    def _readers(self, schema: JsonObject, prompt: str | None) -> Sequence[ReadAnswer]:
        """Return the functions that make an object of the answer to *prompt*; those of the spec if it is `None`."""
        if prompt is not None:
            return () if self.askers is None else self.askers.readers(prompt)
        # From the current specifications, which may want other forms than the session was made with.
        return [form.read for form in self._forms if form.schema == schema][:1]


def _among(keys: frozenset[str], entries: tuple[PluginEntry, ...]) -> tuple[PluginEntry, ...]:
    """Return the *entries* of plugins with one of these *keys*."""
    return tuple([entry for entry in entries if entry.attached.key in keys])


def _read_only(code: Mapping[tuple[str, int], T]) -> Mapping[tuple[str, int], T]:
    """Return *code* as a mapping into which nothing can be put."""
    return MappingProxyType(code) if isinstance(code, dict) else code


def why_refused(error: BaseException) -> str:
    """Return the reason in *error*, which a class raised for an answer; raise an interrupt (Ctrl-C) again."""
    return f"its class refuses it: {error_text(error)}"[:MAX_MESSAGE_CHARS]


def refused(readers: Sequence[ReadAnswer], answer: JsonObject) -> str | None:
    """Return why the first of *readers* refuses *answer*; `None` if all of them make an object of it."""
    for reader in readers:
        try:
            reader(answer)
        except BaseException as error:  # noqa: BLE001, ASYNC103 - a class may raise anything, as a plugin may
            return why_refused(error)  # noqa: ASYNC104 - it is reported
    return None


def _reason(refusal: PluginRefused) -> str:
    """Return the reason in *refusal* as text, even if the plugin gave another type."""
    reason: object = refusal.args[0] if refusal.args else ""
    return mended(reason)[:MAX_MESSAGE_CHARS] if type(reason) is str else brief(reason)


def _outcome(broke_critical: str | None) -> tuple[Verdict, str | None, str, bool]:
    """Return the first fields of the ruling of `on_event`: it aborts if a plugin marked `critical` failed."""
    if broke_critical is None:
        return Verdict.PASS, None, "", False
    return Verdict.ABORT, broke_critical, "its `on_event` failed", True
