"""`CandidateRow`: other plugins beside those of a session. It asks them what the session asks, and changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from agentrail.codec.plugin_types import revive
from agentrail.core.vocabulary.state import State
from agentrail.hooks.attachments import AttachedPlugin, attached_plugin, in_order
from agentrail.hooks.context import Context
from agentrail.hooks.hook_runner import Consent, PluginRow, have_on_event
from agentrail.hooks.hook_types import Hook
from agentrail.hooks.live_runner import LiveRunner
from agentrail.hooks.plugin import UNKNOWN, AnyPlugin, state_type
from agentrail.hooks.ruling import ABORT, ASK, HOLD, NO_DECISIONS, START, UNLEARNT, UNRULED, Decisions, Position, Ruling
from agentrail.insight.hook_questions import HookQuestion
from agentrail.values.events.envelope import Envelope
from agentrail.values.events.plugins import PluginError
from agentrail.values.json import JsonObject

FindPlugin = Callable[[AttachedPlugin], AnyPlugin | None]
"""Function that returns the plugin in the place of one that the session has; `None` if none takes its place."""

MakeContext = Callable[[], Context]

ATTACHED_HERE: Final = -1
"""Revision of the plugins that the session does not have; its own have others."""


class _PausedRun(NamedTuple):
    """A run of a hook that waits, and the plugins whose holds it has met."""

    ruling: Ruling
    holders: frozenset[str]


class CandidateAnswer(NamedTuple):
    """What the candidate plugins ruled, with the question as it was put to them."""

    question: HookQuestion
    states: tuple[object, ...]
    """States of the plugins before they were asked."""
    context: Context | None
    """What they were shown of the session; `None` if none of them has the hook."""


class CandidateRow:
    """The plugins of a candidate, with states and paused runs of their own.

    Exact up to the first ruling that differs: until then all that its hooks are shown is what the session would have
    shown them. No state of a session is stepped for it, so no id, number or timer can drift.
    """

    def __init__(self, runner: LiveRunner, find: FindPlugin, added: Mapping[str, AnyPlugin]) -> None:
        self._runner = runner
        self._find = find
        self._added = added
        """Plugins that the session does not have, by key."""
        self._attached: tuple[AttachedPlugin, ...] = ()
        """The plugins, in the order in which they are asked."""
        self._made_of: tuple[AttachedPlugin, ...] | None = None
        """The session's plugins from which that order was made."""
        self._states: dict[str, object] = {}
        self._paused: dict[tuple[str, str], _PausedRun] = {}
        self._turn = 0
        """Number of the last turn of which events were shown."""
        self._failures: Counter[str] = Counter()
        """Failures of `on_event` since the turn began, by key."""
        self.refused: dict[str, str] = {}
        """Why plugins that the session does not have made no first state, by key: it would not begin with them."""
        self._failed: dict[tuple[str, str], str] = {}
        """How plugins failed first, by key and hook."""

    @property
    def problems(self) -> Iterator[str]:
        """Yield in which plugins the candidate is at fault, so that what they would have ruled is not known."""
        for key, why in self.refused.items():
            yield f"`{key}` made no first state, so no session would begin with it: {why}"
        for (key, hook), problem in self._failed.items():
            if key not in self.refused:
                yield f"`{key}` failed in `{hook}`: {problem}"

    def note_failure(self, attached: AttachedPlugin, hook: str, problem: str, _: BaseException | None) -> None:
        """Note that a plugin failed; what its `init` does is compared, or said by `refused`."""
        if hook != "init":
            self._failed.setdefault((attached.key, hook), problem)

    @property
    def attached_plugins(self) -> tuple[AttachedPlugin, ...]:
        """The plugins, in the order in which they are asked."""
        return self._attached

    @property
    def states(self) -> Mapping[str, object]:
        """The states of the plugins, by key."""
        return self._states

    def plugin(self, attached: AttachedPlugin) -> AnyPlugin:
        """Return the plugin that *attached*, of the row, describes."""
        return self._runner.plugin(attached)

    def begin_with(self, state: State) -> None:
        """Take the states that plugins of the same class and options have at the beginning of a fork."""
        if len(state.plugin_states) != len(state.plugins):
            return
        for attached, plugin_state in zip(state.plugins, state.plugin_states, strict=True):
            mine = self.attached_as(attached)
            if mine is not None and (mine.plugin, mine.options) == (attached.plugin, attached.options):
                self._states[mine.key] = _revived(self._runner.plugin(mine), plugin_state)

    def attached_as(self, attached: AttachedPlugin) -> AttachedPlugin | None:
        """Return the description of the plugin in the place of *attached*; `None` if none takes it."""
        plugin = self._find(attached)
        if plugin is None:
            return None
        self._runner.attach(attached.key, attached.revision, plugin)
        return attached_plugin(attached.key, plugin, attached.revision)

    def follow(self, attached_plugins: tuple[AttachedPlugin, ...], context: MakeContext | None = None) -> None:
        """Take over what has changed in the row of the session; new plugins make their first state of *context*."""
        if attached_plugins is not self._made_of:
            self._made_of = attached_plugins
            row = [mine for attached in attached_plugins if (mine := self.attached_as(attached)) is not None]
            keys = {attached.key for attached in attached_plugins}
            row += [self._attach_added(key, plugin) for key, plugin in self._added.items() if key not in keys]
            self._set_row(tuple([row[index] for index in in_order(tuple(row))]))
        if context is not None:
            for attached in self._attached:
                if attached.key not in self._states:
                    ruling = self.init(attached, context)
                    if ruling.verdict is ABORT:
                        self.refused[attached.key] = ruling.reason

    def _attach_added(self, key: str, plugin: AnyPlugin) -> AttachedPlugin:
        self._runner.attach(key, ATTACHED_HERE, plugin)
        return attached_plugin(key, plugin, ATTACHED_HERE)

    def _set_row(self, row: tuple[AttachedPlugin, ...]) -> None:
        """Replace the row; paused runs go on at the same plugins, and states of plugins that left are dropped."""
        old, keys = self._attached, [attached.key for attached in row]
        self._attached = row
        if [attached.key for attached in old] == keys:
            return
        self._states = {key: state for key, state in self._states.items() if key in keys}
        indices = [keys.index(attached.key) if attached.key in keys else len(keys) for attached in old]
        for run, paused in self._paused.items():
            pause = paused.ruling.pause
            if pause is not None and pause.position.index < len(indices):
                position = pause.position.but(index=indices[pause.position.index])
                self._paused[run] = paused._replace(ruling=paused.ruling.but(pause=pause.but(position=position)))

    # Questions

    def join(self, attached: AttachedPlugin, context: MakeContext) -> Ruling | None:
        """Have the plugin in the place of *attached*, which joins, make its first state; `None` if it has one already.

        So it is if the candidate has had a plugin of this key from the beginning, and the session has not.
        """
        mine = self.attached_as(attached)
        if mine is None or (mine.key in self._added and mine.key in self._states):
            return None
        return self.init(mine, context)

    def init(self, attached: AttachedPlugin, context: MakeContext) -> Ruling:
        """Have the plugin *attached* make its first state."""
        ruling = self._runner.init(attached, lambda: self._context(context))
        self._states[attached.key] = ruling.states[0][1] if ruling.states else None
        return ruling

    def options(self, attached: AttachedPlugin, new: JsonObject) -> Ruling | None:
        """Give the plugin *attached* its *new* options; `None` if it has no state yet."""
        if attached.key not in self._states:
            return None
        return self._keep(attached.key, self._runner.options(attached, self._states[attached.key], new))

    def upgrade(self, attached: AttachedPlugin) -> Ruling | None:
        """Have the plugin *attached* make a state of the one that an earlier version had; `None` if it has none."""
        if attached.key not in self._states:
            return None
        return self._keep(attached.key, self._runner.upgrade(attached, self._states[attached.key]))

    def _keep(self, key: str, ruling: Ruling) -> Ruling:
        if ruling.states:
            self._states[key] = ruling.states[0][1]
        return ruling

    def run(
        self, hook: Hook, row: PluginRow, context: MakeContext, position: Position, consent: Consent
    ) -> CandidateAnswer | None:
        """Ask the plugins what those of *row* were asked; `None` if they had ended a run that goes on in the session.

        *position* and *consent* are those of the session's run.
        """
        self.follow(row.attached_plugins, context)
        name = hook.hook_name
        run = (name, ref_of(hook))
        was = self._paused.pop(run, None)
        mine, decisions = START, NO_DECISIONS
        # By value: a call that is asked about for the first time has a position of its own.
        if position != START:
            if was is None or was.ruling.pause is None:
                return None
            mine, decisions = was.ruling.pause.position, was.ruling.decisions.without_events()
            if position.asked is not None:
                mine = mine.but(asked=position.asked, answer=position.answer)
        holders = frozenset[str]() if was is None else was.holders
        if holders and consent.approved is not None:
            consent = consent.but(holders=consent.holders | holders)
        return self._ask(hook, self._row(row), context, mine, decisions, consent, holders)

    def _ask(
        self,
        hook: Hook,
        row: PluginRow,
        context: MakeContext,
        position: Position,
        decisions: Decisions,
        consent: Consent,
        holders: frozenset[str],
    ) -> CandidateAnswer:
        name = hook.hook_name
        listeners = row.listeners(name)
        ruling, ctx = UNRULED[name], None
        if listeners:
            ctx = view = self._context(context)
            ruling = self._runner.run(hook, row, lambda: view, position, decisions, consent)
            for index, state in ruling.states:
                self._states[row.attached_plugins[index].key] = state
        if ruling.pause is not None and ruling.verdict in (ASK, HOLD):
            holder = {ruling.by} if ruling.verdict is HOLD and ruling.by is not None else set[str]()
            self._paused[name, ref_of(hook)] = _PausedRun(ruling, holders | holder)
        question = HookQuestion(ruling, hook, listeners, row.attached_plugins, position, decisions, consent)
        return CandidateAnswer(question, row.states, ctx)

    def _row(self, theirs: PluginRow) -> PluginRow:
        """Return the plugins with their states, without those that the session does not ask this time."""
        among = None
        if theirs.among is not None:
            left_out = {attached.key for attached in theirs.attached_plugins} - theirs.among
            among = frozenset(attached.key for attached in self._attached if attached.key not in left_out)
        states = self._states
        return PluginRow(self._attached, tuple([states.get(attached.key) for attached in self._attached]), among)

    def learn(
        self, events: Sequence[Envelope], attached_plugins: tuple[AttachedPlugin, ...], context: MakeContext
    ) -> Ruling:
        """Show *events* of a step to the plugins with `on_event`."""
        self.follow(attached_plugins, context)
        # Counted from the beginning of a turn, as the machine does. Its first events may have been shown to nobody.
        turn = max((envelope.turn for envelope in events), default=0)
        if turn > self._turn:
            self._turn = turn
            self._failures.clear()
        if not self.learns:
            return UNLEARNT
        row = PluginRow(self._attached, tuple([self._states.get(attached.key) for attached in self._attached]))
        ruling = self._runner.learn(events, row, lambda: self._context(context), dict(self._failures))
        for index, state in ruling.states:
            self._states[self._attached[index].key] = state
        self._failures.update(error.plugin for error in ruling.errors if isinstance(error, PluginError))
        return ruling

    @property
    def learns(self) -> bool:
        """Whether any of the plugins has `on_event`."""
        return have_on_event(self._attached)

    def _context(self, context: MakeContext) -> Context:
        """Return the view of the session with the money that the limits of these plugins leave."""
        ctx = context()
        limits = [attached.money_limit for attached in self._attached if attached.money_limit is not None]
        rests = [limit.dollars_left(ctx.usage, ctx.elsewhere) for limit in limits]
        least = min((rest for rest in rests if rest is not None), default=None)
        return ctx if least == ctx.budget_left else ctx.but(budget_left=least)


def _revived(plugin: AnyPlugin, state: object) -> object:
    """Return *state* as the plugin has it: a journal may return it as data."""
    type_ = state_type(type(plugin))
    return state if type_ is UNKNOWN or state is None else revive(type_, state)


def ref_of(hook: Hook) -> str:
    """Return what tells two runs of the same hook apart: the id of the call or of the prompt; empty if nothing does."""
    ref: object = getattr(hook, "call_id", "") or getattr(hook, "ref", "")
    return ref if isinstance(ref, str) else ""
