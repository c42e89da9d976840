"""`order_report`: finds pairs of plugins, and hooks, where the order in which the two are asked makes a difference."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TypeAlias

from agentrail.hooks.attachments import unkeyed
from agentrail.hooks.plugin import Attachable
from agentrail.hooks.ruling import Ruling, Verdict
from agentrail.testing.as_code import CodeSource
from agentrail.testing.known_words import vocabulary
from agentrail.testing.scripted import Cue
from agentrail.testing.turns.generating import draw_cues, simpler_scripts
from agentrail.testing.turns.lore import Lore
from agentrail.testing.turns.script_code import cue_code
from agentrail.testing.turns.trace import Trace, simulate
from agentrail.testing.world.choose import Choose
from agentrail.values.content import ToolCall
from agentrail.values.spelling import checked
from agentrail.values.value import Value

Script: TypeAlias = tuple[Cue, ...]


class OrderMatters(Value, gc=True):
    """Two plugins whose order makes a difference at a hook, and a script that shows it."""

    first: Attachable
    """The plugin that is asked first in a session that has both."""
    second: Attachable
    """The plugin that is asked second."""
    hook: str
    """The hook at which the two orders first differ."""
    script: tuple[Cue, ...]
    """A script that shows the difference."""
    settled: bool
    """Whether their priorities differ, and so decide the order; if not, the order of registration decides it."""

    def traces(self) -> tuple[Trace, Trace]:
        """Play the script in both orders, and return the traces: *first* asked first, then *second* asked first."""
        return _play((self.first, self.second), self.script), _play((self.second, self.first), self.script)

    def __str__(self) -> str:
        one, other = unkeyed(self.first)[0], unkeyed(self.second)[0]
        how = "their priorities settle it" if self.settled else "the order of registration settles it"
        here, there = self.traces()
        source = CodeSource()
        script = ", ".join(cue_code(cue, source) for cue in self.script)
        return (
            f"`{one}` and `{other}`: the order matters at `{self.hook}`; {how}\n"
            f"  script: {script}\n\n"
            f"  {one} first:\n{_indented(str(here))}\n\n  {other} first:\n{_indented(str(there))}"
        )


@checked
def order_report(
    plugins: Sequence[Attachable],
    *,
    calls: Sequence[ToolCall] = (),
    examples: int = 600,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[OrderMatters, ...]:
    """Return for which pairs of *plugins* the order matters, and at which hook, each with the shortest script found.

    The same random scripts are played with each pair in both orders, whatever the priorities. The order of texts and
    events that plugins add does not count as a difference. A pair that is not in the report differed in no example.

    Args:
        plugins: The plugins; each pair is tried.
        calls: Calls that the model may make, beside those that are drawn.
        examples: How many scripts are played with each pair.
        seed: Start of the random draws; another one gives other scripts.
        progress: Called with the number of pairs that are done, and the number of all.
    """
    found: list[OrderMatters] = []
    pairs = list(combinations(plugins, 2))
    for number, pair in enumerate(pairs):
        if progress is not None:
            progress(number, len(pairs))
        one, other = sorted(pair, key=lambda given: unkeyed(given)[1].priority)
        choose = Choose(random.Random(seed).randrange)  # noqa: S311 - no secret
        found.extend(_of_pair(one, other, choose, Lore(calls), examples))
    return tuple(found)


def _of_pair(first: Attachable, second: Attachable, choose: Choose, lore: Lore, examples: int) -> list[OrderMatters]:
    words = [vocabulary(first), vocabulary(second)]
    settled = unkeyed(first)[1].priority != unkeyed(second)[1].priority
    hooks: dict[str, OrderMatters] = {}
    for _ in range(examples):
        script = draw_cues(choose, words, lore.calls((first, second)))
        here, there = _play((first, second), script), _play((second, first), script)
        lore.learn(here)
        lore.learn(there)
        hook = difference(here, there)
        if hook is not None and hook not in hooks:
            short = _shortest(first, second, hook, script)
            hooks[hook] = OrderMatters(first, second, hook, short, settled)
    return list(hooks.values())


def difference(here: Trace, there: Trace) -> str | None:
    """Return the hook at which the rulings of two traces of one script first differ, or `None` if they do not.

    The comparison ends where the two sessions get different inputs.
    """
    for one, other in zip(here.steps, there.steps, strict=False):
        if one.arrival.input != other.arrival.input:
            return None
        for ruled, ruled_too in zip(one.step.rulings, other.step.rulings, strict=False):
            if ruled.hook != ruled_too.hook or _outcome(ruled, here) != _outcome(ruled_too, there):
                return ruled.hook
    return None


def _outcome(ruling: Ruling, trace: Trace) -> tuple[object, ...]:
    """Return what *ruling* decided, to compare two orders: without the deciding plugin, texts and events sorted."""
    gathered = ruling.gathered
    keys = [seat.key for seat in trace.state.seats]
    states = {keys[place]: state for place, state in ruling.states if place < len(keys)}
    return (
        ruling.verdict,
        ruling.reason if ruling.verdict is not Verdict.PASS else "",
        sorted(gathered.texts),
        sorted(added.message.text for added in gathered.added),
        gathered.args,
        gathered.messages,
        gathered.result,
        gathered.switch,
        {section.key: (section.text, section.layer) for section in gathered.sections},
        sorted(map(repr, gathered.emits)),
        states if ruling.hook not in ("init", "on_options", "on_event") else {},
        sorted(map(repr, ruling.errors)),
    )


def _shortest(first: Attachable, second: Attachable, hook: str, script: Script) -> Script:
    """Leave out and simplify cues of *script* as long as the two orders still first differ at *hook*."""
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
