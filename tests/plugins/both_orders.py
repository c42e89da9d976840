"""Plays scripts with two plugins in both orders, in a world that answers alike, and compares what each plugin does."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias, cast

from attrs import define, field, frozen

from agentrail import (
    Abort,
    Action,
    BlockTool,
    Continue,
    HoldTool,
    Intervene,
    Options,
    Plugin,
    ReplaceMessages,
    ReplacePrompt,
    ReplaceResponse,
    ReplaceToolArgs,
    ReplaceToolResult,
    Skip,
    SwitchModel,
)
from agentrail.core.vocabulary.inputs import AskSettled
from agentrail.events import (
    ContentPolicyViolated,
    LargeResultOffloaded,
    MemoryFlushed,
    PlanGenerated,
    PlanStepCompleted,
    PluginError,
    PluginEvent,
)
from agentrail.hooks.actions import UNCHANGED, Emission
from agentrail.hooks.attachments import unkeyed
from agentrail.models import Text
from agentrail.plugins import (
    AfterTool,
    Answered,
    AskAnswer,
    Attachable,
    BeforeTool,
    CallModel,
    CallService,
    Failed,
    OnToolError,
    ReadFile,
    RunTool,
    TimedOut,
    WriteFile,
)
from agentrail.testing import Decision, Scene, ScriptStep, Trace
from agentrail.testing.scripted import Saying
from agentrail.testing.turns.simulation import Simulation, Watch, called
from tests.kit import AnyInput, freeze, freeze_object

Pair: TypeAlias = tuple[Attachable, Attachable]
Script: TypeAlias = tuple[ScriptStep, ...]

ENDS: Final = "The first that ends or pauses a hook counts."
SWITCHES: Final = "The last that chooses a model counts."
SENDS: Final = "The first that sends the model back counts."
SEES: Final = "The next one sees what the one before it has replaced."

CHOOSERS: Final = frozenset({"PromptCache", "Recovery", "ModelRouter"})
"""The plugins that the page names under `SWITCHES`."""
SENDERS: Final = frozenset({"SelfVerify", "Reflection"})
"""The plugins that the page names under `SENDS`."""
TELLERS: Final = frozenset({"Recovery", "LargeResultOffload"})
"""The plugins that the page names under `SEES`."""

USER: Final = freeze_object({"user_id": "ada", "mail": "ada@example.com"})
"""The `user_data` of each session."""

ENDING: Final = (Abort, Skip, BlockTool, HoldTool)
"""The actions that end a hook, or pause it until a person decides."""
TOLD: Final = (
    PluginEvent,
    PlanGenerated,
    PlanStepCompleted,
    MemoryFlushed,
    LargeResultOffloaded,
    ContentPolicyViolated,
)
"""The events by which plugins tell what they have done."""
REPLACING: Final = (ReplacePrompt, ReplaceResponse, ReplaceMessages, ReplaceToolArgs, ReplaceToolResult, SwitchModel)
"""The actions of which the last of a kind counts."""

VERDICTS: Final[tuple[AskAnswer, ...]] = (
    Answered(freeze({"passed": True, "problems": ()})),
    Answered(freeze({"passed": False, "problems": ("too short",)})),
    Answered(freeze({"compliant": True, "policies": (), "summary": ""})),
    Answered(freeze({"compliant": False, "policies": ("off_topic",), "summary": "a recipe"})),
    Answered(freeze({"facts": ("Ada likes tea",), "user": "ada", "episodes": ()})),
    Answered(freeze({"passed": "yes", "problems": 1, "compliant": None, "policies": "all", "facts": {}})),
    Answered("yes"),
    Answered("no\x00\ud800 \u202e{"),
    Answered(None),
    Failed("there is no such model"),
    TimedOut(8.0),
)
"""What models and services answer: what was asked for, what was not, and errors."""
RUNS: Final[tuple[AskAnswer, ...]] = (Answered("ok"), Failed("1 failed"), Failed("  "), TimedOut(60.0), Answered(None))
"""What a tool that a plugin runs answers."""


class World(Simulation):
    """A session in which each question of a plugin is answered at once, by a function of the question.

    Files are kept: what is written is read again. Some can be neither read nor written.
    """

    files: Mapping[str, str] = MappingProxyType({"AGENTS.md": "Use tabs."})

    def send(self, input_: AnyInput, *, plain: bool = False) -> None:
        """Make a step of *input_*, and answer all that plugins ask then."""
        super().send(input_, plain=plain)
        while live := self.out.live_asks:
            super().send(AskSettled(live[0], self._answer(self.out.asks[live[0]].effect.request)), plain=True)

    def _comes_to(self, is_reached: Callable[[], bool]) -> bool:
        before = self.files
        found = super()._comes_to(is_reached)
        if not found:
            self.files = before
        return found

    def _answer(self, asked: object) -> AskAnswer:
        chance = hashlib.blake2s(repr(asked).encode("utf-8", "surrogatepass")).digest()[0]
        match asked:
            case ReadFile() | WriteFile() if chance % 8 == 0:
                return (Failed("the disk is broken"), TimedOut(5.0))[chance // 8 % 2]
            case ReadFile(path=path):
                return Answered(self.files.get(path))
            case WriteFile(path=path, text=text, replaces=before):
                if self.files.get(path) not in (before, text):
                    return Failed("it holds another text")
                self.files = {**self.files, path: text}
                return Answered(None)
            case RunTool():
                return RUNS[chance % len(RUNS)]
            case CallModel() | CallService():
                return VERDICTS[chance % len(VERDICTS)]
            case _:
                return Answered(())


@frozen
class Played:
    """A script that was played with two plugins, in one of the two orders."""

    keys: tuple[str, str]
    """The names of the plugins, in the order in which they were asked."""
    runs: tuple[Run, ...]
    """The runs of hooks, in order."""
    end: Mapping[str, object]
    """What came of it, by what it is about."""
    broken: tuple[PluginError, ...]
    """The failures of plugins."""


@frozen
class Deed:
    """What a plugin did in a hook: its action without the state, and the new state, or `UNCHANGED`."""

    action: Action[object] | str
    """What the plugin returned; of what is no action, a text that shows it."""
    state: object

    @property
    def is_none(self) -> bool:
        """Whether the plugin has let the hook pass, and its state is as it was."""
        return self == _NOTHING


_NOTHING: Final = Deed(Continue(), UNCHANGED)


@define
class Run:
    """One run of one hook, with what was decided after pauses."""

    about: tuple[str, str]
    """Name of the hook, and the id of the call that it is about, if any."""
    step: int
    deeds: list[tuple[str, Deed]] = field(factory=list[tuple[str, Deed]])
    """What was done, by whom: without what let the hook pass."""
    asked: list[str] = field(factory=list[str])
    """Names of the plugins that were asked, in order."""
    faced: dict[str, object] = field(factory=dict[str, object])
    """By plugin, what it was asked about first: its state then, and the arguments of the call."""

    def of(self, key: str) -> list[Deed]:
        """Return what the plugin *key* did."""
        return [deed for by, deed in self.deeds if by == key]

    def first(self, *kinds: type[object]) -> str | None:
        """Return the name of the first plugin that has answered with one of *kinds*; `None` if none has."""
        return next((by for by, deed in self.deeds if isinstance(deed.action, kinds)), None)

    def last(self, kind: type[Action[object]]) -> object:
        """Return the last action of *kind* without its events; `None` if there is none."""
        found = [deed.action for _, deed in self.deeds if isinstance(deed.action, kind)]
        return found[-1].but(emits=()) if found else None


def play_both(pair: Pair, script: Script) -> tuple[Played, Played]:
    """Play *script* with *pair* in both orders, whatever the priorities of the two."""
    return _play(pair, script), _play((pair[1], pair[0]), script)


def _play(pair: Pair, script: Script) -> Played:
    script = tuple(_screened(script_step, pair) for script_step in script)
    scene = Scene(Options(), tuple(called(script)), pair, user_data=USER)
    watch = Watch()
    world = World(scene, script, as_given=True, watch=watch)
    world.play()
    trace = Trace(scene, script, world, as_given=True)
    keys = (unkeyed(pair[0])[0], unkeyed(pair[1])[0])
    broken = tuple(event for event in trace.events if isinstance(event, PluginError))
    return Played(keys, tuple(runs_of(watch.decisions)), _end(trace, world), broken)


def _screened(script_step: ScriptStep, pair: Pair) -> ScriptStep:
    """Return *script_step* as a session hears it: without what plugins take out of a response before others see it."""
    if not isinstance(script_step, Saying):
        return script_step
    parts = script_step.response.parts
    for plugin in pair:
        screen = cast("Plugin[object]", unkeyed(plugin)[1]).screen
        parts = tuple(Text(screen(part.text)) if isinstance(part, Text) else part for part in parts)
    return script_step.but(response=script_step.response.but(parts=parts))


def runs_of(decisions: Sequence[Decision]) -> list[Run]:
    """Return *decisions* by runs of hooks. All that is decided about one call at a hook is one run."""
    runs: list[Run] = []
    open_runs: dict[tuple[str, str], Run] = {}
    for decision in decisions:
        hook = decision.hook
        call_id = hook.call_id if isinstance(hook, BeforeTool | AfterTool | OnToolError) else ""
        about = (hook.hook_name, call_id)
        run = open_runs.get(about)
        is_same = run is not None and (
            call_id or hook.asked is not None or (run.step == decision.step and decision.plugin not in run.asked)
        )
        if run is None or not is_same:
            run = open_runs[about] = Run(about, decision.step)
            runs.append(run)
        run.step = decision.step
        run.asked.append(decision.plugin)
        run.faced.setdefault(decision.plugin, (decision.before, getattr(hook, "args", None)))
        deed = _deed(decision)
        if not deed.is_none:
            run.deeds.append((decision.plugin, deed))
    return runs


def _deed(decision: Decision) -> Deed:
    action = decision.action
    if action is None:
        return Deed(repr(decision.answer), UNCHANGED)
    state = getattr(action, "state", UNCHANGED)
    return Deed(action.but(state=UNCHANGED), UNCHANGED if state == decision.before else state)


def _end(trace: Trace, world: World) -> dict[str, object]:
    keys = [attached.key for attached in trace.state.plugins]
    told = [event for event in trace.events if isinstance(event, TOLD)]
    return {
        "started": sorted(repr((start.call_id, start.name, start.args)) for start in trace.started),
        "held": sorted(repr((held.call_id, held.args)) for held in trace.held),
        "blocked": sorted(repr((blocked.call_id, blocked.reason)) for blocked in trace.blocked),
        "outcomes": trace.outcomes,
        "messages": [_sorted_lines(message.text) for message in trace.messages],
        "requests": [
            (
                request.model,
                [_sorted_lines(message.text) for message in request.messages],
                sorted(request.background),
                sorted(request.sections),
            )
            for request in trace.requests
        ],
        "states": dict(zip(keys, trace.state.plugin_states, strict=True)),
        "files": world.files,
        "told": sorted(map(repr, told)),
    }


def _sorted_lines(text: str) -> list[str]:
    """Return the lines of *text* sorted: in which order texts are added does not count."""
    return sorted(text.splitlines())


def difference(one: Played, other: Played) -> int | str | None:
    """Return the place of the first run that differs, else what differs at the end, else `None`."""
    for index, (here, there) in enumerate(zip(one.runs, other.runs, strict=False)):
        if here.about != there.about or _differing(here, there):
            return index
        if any(here.last(kind) != there.last(kind) for kind in REPLACING):
            return index
    if len(one.runs) != len(other.runs):
        return "one has more runs of hooks"
    return next((f"at the end: {name}" for name, found in one.end.items() if found != other.end[name]), None)


def why(here: Run, there: Run) -> str | None:
    """Return the reason of the page for what differs between two runs of a hook; `None` if it has none for that."""
    keys = frozenset(here.asked + there.asked)
    if here.about != there.about:
        return None
    if all(_was_spared(key, here, there) or _was_spared(key, there, here) for key in _differing(here, there)):
        return ENDS if _differing(here, there) else _why_another_counts(here, there, keys)
    if here.about[0] == "before_finish" and keys == SENDERS and _first_sender_counts(here, there):
        return SENDS
    return SEES if here.about[0] == "after_tool" and keys == TELLERS and _tells_other_words(here, there) else None


def _differing(here: Run, there: Run) -> list[str]:
    """Return the names of the plugins that did not do the same in both runs."""
    return [key for key in dict.fromkeys(here.asked + there.asked) if here.of(key) != there.of(key)]


def _was_spared(key: str, run: Run, other: Run) -> bool:
    """Whether all that the plugin *key* did not do in *run* is that the other plugin had ended or paused it before.

    After an end it is not asked at all. After a pause it is asked about what a person has approved: it need not hold
    the call once more. It may rule otherwise only if the person has changed the arguments, or if it has ruled on other
    calls meanwhile.
    """
    by = run.first(*ENDING)
    if by is None or by == key or by != run.asked[0]:
        return False
    if key not in run.asked:
        return True
    return run.first(HoldTool) == by and (
        run.faced[key] != other.faced.get(key)
        or run.of(key) == [deed for deed in other.of(key) if not isinstance(deed.action, HoldTool)]
    )


def _why_another_counts(here: Run, there: Run, keys: frozenset[str]) -> str | None:
    """Return the reason why another answer counts, where each plugin has answered the same in both orders."""
    is_choice = all(here.last(kind) == there.last(kind) for kind in REPLACING if kind is not SwitchModel)
    both = all(any(isinstance(deed.action, SwitchModel) for deed in here.of(key)) for key in keys)
    return SWITCHES if is_choice and both and keys <= CHOOSERS else None


def _first_sender_counts(here: Run, there: Run) -> bool:
    """Whether one plugin sends the model back in each run: the same one alike, or each one if it is asked first."""
    senders = [[by for by, deed in run.deeds if isinstance(deed.action, Intervene)] for run in (here, there)]
    if [len(one) for one in senders] != [1, 1]:
        return False
    (first,), (first_there,) = senders
    if first == first_there:
        return here.of(first) == there.of(first)
    return first == here.asked[0] and first_there == there.asked[0]


def _tells_other_words(here: Run, there: Run) -> bool:
    """Whether `Recovery` does the same in both runs, and only tells of a result that the other one has replaced."""
    replaced = here.last(ReplaceToolResult)
    return (
        replaced is not None
        and replaced == there.last(ReplaceToolResult)
        and here.of("LargeResultOffload") == there.of("LargeResultOffload")
        and list(map(_without_words, here.of("Recovery"))) == list(map(_without_words, there.of("Recovery")))
    )


def _without_words(deed: Deed) -> tuple[object, ...]:
    action = deed.action
    if not isinstance(action, Action):
        return (action,)
    names = [emitted.name for emitted in action.emits if isinstance(emitted, Emission)]
    return type(action), deed.state, names, action.model if isinstance(action, SwitchModel) else ""
