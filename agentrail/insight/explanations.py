"""`explain`: a run of a hook in sentences: what each plugin answered, what that changed, and which rule decided."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Final

from agentrail.hooks.hook_run import COUNT_AT_LAST
from agentrail.hooks.hook_types import BeforeTool
from agentrail.hooks.ruling import PluginAnswer, Ruling, Verdict
from agentrail.insight.hook_questions import HookQuestion
from agentrail.values.events.plugins import PluginError
from agentrail.values.json import canonical, is_same
from agentrail.values.value import Value

CHARS: Final = 200
"""The most characters of a text of a plugin in a sentence; the answer itself has all of it."""


class FoldingRule(Enum):
    """The rule that decided a run of a hook; its value is the rule in one sentence."""

    NOBODY_ASKED = "no plugin has this hook, so it passes"
    ALL_PASSED = "every plugin that was asked let it pass"
    ADDED_UP = "what plugins add is put together, in their order"
    LAST_REPLACEMENT = "each plugin sees what the ones before it replaced, and the last replacement counts"
    BLOCK = "a block ends the run: later plugins are not asked, and what was decided before is dropped"
    ABORT = "an abort ends the run: later plugins are not asked, and what was decided before is dropped"
    SKIP = "a skip ends the run: later plugins are not asked, and what was decided before stands"
    HOLD = "a hold pauses the run until a person decides"
    ASK = "a plugin that asks pauses the run, and goes on with the answer at its own place"
    BROKE = "a critical plugin that breaks refuses what it was asked about"
    ASKED_AGAIN = "a critical plugin is asked again about arguments that were replaced behind it"
    REPLACED_AGAIN = "arguments may not be replaced again when the critical plugins have ruled on the final ones"
    APPROVED = "a person approved exactly these arguments, so this plugin does not hold them again"
    APPROVED_ALWAYS = "a person approved this family of commands for always, so it is not held"
    SCHEMA = "arguments that do not fit the tool's schema are refused before any plugin is asked"


class PluginStep(Value):
    """What became of one plugin in a run of a hook."""

    plugin: str
    """Key of the plugin."""
    sentence: str
    """What it answered and what that changed."""
    rule: FoldingRule | None = None
    """The rule that made the answer count, or not count; `None` if it simply counted."""
    answer: PluginAnswer | None = None
    """The answer, as recorded; `None` if the plugin let the hook pass, broke or was not asked."""
    decided: bool = False
    """Whether the run ended or paused here."""


class Explanation(Value):
    """A run of a hook, explained."""

    hook: str
    """Name of the hook; `check` of a check of arguments."""
    steps: tuple[PluginStep, ...]
    """One for each plugin that has the hook, in the order in which they are asked; twice if it was asked again."""
    rule: FoldingRule
    """The rule that decided."""
    sentence: str
    """What came of it, and who decided."""
    ruling: Ruling
    """The ruling, as recorded."""

    @property
    def rules(self) -> tuple[FoldingRule, ...]:
        """The rule that decided, and those of its steps."""
        return (self.rule, *[step.rule for step in self.steps if step.rule is not None])


_COUNTS_AT_LAST: Final = frozenset(action.kind for action in COUNT_AT_LAST)

_ABORTED: Final[Mapping[str, str]] = {
    "session_start": "the session did not start",
    "before_prompt": "the prompt was refused",
    "before_steering": "the steering text was refused",
    "before_plugin_opts_update": "the new options were refused",
}
"""What an abort does at the hooks where it does not abort the turn."""

_SKIPPED: Final[Mapping[str, str]] = {
    "before_compact": "the context was not compacted",
    "on_tool_error": "the call was not tried again",
    "before_plugin_opts_update": "the new options were refused",
}
"""What a skip does, at the hooks where it does more than end the run."""


def explain(question: HookQuestion) -> Explanation:
    """Explain one run of a hook."""
    ruling = question.ruling
    if ruling.hook == "check":
        return _explain_check(question)
    steps = tuple(_Walk(question).steps())
    rule = _deciding(question, steps)
    return Explanation(ruling.hook, steps, rule, _outcome(question, rule), ruling)


def _explain_check(question: HookQuestion) -> Explanation:
    ruling = question.ruling
    if ruling.verdict is Verdict.PASS:
        return Explanation("check", (), FoldingRule.ALL_PASSED, "the arguments fit the schema", ruling)
    sentence = f"the arguments do not fit the schema of `{question.tool}`: {_brief(ruling.reason)}"
    return Explanation("check", (), FoldingRule.SCHEMA, sentence, ruling)


class _Walk:
    """Walks through the plugins of a run in the order in which they were asked."""

    def __init__(self, question: HookQuestion) -> None:
        self._question = question
        self._ruling = question.ruling
        self._order = [attached.key for attached in question.attached_plugins]
        self._first = {answer.plugin: answer for answer in self._ruling.answers if not answer.final}
        self._again = {answer.plugin: answer for answer in self._ruling.answers if answer.final}
        self._errors = [error for error in self._ruling.errors if isinstance(error, PluginError)]
        self._is_over = False

    def steps(self) -> Iterator[PluginStep]:
        """Yield a step for each plugin of the first pass, then for each critical one that was asked again."""
        question = self._question
        if not question.plugins:
            yield from self._without_plugins()
            return
        if not question.position.final:
            keys = [attached.key for attached in question.plugins]
            yield from self._pass_steps(keys, self._first, again=False)
        if self._is_over or not self._has_second_pass:
            return
        index = self._replaced_at
        guards = [
            attached.key
            for attached in question.plugins
            if attached.critical and self._order.index(attached.key) < index
        ]
        yield from self._pass_steps(guards, self._again, again=True)

    def _without_plugins(self) -> Iterator[PluginStep]:
        """Yield the recorded answers alone: who was asked beside them is not known."""
        for answer in self._ruling.answers:
            yield self._step_with(answer)
        for error in self._errors:
            yield self._broken_step(error)

    @property
    def _replaced_at(self) -> int:
        """Index of the last plugin that replaced arguments, also if a block has erased what it replaced; -1: none."""
        if not self._is_erased:
            return self._ruling.decisions.replaced_at
        replacing = [answer.plugin for answer in self._first.values() if answer.kind == "replace_tool_args"]
        return max([self._question.decisions.replaced_at, *map(self._order.index, replacing)])

    @property
    def _is_erased(self) -> bool:
        """Whether a block or an abort has erased what plugins had decided before it."""
        verdict = self._ruling.verdict
        return verdict in (Verdict.ABORT, Verdict.BLOCK) or (self._ruling.critical and verdict is Verdict.SKIP)

    @property
    def _has_second_pass(self) -> bool:
        """Whether critical plugins were asked again about replaced arguments."""
        return self._question.position.final or (self._ruling.hook == BeforeTool.hook_name and self._replaced_at >= 0)

    def _pass_steps(self, keys: list[str], answers: Mapping[str, PluginAnswer], *, again: bool) -> Iterator[PluginStep]:
        """Yield a step for each of the plugins *keys*, asked one after the other, in the second pass if *again*.

        A run that goes on after a pause does so in the pass that had paused, at the plugin that paused it.
        """
        position = self._question.position
        resumed_index = position.index if position.final == again else 0
        for key in keys:
            if self._order.index(key) < resumed_index:
                yield PluginStep(key, f"`{key}` had been asked before the pause")
            elif self._is_over:
                yield PluginStep(key, f"`{key}` was not asked: `{self._ruling.by}` had decided")
            else:
                yield self._step_of(key, answers.get(key), again=again)

    def _step_of(self, key: str, answer: PluginAnswer | None, *, again: bool) -> PluginStep:
        """Return the step of a plugin that was asked; note if the run ended with it."""
        error = self._error_of(key, again=again) if answer is None else None
        if error is not None:
            step = self._broken_step(error)
        elif answer is None:
            step = PluginStep(key, f"`{key}` {'was asked again and ' if again else ''}let it pass")
        else:
            step = self._step_with(answer)
        self._is_over = step.decided
        return step

    def _error_of(self, key: str, *, again: bool) -> PluginError | None:
        """Return the error of the plugin in this pass: it may break in both."""
        mine = [error for error in self._errors if error.plugin == key]
        if not mine:
            return None
        is_last = key == self._ruling.by
        is_later = any(
            self._order.index(other) > self._order.index(key) for other in self._first if other in self._order
        )
        ended_again = is_last and is_later and self._ruling.critical
        if again:
            return mine[-1] if ended_again or len(mine) > 1 else None
        return None if ended_again and len(mine) == 1 else mine[0]

    def _broken_step(self, error: PluginError) -> PluginStep:
        """Return the step of a plugin that broke."""
        decided = self._ruling.critical and self._ruling.by == error.plugin
        what = f"`{error.plugin}` broke: {_brief(error.error)}"
        if decided:
            return PluginStep(error.plugin, f"{what}; it is critical", FoldingRule.BROKE, decided=True)
        return PluginStep(error.plugin, f"{what}; it is not critical, so this is only reported")

    def _step_with(self, answer: PluginAnswer) -> PluginStep:
        """Return the step of a plugin that answered more than a plain `Continue`."""
        key, kind = answer.plugin, answer.kind
        text, rule = _what(answer), None
        decided = self._decided(answer)
        if answer.final:
            text = f"was asked again about the replaced arguments, and {text}"
            rule = FoldingRule.ASKED_AGAIN
            if kind not in _COUNTS_AT_LAST:
                text = f"{text}, which does not count then"
        if kind == "hold_tool" and not decided:
            is_always = answer.name is not None and answer.name in self._ruling.decisions.families
            rule = FoldingRule.APPROVED_ALWAYS if is_always else FoldingRule.APPROVED
            text = f"{text}, but {'the family was approved for always' if is_always else 'a person had approved it'}"
        elif kind in _REPLACING and not decided and not answer.final:
            rule = FoldingRule.LAST_REPLACEMENT
            text = f"{text}{self._fate(answer)}"
        elif kind == "replace_tool_args" and decided:
            rule = FoldingRule.REPLACED_AGAIN
        elif decided:
            rule = rule or _ENDING.get(self._ruling.verdict)
        if answer.emits:
            text = f"{text}{'' if kind == 'emit' else f', and published {_events(answer.emits)}'}"
        if self._is_dropped(answer) and not decided:
            text = f"{text}; that was dropped, because `{self._ruling.by}` {_ENDED[self._ruling.verdict]}"
        return PluginStep(key, f"`{key}` {text}", rule, answer, decided)

    def _decided(self, answer: PluginAnswer) -> bool:
        """Whether the run ended or paused with *answer*."""
        ruling = self._ruling
        if ruling.by != answer.plugin or ruling.critical:
            return False
        if ruling.verdict is Verdict.BLOCK and answer.final and answer.kind == "replace_tool_args":
            return True
        return answer.kind == _KINDS.get(ruling.verdict) and answer is self._last_of(answer)

    def _last_of(self, answer: PluginAnswer) -> PluginAnswer:
        """Return the last answer of the plugin that gave *answer*."""
        return [other for other in self._ruling.answers if other.plugin == answer.plugin][-1]

    def _is_dropped(self, answer: PluginAnswer) -> bool:
        """Whether a later block or abort has erased *answer*; events that it published stand."""
        return self._is_erased and answer.kind not in ("emit", "continue") and not answer.final

    def _fate(self, answer: PluginAnswer) -> str:
        """Return what became of a replacement."""
        replacing = [other for other in self._first.values() if other.kind == answer.kind]
        last = replacing[-1]
        hook = self._question.hook
        if isinstance(hook, BeforeTool) and answer.args is not None and len(replacing) == 1:
            old_args = self._question.decisions.args or hook.args
            return ", which they were already" if is_same(answer.args, old_args) else ""
        return "" if last is answer else f", which `{last.plugin}` replaced again"


_KINDS: Final[Mapping[Verdict, str]] = {
    Verdict.ABORT: "abort",
    Verdict.BLOCK: "block_tool",
    Verdict.SKIP: "skip",
    Verdict.HOLD: "hold_tool",
    Verdict.ASK: "ask",
}
"""The kind of answer that leads to each verdict."""

_ENDING: Final[Mapping[Verdict, FoldingRule]] = {
    Verdict.ABORT: FoldingRule.ABORT,
    Verdict.BLOCK: FoldingRule.BLOCK,
    Verdict.SKIP: FoldingRule.SKIP,
    Verdict.HOLD: FoldingRule.HOLD,
    Verdict.ASK: FoldingRule.ASK,
}

_ENDED: Final[Mapping[Verdict, str]] = {
    Verdict.ABORT: "aborted",
    Verdict.BLOCK: "blocked",
    Verdict.SKIP: "skipped",
}


_DONE: Final[Mapping[str, str]] = {
    "continue": "let it pass",
    "emit": "published {events}",
    "intervene": "gave the model a text: {text}",
    "add_context": "added to this request alone: {text}",
    "abort": "aborted: {text}",
    "skip": "skipped the rest",
    "block_tool": "blocked the call: {text}",
    "hold_tool": "held the call for a person: {text}",
    "set_section": "set the section `{name}` of the prompt",
    "switch_model": "switched the model to `{name}`",
    "ask": "asked for something, and waits for the answer",
    "replace_tool_args": "replaced the arguments by {args}",
    "replace_tool_result": "replaced the result",
    "replace_messages": "replaced the messages of the request",
    "replace_prompt": "replaced the text by {text}",
    "replace_response": "replaced the text of the response by {text}",
    "log": "wrote to the log",
}
"""What the plugin did, by the kind of its answer: the rest of a sentence that begins with its name."""

_REPLACING: Final = frozenset(kind for kind in _DONE if kind.startswith("replace_"))


def _what(answer: PluginAnswer) -> str:
    """Return what the plugin did, as the rest of a sentence that begins with its name."""
    if answer.kind == "set_section" and answer.text is None:
        return f"removed the section `{_brief(answer.name)}` of the prompt"
    if answer.kind == "continue" and answer.name:
        return f"let it pass, as a call of the family `{_brief(answer.name)}`"
    return _DONE[answer.kind].format(
        text=_brief(answer.text) or "without a word",
        name=_brief(answer.name),
        events=_events(answer.emits),
        args=_brief(canonical(answer.args)),
    )


def _events(count: int) -> str:
    return "an event" if count == 1 else f"{count} events"


def _brief(text: str | None) -> str:
    """Return *text* in one line, cut if it is long."""
    line = " ".join((text or "").split())
    return line if len(line) <= CHARS else f"{line[: CHARS - 1]}…"


def _deciding(question: HookQuestion, steps: tuple[PluginStep, ...]) -> FoldingRule:
    """Return the rule that decided the run."""
    ruling = question.ruling
    if ruling.critical:
        return FoldingRule.BROKE
    if ruling.verdict is not Verdict.PASS:
        ended = [step.rule for step in steps if step.decided and step.rule is not None]
        return ended[-1] if ended else _ENDING[ruling.verdict]
    if question.hook is not None and not question.plugins:
        return FoldingRule.NOBODY_ASKED
    rules = [step.rule for step in steps]
    for rule in (FoldingRule.APPROVED, FoldingRule.APPROVED_ALWAYS, FoldingRule.LAST_REPLACEMENT):
        if rule in rules:
            return rule
    is_changed = any(step.answer is not None and _is_change(step.answer) for step in steps)
    return FoldingRule.ADDED_UP if is_changed else FoldingRule.ALL_PASSED


def _outcome(question: HookQuestion, rule: FoldingRule) -> str:
    """Return what came of the run, in one sentence."""
    ruling, hook_name = question.ruling, question.ruling.hook
    who = f"`{ruling.by}`"
    match ruling.verdict:
        case Verdict.ABORT:
            what = f"{_ABORTED.get(hook_name, 'the turn was aborted')} by {who}: {_brief(ruling.reason)}"
        case Verdict.BLOCK:
            what = f"the call was blocked by {who}: {_brief(ruling.reason)}"
        case Verdict.SKIP:
            what = f"{_SKIPPED.get(hook_name, 'the plugins behind were left out')}, by {who}"
        case Verdict.HOLD:
            what = f"the call waits for a person, because of {who}"
        case Verdict.ASK:
            what = f"{who} asked for something, and the hook goes on there"
        case _:
            what = f"it went on{_with_what(question, rule)}"
    return f"{what} ({rule.value})"


def _with_what(question: HookQuestion, rule: FoldingRule) -> str:
    """Return whose answers a run that passed went on with; empty if no answer changed anything."""
    ruling = question.ruling
    if rule is FoldingRule.LAST_REPLACEMENT and ruling.decisions.replaced_by:
        return f" with what `{ruling.decisions.replaced_by[-1]}` put in place"
    if rule in (FoldingRule.APPROVED, FoldingRule.APPROVED_ALWAYS):
        holders = [answer.plugin for answer in ruling.answers if answer.kind == "hold_tool"]
        return f", although {_listed(holders)} would have held it"
    if rule is FoldingRule.ADDED_UP:
        return f" with what {_listed([answer.plugin for answer in ruling.answers if _is_change(answer)])} did"
    return ""


def _listed(keys: Sequence[str]) -> str:
    return " and ".join(f"`{key}`" for key in dict.fromkeys(keys))


def _is_change(answer: PluginAnswer) -> bool:
    """Whether *answer* changes more than the plugin's own state, and tells more than an event."""
    return answer.kind not in ("emit", "continue", "log")
