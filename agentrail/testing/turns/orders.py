"""`order_report`: finds pairs of plugins, and hooks, where the order in which the two are asked makes a difference."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Final, TypeAlias

from agentrail.hooks.attachments import unkeyed
from agentrail.hooks.plugin import Attachable
from agentrail.hooks.ruling import Ruling, Verdict
from agentrail.testing.as_code import CodeSource
from agentrail.testing.code_words import vocabulary
from agentrail.testing.scripted import ScriptStep
from agentrail.testing.turns.conflicts import EXAMPLES
from agentrail.testing.turns.generating import draw_script_steps, simpler_scripts
from agentrail.testing.turns.meetings import Meeting, meetings
from agentrail.testing.turns.remembered_calls import Lore
from agentrail.testing.turns.script_steps import script_step_code
from agentrail.testing.turns.trace import Trace, simulate
from agentrail.testing.world.choose import Walking
from agentrail.values.argument_checks import checked
from agentrail.values.content import ToolCall
from agentrail.values.events.life import AgentAbort, PromptRejected, SessionEnded
from agentrail.values.messages import Message
from agentrail.values.value import Value

Script: TypeAlias = tuple[ScriptStep, ...]

LEAST: Final = 600
"""How many scripts are played with each pair at least, unless fewer are asked for."""


class OrderMatters(Value, gc=True):
    """Two plugins whose order makes a difference at a hook, and a script that shows it."""

    first: Attachable
    """The plugin that is asked first in a session that has both."""
    second: Attachable
    """The plugin that is asked second."""
    hook: str
    """The hook at which the two orders first differ."""
    script: tuple[ScriptStep, ...]
    """A script that shows the difference."""
    settled: bool
    """Whether their priorities differ, and so decide the order; if not, the order of registration decides it."""

    def traces(self) -> tuple[Trace, Trace]:
        """Play the script in both orders, and return the traces: *first* asked first, then *second* asked first."""
        return _play((self.first, self.second), self.script), _play((self.second, self.first), self.script)

    def __str__(self) -> str:
        first, second = unkeyed(self.first)[0], unkeyed(self.second)[0]
        how = "their priorities settle it" if self.settled else "the order of registration settles it"
        first_trace, second_trace = self.traces()
        source = CodeSource()
        script = ", ".join(script_step_code(script_step, source) for script_step in self.script)
        return (
            f"`{first}` and `{second}`: the order matters at `{self.hook}`; {how}\n"
            f"  script: {script}\n\n"
            f"  {first} first:\n{_indented(str(first_trace))}\n\n  {second} first:\n{_indented(str(second_trace))}"
        )


@checked
def order_report(
    plugins: Sequence[Attachable],
    *,
    calls: Sequence[ToolCall] = (),
    examples: int | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[OrderMatters, ...]:
    """Return for which pairs of *plugins* the order matters, and at which hook, each with the shortest script found.

    Random scripts are played with each pair in both orders, whatever the priorities. The order matters if the outcomes
    of the two sessions differ; the order of texts and events that plugins add does not count as a difference. Scripts
    use words from the code of all *plugins*, as those of `find_conflict` do. A pair that is not in the report differed
    in no example.

    Args:
        plugins: The plugins; each pair is tried.
        calls: Calls that the model may make, beside those that are drawn.
        examples: How many scripts are played with each pair; without it, as many in all as `find_conflict` tries, but
            at least 600 with each pair.
        seed: Start of the random draws; another one gives other scripts.
        progress: Called with the number of pairs that are done, and the number of all.
    """
    report: list[OrderMatters] = []
    pairs = list(combinations(plugins, 2))
    search = OrderSearch(plugins, calls, seed)
    for number, pair in enumerate(pairs):
        if progress is not None:
            progress(number, len(pairs))
        report.extend(search.report(pair, share(EXAMPLES, len(pairs)) if examples is None else examples))
    return tuple(report)


def share(examples: int, pairs: int) -> int:
    """Return how many of *examples* scripts each of *pairs* gets: at least `LEAST`."""
    return max(LEAST, examples // pairs)


class OrderSearch:
    """Draws the scripts for pairs of plugins, and remembers the calls at which plugins did something."""

    def __init__(self, plugins: Sequence[Attachable], calls: Sequence[ToolCall], seed: int) -> None:
        self._choose = Walking(random.Random(seed).randrange)  # noqa: S311 - no secret
        self._lore = Lore(calls)
        self._plugins = tuple(plugins)
        self._words = {id(plugin): vocabulary(plugin) for plugin in plugins}

    def report(self, pair: tuple[Attachable, Attachable], examples: int) -> list[OrderMatters]:
        """Play *examples* scripts with *pair*; return each hook at which its order matters, with a short script.

        If the two have a hook in common, every other script is the next one of their `Meeting`.
        """
        first, second = sorted(pair, key=lambda plugin: unkeyed(plugin)[1].priority)
        is_settled = unkeyed(first)[1].priority != unkeyed(second)[1].priority
        hooks: dict[str, OrderMatters] = {}
        words = [self._words[id(plugin)] for plugin in (first, second)]
        meeting = Meeting(*words) if meetings(words) else None
        for number in range(examples):
            script = self._script(first, second) if meeting is None or number % 2 else meeting.script(self._choose)
            first_trace = _play((first, second), script)
            if not any(_matters(ruling) for happened in first_trace.steps for ruling in happened.step.rulings):
                continue  # in the other order, each would see the same hook and let it pass too
            second_trace = _play((second, first), script)
            self._lore.learn(first_trace)
            self._lore.learn(second_trace)
            hook = difference(first_trace, second_trace)
            if hook is not None and hook not in hooks:
                short = _shortest(first, second, hook, script)
                hooks[hook] = OrderMatters(first, second, hook, short, is_settled)
        return list(hooks.values())

    def _script(self, first: Attachable, second: Attachable) -> Script:
        """Draw a script for the two plugins; half of the scripts also use words of another plugin, or of all.

        A value that shows an order may stand in the code of another plugin only, such as a path.
        """
        focus: tuple[Attachable, ...] = (first, second)
        about = self._choose.pick(("two", "two", "one more", "all")) if len(self._plugins) > len(focus) else "two"
        if about == "one more":
            focus = (*focus, self._choose.pick(self._plugins))
        elif about == "all":
            focus = self._plugins
        return draw_script_steps(self._choose, [self._words[id(plugin)] for plugin in focus], self._lore.calls(focus))


def difference(first: Trace, second: Trace) -> str | None:
    """Return the first hook at which two traces of one script differ; `None` if their outcomes are equal.

    The hook is the one whose first decision differs; but only if the outcomes of the two sessions differ at last.
    """
    if _outcome(first) == _outcome(second):
        return None
    hook = "session_start"
    for ruled, ruled_too in zip(_decided(first), _decided(second), strict=False):
        hook = ruled.hook
        if ruled.hook != ruled_too.hook or _decision(ruled, first) != _decision(ruled_too, second):
            return hook
    return hook


def _matters(ruling: Ruling) -> bool:
    """Whether a plugin did something in *ruling*, apart from making its first state."""
    return bool(ruling.answers or ruling.errors or ruling.pause or (ruling.states and ruling.hook != "init"))


def _decided(trace: Trace) -> list[Ruling]:
    """Return the rulings of *trace*, without those that only start an `Ask`."""
    rulings = (ruling for happened in trace.steps for ruling in happened.step.rulings)
    return [ruling for ruling in rulings if ruling.verdict is not Verdict.ASK]


def _outcome(trace: Trace) -> dict[str, object]:
    """Return the outcome of a session in a form that does not depend on who decided, with texts and events sorted."""
    state = trace.state
    keys = [attached.key for attached in state.plugins]
    return {
        "started": sorted(repr((start.call_id, start.name, start.args)) for start in trace.started),
        "held": sorted(repr((hold.call_id, hold.args, hold.hint)) for hold in trace.held),
        "blocked": sorted(repr((blocked.call_id, blocked.reason)) for blocked in trace.blocked),
        "ended": [
            (type(event), event.reason)
            for event in trace.events
            if isinstance(event, AgentAbort | PromptRejected | SessionEnded)
        ],
        "outcomes": trace.outcomes,
        "messages": [_sorted_lines(message) for message in trace.messages],
        "requests": [
            (
                request.model,
                request.options,
                [_sorted_lines(message) for message in request.messages],
                sorted((*request.background, *request.sections)),
                request.may_call,
            )
            for request in trace.requests
        ],
        "model": (state.model, state.model_options),
        "sections": sorted(repr((section.key, section.text, section.layer)) for section in state.sections),
        "states": dict(zip(keys, state.plugin_states, strict=True)),
        "emitted": {repr(event) for ruling in _decided(trace) for event in (*ruling.decisions.emits, *ruling.errors)},
    }


def _sorted_lines(message: Message) -> tuple[str, list[str]]:
    return type(message).__name__, sorted(message.text.splitlines())


def _decision(ruling: Ruling, trace: Trace) -> tuple[object, ...]:
    """Return the decision of *ruling* in a form that does not depend on who decided, with texts and events sorted."""
    decisions, switch, pause = ruling.decisions, ruling.decisions.switch, ruling.pause
    keys = [attached.key for attached in trace.state.plugins]
    states = {keys[index]: state for index, state in ruling.states if index < len(keys)}
    return (
        ruling.verdict,
        ruling.reason if ruling.verdict is not Verdict.PASS else "",
        sorted(decisions.texts),
        sorted(added.message.text for added in decisions.added),
        decisions.args,
        decisions.text,
        decisions.messages,
        decisions.result,
        None if switch is None else (switch.model, switch.options),
        {section.key: (section.text, section.layer) for section in decisions.sections},
        sorted(map(repr, decisions.emits)),
        None if pause is None else (pause.deadline, pause.family),
        states if ruling.hook not in ("init", "on_options", "on_event") else {},
        sorted(map(repr, ruling.errors)),
    )


def _shortest(first: Attachable, second: Attachable, hook: str, script: Script) -> Script:
    """Remove and simplify steps of *script* while the two orders still first differ at *hook*; return the result."""
    going = True
    while going:
        going = False
        for shorter in simpler_scripts(script):
            if difference(_play((first, second), shorter), _play((second, first), shorter)) == hook:
                script, going = shorter, True
                break
    return script


def _play(plugins: tuple[Attachable, Attachable], script: Script) -> Trace:
    return simulate(plugins, script, as_given=True)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
