"""Draft of a step: a mutable copy of the state, with the effects and events gathered so far.

A step must not change the state that it is given, and changes a few of its many fields. So `drafted` copies the state
once, as a `Draft`, whose fields can be set; the handlers of the step set them on `StepDraft.state`; at the end `frozen`
turns that very object into the new `State`, and `Change` notes which fields differ from those of the old one.
"""

from __future__ import annotations

from collections import deque

from agentrail.core.system_prompt import NO_PAIRS, memory_of, pairs_of
from agentrail.core.vocabulary.commands import Answer, Refused, SteerSent
from agentrail.core.vocabulary.effects import AnyEffect, ClearTimer, SetTimer
from agentrail.core.vocabulary.options import Spare
from agentrail.core.vocabulary.state import NOBODY_ASKED, AskedBy, Draft, State, Steering, Suspension, Turn
from agentrail.core.vocabulary.tool_calls import Call, CallList, Doubt, marked
from agentrail.errors import AgentrailError
from agentrail.hooks.context import Context
from agentrail.hooks.hook_runner import HookRunner
from agentrail.hooks.ruling import Ruling, Section, Switch
from agentrail.values.events.envelope import Envelope, Event
from agentrail.values.events.response import ModelOptionsChanged, ModelSwitched
from agentrail.values.json import EMPTY, JsonObject
from agentrail.values.messages import AssistantMessage, Message
from agentrail.values.step_budget import Meter
from agentrail.values.stream import NOTHING_YET, Partial
from agentrail.values.usage import NOTHING_USED, Usage
from agentrail.values.value import quick

_context = quick(Context)
_envelope = quick(Envelope)


class StepDraft:
    """Working data of one step: the mutable state, and the effects, events and rulings so far; discarded at its end."""

    __slots__ = (
        "answer",
        "at",
        "by",
        "calls",
        "due",
        "effects",
        "events",
        "forgotten",
        "hook_runner",
        "meter",
        "partial",
        "random",
        "request",
        "response",
        "rulings",
        "settles",
        "state",
        "steer_command",
        "steer_text",
        "subjects",
        "timer_names",
        "wakes",
    )

    def __init__(
        self,
        draft: Draft,
        hook_runner: HookRunner,
        now_ms: int,
        random: float,
        partial: Partial = NOTHING_YET,
        by: str = "",
        request: str = "",
    ) -> None:
        self.state = draft
        self.hook_runner = hook_runner
        self.at = now_ms
        self.by = by
        self.request = request
        self.random = random
        self.effects: list[AnyEffect] = []
        self.events: list[Envelope] = []
        self.rulings: list[Ruling] = []
        self.answer: Answer | None = None
        self.steer_command: SteerSent | None = None
        self.steer_text: Steering | None = None
        self.meter: Meter | None = None
        self.partial = partial
        self.response: AssistantMessage | None = None
        self.subjects: tuple[str, dict[str, int]] | None = None
        self.timer_names: set[str] | None = None
        self.forgotten: tuple[Doubt, ...] = ()  # doubts that this step has removed; `recall` puts them back
        self.calls: CallList | None = None  # the calls of the open batch, once this step has copied them
        self.due: deque[tuple[str, str]] = deque()  # hooks to run: name, and id of the call or text that each is about
        self.wakes = False  # whether work that an earlier process left is to go on, before any hook that is due
        self.settles = False  # whether to choose what comes next, as no turn is open, once no hook is due

    # Saying and asking

    @property
    def asked_by(self) -> AskedBy:
        """The caller of this step's command, and the id of the request by which it was given."""
        return AskedBy((self.by,) if self.by else (), self.request) if self.by or self.request else NOBODY_ASKED

    def emit(self, *events: Event, by: str = "") -> None:
        """Emit *events* with the next sequence numbers; *by* is who caused them (default: the caller of the step)."""
        state = self.state
        turn = state.turn_count if state.turn is not None else 0
        for event in events:
            state.last_seq += 1
            self.events.append(
                _envelope(
                    state.session_id,
                    state.last_seq,
                    0,
                    self.at,
                    turn,
                    state.round,
                    event,
                    state.setup.path,
                    by or self.by,
                )
            )

    def add_effect(self, effect: AnyEffect) -> None:
        """Ask the runtime to carry out *effect*."""
        self.effects.append(effect)

    def refuse(self, error: AgentrailError) -> None:
        """Refuse the command with *error*, as the answer to its caller."""
        self.answer = Refused.of(error)

    def make_id(self, prefix: str) -> str:
        """Return an id that is unique in the session."""
        self.state.last_id += 1
        return f"{prefix}{self.state.last_id}"

    def make_decision_id(self, kind: str) -> str:
        """Return an id for a person's decision or answer, which no other session makes, not even one with this id."""
        return marked(self.make_id(f"{self.state.session_id}:{kind}"), self.state.incarnation)

    def key_of(self, started: Call | Suspension) -> str:
        """Return the idempotency key of a call, or of an ask for a tool: the same for every attempt, and its alone.

        A session that is begun anew under the same id counts its calls from the start, so the key has the incarnation
        in which the first attempt started.
        """
        id_ = started.call_id if isinstance(started, Call) else started.ask_id
        return marked(f"{self.state.session_id}/{id_}", started.incarnation)

    # Timers

    def has_timer(self, timer: str) -> bool:
        """Whether *timer* is set."""
        return timer in self._timers()

    def set_timer(self, timer: str, due_ms: int) -> None:
        """Set *timer* to fire at *due_ms*; it replaces one of the same name."""
        names = self._timers()
        if timer in names:
            self.drop_timer(timer)
        names.add(timer)
        self.state.timers = (*self.state.timers, (timer, due_ms))
        self.effects.append(SetTimer(timer, due_ms))

    def clear_timer(self, timer: str) -> None:
        """Delete *timer*. No-op if it is not set."""
        if timer in self._timers():
            self.drop_timer(timer)
            self.effects.append(ClearTimer(timer))

    def drop_timer(self, timer: str) -> None:
        """Remove *timer*, which must be set, from the state."""
        self._timers().remove(timer)
        self.state.timers = tuple([other for other in self.state.timers if other[0] != timer])

    def _timers(self) -> set[str]:
        """The names of the timers that are set, as a mutable set, because one step may set thousands."""
        if self.timer_names is None:
            self.timer_names = set(dict(self.state.timers))
        return self.timer_names

    # Counts for loop detection

    def subjects_of(self, turn: Turn) -> dict[str, int]:
        """Return the number of calls per subject in *turn*, as a dict to change; `keep_subjects` stores it.

        A dict, because one step may count thousands of calls.
        """
        if self.subjects is None or self.subjects[0] != turn.ref:
            self.subjects = (turn.ref, dict(turn.subjects))
        return self.subjects[1]

    def keep_subjects(self, subjects: tuple[str, dict[str, int]]) -> None:
        """Store the counts of `subjects_of` in the open turn; called at the end of the step."""
        turn = self.state.turn
        if turn is not None and subjects[0] == turn.ref:
            self.state.turn = turn.but(subjects=tuple(subjects[1].items()))

    # The conversation

    def append_messages(self, *messages: Message) -> None:
        """Append *messages* to the history."""
        self.state.history = self.state.history.and_(*messages)

    def add_usage(self, usage: Usage) -> None:
        """Add *usage* to the session's total."""
        if usage is not NOTHING_USED:
            self.state.usage = self.state.usage.plus(usage)

    def switch_model(
        self,
        model: str,
        options: JsonObject,
        by: str | None = None,
        spares: tuple[Spare, ...] = (),
        priced: frozenset[str] = frozenset(),
    ) -> None:
        """Set the session's model and its fallback models."""
        state = self.state
        if not priced <= state.priced_models:
            state.priced_models |= priced
        if spares != state.fallbacks:
            state.fallbacks = spares
        if (model, options) != (state.model, state.model_options):
            self.emit_switch((state.model, state.model_options), (model, options), by)
            if state.last_request_model is None:
                # Noted, so that the first request to the new model is reported as a switch too.
                state.last_request_model = (state.model, state.model_options)
            state.model, state.model_options = model, options

    def emit_switch(
        self, old: tuple[str, JsonObject], new: tuple[str, JsonObject], by: str | None = None, reason: str | None = None
    ) -> None:
        """Report that the model, its options or both change from *old* to *new*. No-op if they are the same."""
        if old[0] != new[0]:
            self.emit(ModelSwitched(old[0], new[0], old[1] != new[1], by, reason))
        elif old[1] != new[1]:
            self.emit(ModelOptionsChanged(new[0], by, reason))

    def record_ruling(self, ruling: Ruling, *, report: bool = True) -> None:
        """Record *ruling* and the plugin states it changed; with *report*, emit an event per plugin that failed."""
        self.rulings.append(ruling)
        if ruling.states:
            states = list(self.state.plugin_states)
            for attached, new in ruling.states:
                states[attached] = new
            self.state.plugin_states = tuple(states)
        if report and ruling.errors:
            self.emit(*ruling.errors)

    def apply(self, ruling: Ruling) -> None:
        """Apply the parts of a ruling that every hook allows: sections of the system prompt, and a model."""
        decisions = ruling.decisions
        if decisions.sections:
            self.put_sections(decisions.sections)
        if decisions.switch is not None:
            self.use_model(decisions.switch)

    def put_sections(self, changed: tuple[Section, ...]) -> None:
        """Set or remove sections of the system prompt, in order."""
        sections = {section.key: section for section in self.state.sections}
        for section in changed:
            old = sections.get(section.key)
            if old is not None and (old.text, old.layer) == (section.text, section.layer):
                continue  # keeps its place, so that the provider's cache still fits
            sections.pop(section.key, None)
            if section.text is not None:
                sections[section.key] = section
        self.state.sections = tuple(sections.values())

    def drop_turn(self) -> None:
        """Close the turn in the state."""
        self.state.turn = None
        self.state.round = 0

    def use_model(self, switch: Switch) -> None:
        """Switch to the model that a plugin chose from the next request on; the same model keeps its fallbacks."""
        state = self.state
        priced = frozenset({switch.model}) if switch.priced else frozenset[str]()
        spares = state.fallbacks if switch.model == state.model else ()
        self.switch_model(switch.model, switch.options, switch.plugin, spares, priced)
        if state.turn is not None:
            remaining = state.turn.spares if switch.model == state.turn.model else ()
            state.turn = state.turn.but(model=switch.model, options=switch.options, spares=remaining)

    def context(self) -> Context:
        """Return the view of the session that plugins get, built anew for each hook."""
        state = self.state
        setup, turn, sections, path = state.setup, state.turn, state.sections, state.setup.path
        worked = state.worked_ms if state.working_since_ms is None else state.worked(self.at)
        if turn is None:
            model, options, spares = state.model, state.model_options, state.fallbacks
            number, turn_usage, turn_worked = 0, NOTHING_USED, 0
        else:
            model, options, spares = turn.model, turn.options, turn.spares
            number, turn_usage = state.turn_count, state.usage.minus(turn.used)
            turn_worked = max(0, worked - turn.worked_ms) if worked else 0
        # By position: by name it would take five times as long, at each hook. Each line names its field; a swap fails
        # tests/core/test_context_of_step.py::test_each_field_of_the_context_has_its_own_value
        return _context(
            state.session_id,
            setup.working_dir,
            model,
            options,  # model_options
            setup.prompt_mode,
            number,  # turn
            state.round,
            state.usage,
            turn_usage,
            state.shared_usage,  # elsewhere
            worked,  # worked_ms
            turn_worked,  # turn_worked_ms
            state.shared_worked_ms,  # worked_elsewhere_ms
            _is_price_known(state.priced_models, model, spares),
            self._budget_left(),
            state.todos,
            pairs_of(sections) if sections else NO_PAIRS,  # sections
            tuple(state.tools),
            setup.agents,  # subagents
            setup.user_data,
            memory_of(sections) if sections else EMPTY,  # memory_contents
            state.last_text,  # last_assistant_reply
            state.approved_always,
            self.at,  # now_ms
            path[::2] if path else path,
            path[-2] if path else None,  # parent
            _returns(state),
        )

    def _budget_left(self) -> float | None:
        """Return the US dollars left under the tightest limit; `None` without a limit, or if the cost is unknown."""
        state = self.state
        least: float | None = None
        for attached in state.plugins:  # a plain loop, as this is asked for at each hook, and few plugins have a limit
            if attached.money_limit is not None:
                money_left = attached.money_limit.dollars_left(state.usage, state.shared_usage)
                least = money_left if least is None or (money_left is not None and money_left < least) else least
        return least


def _is_price_known(priced_models: frozenset[str], model: str, spares: tuple[Spare, ...]) -> bool:
    """Whether there is a price for *model* and for each that may take its place."""
    return model in priced_models and (not spares or priced_models.issuperset([spare.model for spare in spares]))


def _returns(state: State) -> JsonObject:
    """Return the JSON Schema of the answer of the turn that a prompt would start, else of the open turn."""
    work = state.turn if state.next_prompt is None else state.next_prompt
    return EMPTY if work is None else work.returns or (state.setup if state.agent is None else state.agent).returns
