"""`LiveHookRun`: runs one hook of all plugins in order, and combines their actions to a ruling."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Final, cast

from agentrail.errors import BrokenPlugin, NotJson
from agentrail.hooks.action_checks import answer_of, is_reportable, plugin_event, why_malformed
from agentrail.hooks.actions import (
    UNCHANGED,
    Abort,
    Action,
    AddContext,
    Ask,
    BlockTool,
    CallModel,
    Continue,
    Emission,
    Emit,
    HoldTool,
    Intervene,
    ReplaceMessages,
    ReplacePrompt,
    ReplaceResponse,
    ReplaceToolArgs,
    ReplaceToolResult,
    SetSection,
    Skip,
    SwitchModel,
)
from agentrail.hooks.attachments import AttachedPlugin
from agentrail.hooks.context import Context
from agentrail.hooks.hook_runner import AnswerChecks, Consent, FirstAction, PluginEntry
from agentrail.hooks.hook_types import BeforeTool, Hook
from agentrail.hooks.plugin import MATRIX
from agentrail.hooks.ruling import (
    ABORT,
    ASK,
    BLOCK,
    HOLD,
    NO_DECISIONS,
    PASS,
    SKIP,
    START,
    UNRULED,
    WHEN_CRITICAL_BREAKS,
    Decisions,
    Pause,
    PluginAnswer,
    Position,
    Ruling,
    Switch,
    Verdict,
)
from agentrail.values.events.envelope import Event
from agentrail.values.events.plugins import PluginError
from agentrail.values.json import EMPTY, is_same
from agentrail.values.untrusted_values import brief, error_text, message_of, type_name

MAX_ASKS: Final = 8
"""The most times that one plugin may return `Ask` in one run of a hook; once more counts as its failure."""

Complain = Callable[[AttachedPlugin, str, str, BaseException | None], None]
"""Function that logs a failing plugin: its description, the hook, the error as text, and the exception."""


def nobody_listens(_attached: AttachedPlugin, _hook: str, _problem: str, _error: BaseException | None) -> None:
    """No-op: a `Complain` that logs nothing; the ruling contains the error too."""


class LiveHookRun:
    """One run of one hook, until all plugins were asked, one ended it, or one paused it by `Ask` or `HoldTool`."""

    __slots__ = (
        "answers",
        "changed",
        "checks",
        "complain",
        "consent",
        "ctx",
        "decisions",
        "errors",
        "final",
        "hook",
        "original_hook",
        "states",
    )

    def __init__(
        self,
        hook: Hook,
        states: tuple[object, ...],
        ctx: Context,
        decisions: Decisions,
        consent: Consent,
        checks: AnswerChecks,
        complain: Complain,
    ) -> None:
        self.original_hook = hook
        self.hook = hook if decisions is NO_DECISIONS else decisions.shown_in(hook)
        self.ctx = ctx
        self.consent = consent
        self.checks = checks
        self.complain = complain
        self.states = list(states)
        self.changed: dict[int, object] = {}
        self.errors: list[Event] = []
        self.answers: list[PluginAnswer] = []
        self.decisions = decisions
        self.final = False

    def run(self, entries: tuple[PluginEntry, ...], position: Position, spoken: FirstAction | None = None) -> Ruling:
        """Run the hook of *entries* from *position* on, and return the ruling.

        *spoken* is the first action, if the caller has found it already; the run continues after that plugin. If a
        plugin has replaced the arguments of a call, critical plugins that were asked before it are asked again.
        """
        stopped = None
        if not position.final:
            stopped = self._ask(entries, position) if spoken is None else self._hear(entries, spoken)
            if stopped is not None and stopped.verdict is not SKIP:
                return stopped
            position = START
        last_replaced = self.decisions.replaced_at
        guards = tuple([entry for entry in entries if entry.index < last_replaced and entry.attached.critical])
        if guards:
            self.final = True
            stopped = self._ask(guards, position)
        return stopped or self._passed()

    def _passed(self) -> Ruling:
        """Return the ruling of a run that no plugin ended; a shared empty one if all returned a plain `Continue`."""
        is_told = self.decisions is not NO_DECISIONS or self.changed or self.errors or self.answers
        return self.ruling(PASS) if is_told else UNRULED[self.hook.hook_name]

    def _ask(self, entries: tuple[PluginEntry, ...], position: Position) -> Ruling | None:
        """Call the hook of each plugin from *position* on; return a ruling as soon as one ends or pauses the run."""
        first, hook = position.index, self.hook
        # If a person has approved the call, or critical plugins are asked again, plugins do not all get the same hook:
        # its `approved` and `final` differ.
        judged = self.final or self.consent.approved is not None
        changes = position.asked is not None or (
            isinstance(hook, BeforeTool) and (judged or hook.approved or hook.final)
        )
        for entry in entries:
            index = entry.index
            if index < first:
                continue
            hook = self._visible_hook(entry, position) if changes else self.hook
            plugin_state = self.states[index]
            try:
                answer: object = entry.method(hook, plugin_state, self.ctx)
                if type(answer) is Continue:
                    went_on = cast("Continue[object]", answer)
                    is_plain = not went_on.emits and went_on.family is None
                    if is_plain and (went_on.state is UNCHANGED or went_on.state is plugin_state):
                        continue
                stopped = self._take(entry, answer)
            # A hook is sync, so no cancellation of its task can be raised in it; any exception is the plugin's own:
            # tests/runtime/test_hostile_errors.py::test_what_a_hook_raises_ends_nothing_but_itself
            except BaseException as error:  # noqa: BLE001, ASYNC103 - a plugin may raise anything; it is reported, never hidden
                stopped = self._broken(entry, error_text(error), error)
            if stopped is not None:
                return stopped
        return None

    def _hear(self, entries: tuple[PluginEntry, ...], spoken: FirstAction) -> Ruling | None:
        """Apply the first action, *spoken*, then call the plugins after that one."""
        entry, answer, error = spoken
        try:
            stopped = self._take(entry, answer) if error is None else self._broken(entry, error_text(error), error)
        except BaseException as wrong:  # noqa: BLE001, ASYNC103 - as in `_ask`
            stopped = self._broken(entry, error_text(wrong), wrong)  # noqa: ASYNC104 - it is reported
        return stopped or self._ask(entries, Position(entry.index + 1))

    def _visible_hook(self, entry: PluginEntry, position: Position) -> Hook:
        """Return the hook as the plugin of *entry* sees it."""
        hook = self.hook
        if isinstance(hook, BeforeTool):
            approved = self.consent.approved is not None and is_same(hook.args, self.consent.approved)
            if approved is not hook.approved or self.final is not hook.final:
                self.hook = hook = hook.but(approved=approved, final=self.final)
        asked_again = position.asked is not None and entry.index == position.index
        return hook.but(asked=position.asked, answer=position.answer) if asked_again else hook

    def _take(self, entry: PluginEntry, answer: object) -> Ruling | None:
        """Apply *answer*, or report a failure if the hook does not accept it; return a ruling if the run ends."""
        if type(answer) in MATRIX[self.hook.hook_name]:
            return self._carry_out(entry, cast("Action[object]", answer))
        if inspect.iscoroutine(answer):
            answer.close()
        return self._broken(entry, f"it answered {_named(answer)}, which `{self.hook.hook_name}` does not accept")

    def _carry_out(self, entry: PluginEntry, action: Action[object]) -> Ruling | None:
        """Check *action*, store the plugin's new state and events, and apply it. Return a ruling if the run ends."""
        try:
            new: object = getattr(action, "state", UNCHANGED)
            malformed = why_malformed(action)
            if malformed is not None:
                return self._broken(entry, malformed)
            if new is not UNCHANGED and new is not self.states[entry.index]:
                problem = self.checks.state_problem(entry.plugin, new)
                if problem is not None:
                    return self._broken(entry, problem)
            emits = self._emitted(entry, action) if action.emits or isinstance(action, Emit) else ()
            stopped = self._apply(entry, action, len(emits))
        except NotJson as error:
            return self._broken(entry, f"its `{action.kind}` is given no JSON: {message_of(error)}", error)
        except BrokenPlugin as error:
            return self._broken(entry, message_of(error), error)
        except BaseException as error:  # noqa: BLE001, ASYNC103 - an object of a plugin may raise when it is read
            return self._broken(entry, error_text(error), error)  # noqa: ASYNC104 - it is reported
        if new is not UNCHANGED and new is not self.states[entry.index]:
            self.states[entry.index] = self.changed[entry.index] = new
        if emits:
            self.decisions = self.decisions.but(emits=(*self.decisions.emits, *emits))
            if stopped is not None:
                stopped = stopped.but(decisions=stopped.decisions.but(emits=self.decisions.emits))
        if stopped is not None:
            return stopped.but(states=tuple(self.changed.items()), answers=tuple(self.answers))
        return None

    def _apply(self, entry: PluginEntry, action: Action[object], emits: int) -> Ruling | None:
        """Apply *action*, and record it for the ruling; return a ruling if it ends or pauses the run."""
        if type(action) is Continue and not emits and action.family is None:
            return None
        answer = answer_of(entry.attached.key, action, self.original_hook, self.hook)
        effect = None if self.final and type(action) not in COUNT_AT_LAST else _APPLY[type(action)]
        stopped = effect(self, entry, answer) if effect is not None else None
        # The `Pause` in the ruling has the request already.
        answer = answer if stopped is None or answer.request is None else answer.but(request=None)
        self.answers.append(answer.but(emits=emits, final=self.final) if emits or self.final else answer)
        return stopped

    def _emitted(self, entry: PluginEntry, action: Action[object]) -> tuple[Event, ...]:
        """Return the events that *action* emits, frozen; raise `BrokenPlugin` if one cannot be reported."""
        emissions = action.emissions if isinstance(action, Emit) else action.emits
        events: list[Event] = []
        for emission in emissions:
            event: Event = (
                plugin_event(entry.attached.key, emission, self.ctx.user_data)
                if isinstance(emission, Emission)
                else emission
            )
            # Names in `Emit` are checked here: an iterable of the plugin may give others if it is read again.
            if (event is emission or isinstance(action, Emit)) and not is_reportable(event):
                raise BrokenPlugin(entry.attached.key, self.hook.hook_name, f"it emits {brief(event)}")
            events.append(event)
        return tuple(events)

    def _broken(self, entry: PluginEntry, problem: str, error: BaseException | None = None) -> Ruling | None:
        """Report a plugin that failed; return a ruling that ends the run if the plugin is critical, else `None`."""
        hook_name = self.hook.hook_name
        self.complain(entry.attached, hook_name, problem, error)
        self.errors.append(PluginError(entry.attached.key, hook_name, problem))
        verdict = WHEN_CRITICAL_BREAKS[hook_name] if entry.attached.critical else PASS
        if verdict is PASS:
            return None
        return self.ruling(verdict, entry, f"critical plugin `{entry.attached.key}` broke: {problem}", critical=True)

    def ruling(
        self,
        verdict: Verdict,
        entry: PluginEntry | None = None,
        reason: str = "",
        *,
        critical: bool = False,
        pause: Pause | None = None,
    ) -> Ruling:
        """Return the ruling of the run; an abort or a block keeps only the emitted events."""
        decisions = self.decisions
        if verdict is ABORT or verdict is BLOCK or (critical and verdict is SKIP):
            decisions = Decisions(emits=decisions.emits)
        return Ruling(
            self.hook.hook_name,
            verdict,
            entry.attached.key if entry is not None else None,
            reason,
            critical=critical,
            decisions=decisions,
            states=tuple(self.changed.items()),
            errors=tuple(self.errors),
            pause=pause,
            answers=tuple(self.answers),
        )

    def replace(self, entry: PluginEntry, **replaced: object) -> None:
        """Record what the plugin of *entry* replaced in the hook; later plugins see the replacement."""
        by = (*self.decisions.replaced_by, entry.attached.key)
        self.decisions = self.decisions.but(replaced_by=by, **replaced)
        self.hook = self.decisions.shown_in(self.original_hook)

    def paused(self, entry: PluginEntry, verdict: Verdict, pause: Pause) -> Ruling:
        """Return the ruling of a run that pauses at an `Ask` or a hold."""
        return self.ruling(verdict, entry, pause.hint, pause=pause)


def _intervene(run: LiveHookRun, _: PluginEntry, answer: PluginAnswer) -> None:
    """Apply `Intervene`: record the text; later plugins see it."""
    run.decisions = run.decisions.but(texts=(*run.decisions.texts, answer.text))
    run.hook = run.decisions.shown_in(run.original_hook)


def _add_context(run: LiveHookRun, _: PluginEntry, answer: PluginAnswer) -> None:
    """Apply `AddContext`: record the messages for this request."""
    decisions = run.decisions
    run.decisions = decisions.but(front=(*decisions.front, *answer.front), added=(*decisions.added, *answer.behind))


def _abort(run: LiveHookRun, entry: PluginEntry, answer: PluginAnswer) -> Ruling:
    """Apply `Abort`: end the run."""
    return run.ruling(ABORT, entry, answer.text or "")


def _skip(run: LiveHookRun, entry: PluginEntry, _: PluginAnswer) -> Ruling:
    """Apply `Skip`: end the run; earlier decisions hold."""
    return run.ruling(SKIP, entry)


def _block(run: LiveHookRun, entry: PluginEntry, answer: PluginAnswer) -> Ruling:
    """Apply `BlockTool`: end the run; the call gets an error result."""
    return run.ruling(BLOCK, entry, answer.text or "")


def _replace_args(run: LiveHookRun, entry: PluginEntry, answer: PluginAnswer) -> Ruling | None:
    """Apply `ReplaceToolArgs`; block the call if critical plugins have ruled on the final arguments already."""
    if run.final:
        return run.ruling(BLOCK, entry, "its arguments were replaced again after the guards had ruled on them")
    args = answer.args
    if args is None or not isinstance(run.hook, BeforeTool) or is_same(args, run.hook.args):
        return None
    run.replace(entry, args=args, replaced_at=entry.index)
    return None


def _replace_text(run: LiveHookRun, entry: PluginEntry, answer: PluginAnswer) -> None:
    """Apply `ReplacePrompt` or `ReplaceResponse`: record the new text."""
    run.replace(entry, text=answer.text)


def _replace_messages(run: LiveHookRun, entry: PluginEntry, answer: PluginAnswer) -> None:
    """Apply `ReplaceMessages`: record the new messages."""
    run.replace(entry, messages=answer.messages)


def _replace_result(run: LiveHookRun, entry: PluginEntry, answer: PluginAnswer) -> None:
    """Record the result that a plugin put in place of the tool's."""
    run.replace(entry, result=answer.result)


def _switch(run: LiveHookRun, entry: PluginEntry, answer: PluginAnswer) -> None:
    """Apply `SwitchModel`; raise `BrokenPlugin` if the model cannot be used."""
    model, options = answer.name or "", answer.args or EMPTY
    problem = run.checks.why_no_model(model, options)
    if problem is not None:
        raise BrokenPlugin(entry.attached.key, run.hook.hook_name, f"it chose a model that cannot be used: {problem}")
    priced = run.checks.has_price(model, options)
    run.decisions = run.decisions.but(switch=Switch(model, options, entry.attached.key, priced))


def _set_section(run: LiveHookRun, _: PluginEntry, answer: PluginAnswer) -> None:
    """Apply `SetSection`: record the section."""
    run.decisions = run.decisions.but(sections=(*run.decisions.sections, answer.section))


def _hold(run: LiveHookRun, entry: PluginEntry, answer: PluginAnswer) -> Ruling | None:
    """Apply `HoldTool`: pause the run, unless a person has approved the call or its family."""
    hook = run.hook
    if isinstance(hook, BeforeTool):
        approved = run.consent.approved is not None and is_same(hook.args, run.consent.approved)
        consented = entry.attached.key in run.consent.holders and approved
        if consented or _passes_always(run, answer):
            return None
    next_position = Position(entry.index + 1, run.final)
    return run.paused(entry, HOLD, Pause(next_position, None, answer.seconds, answer.text or "", answer.name))


def _go_on(run: LiveHookRun, _: PluginEntry, answer: PluginAnswer) -> None:
    """Apply `Continue`: note an approval for always that the plugin relied on."""
    _passes_always(run, answer)


def _passes_always(run: LiveHookRun, answer: PluginAnswer) -> bool:
    """Whether a person approved the family in *answer* for always; if so, record it for the call."""
    hook, family = run.hook, answer.name
    if family is None or not isinstance(hook, BeforeTool) or (hook.name, family) not in run.consent.always:
        return False
    if family not in run.decisions.families:
        run.decisions = run.decisions.but(families=(*run.decisions.families, family))
    return True


def _pause_for_ask(run: LiveHookRun, entry: PluginEntry, answer: PluginAnswer) -> Ruling:
    """Apply `Ask`: pause the run; raise `BrokenPlugin` for the final arguments, or after too many asks."""
    key = entry.attached.key
    if run.final:
        raise BrokenPlugin(key, run.hook.hook_name, "it returned `Ask` when it was asked about the final arguments")
    asks = dict(run.decisions.asks)
    asks[key] = asks.get(key, 0) + 1
    if asks[key] > MAX_ASKS:
        raise BrokenPlugin(key, run.hook.hook_name, f"it asked more than {MAX_ASKS} times")
    request = answer.request
    if isinstance(request, CallModel) and request.options:
        problem = run.checks.why_no_model(request.model or run.ctx.model, request.options)
        if problem is not None:
            raise BrokenPlugin(key, run.hook.hook_name, f"it asks a model that cannot be used: {problem}")
    run.decisions = run.decisions.but(asks=tuple(asks.items()))
    return run.paused(entry, ASK, Pause(Position(entry.index), request, answer.seconds))


def _nothing(_run: LiveHookRun, _entry: PluginEntry, _answer: PluginAnswer) -> None:
    """Apply an action without further effect (`Emit`): state and events are recorded for every action."""


_APPLY: Final[Mapping[type[object], Callable[..., Ruling | None]]] = {
    Continue: _go_on,
    Intervene: _intervene,
    AddContext: _add_context,
    Abort: _abort,
    Skip: _skip,
    BlockTool: _block,
    ReplaceToolArgs: _replace_args,
    Emit: _nothing,
    SwitchModel: _switch,
    ReplacePrompt: _replace_text,
    ReplaceResponse: _replace_text,
    ReplaceMessages: _replace_messages,
    ReplaceToolResult: _replace_result,
    HoldTool: _hold,
    SetSection: _set_section,
    Ask: _pause_for_ask,
}
"""How each action changes the hook run; one that returns a ruling ends or pauses it."""

COUNT_AT_LAST: Final[frozenset[type[Action[object]]]] = frozenset(
    {Continue, BlockTool, HoldTool, Abort, ReplaceToolArgs, Ask}
)
"""Actions that take effect when a critical plugin is asked again about replaced arguments; others are ignored then."""


def _named(answer: object) -> str:
    """Return *answer* in words, for the error about an action that the hook does not accept."""
    plain = f"`{answer.kind}`" if isinstance(answer, Action) else f"a `{type_name(answer)}`"
    return "nothing (is a `return` missing?)" if answer is None else plain
