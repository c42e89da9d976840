"""The plugin contract: what is refused when a class is defined, and what an action says of itself."""

import pytest

from agentrail import Abort, BlockTool, Context, Continue, Emit, HoldTool, Plugin, Skip
from agentrail.errors import BadPlugin, ReplayDiffers, UsageError
from agentrail.events import PlanStepCompleted
from agentrail.hooks.actions import ACTIONS, UNCHANGED, Emission
from agentrail.hooks.attachments import attached_plugin, implemented, in_order, refuse_twins, unkeyed
from agentrail.hooks.hook_runner import PluginRow, RecordedRunner
from agentrail.hooks.hook_types import HOOK_NAMES, HOOKS
from agentrail.hooks.plugin import ON_EVENT, accepted
from agentrail.hooks.ruling import UNRULED
from agentrail.plugins import MATRIX, BeforePrompt, BeforeTool, IdleHooks, Keyed
from agentrail.values.step_budget import Meter
from tests.cells.bench import plug
from tests.coded import coded
from tests.kit import Ruling


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("before_tools", " (did you mean `before_tool`?)"),
        ("after_trun", " (did you mean `after_turn`?)"),
        ("on_tool_errors", " (did you mean `on_tool_error`?)"),
        ("session_begin", ""),
        ("on_events", " (did you mean `on_event`?)"),
    ],
)
def test_a_misspelt_hook_is_refused_when_the_class_is_defined(name: str, near: str) -> None:
    with pytest.raises(BadPlugin) as refused:
        type("Typo", (Plugin,), {name: lambda *_: Continue()})
    assert f"there is no hook `{name}`{near}; the hooks are" in str(refused.value)
    assert "before_tool" in str(refused.value)


def test_other_methods_are_the_plugins_own_business() -> None:
    new_value = type(
        "Fine", (Plugin,), {"helper": lambda _: 1, "on_options": lambda _, _new, state: state, "beforehand": 1}
    )
    assert implemented(new_value()) == frozenset()


def test_a_plugin_implements_what_it_overrides() -> None:
    assert implemented(plug(before_tool=Continue(), after_turn=Continue())) == {"before_tool", "after_turn"}
    assert implemented(type("Hears", (Plugin,), {ON_EVENT: lambda _s, _e, state, _c: state})()) == {ON_EVENT}
    assert implemented(Plugin()) == frozenset()


def test_a_hook_that_is_idle_with_the_options_is_not_among_them() -> None:
    hooks = {"before_tool": lambda *_: Continue(), "after_turn": lambda *_: Continue()}
    for idle, remaining in (("after_turn", {"before_tool"}), ("session_end", {*hooks})):
        assert implemented(type("Idles", (Plugin,), {**hooks, "declarations": (IdleHooks((idle,)),)})()) == remaining


def test_every_hook_of_the_base_class_lets_things_go_on() -> None:
    for hook in HOOKS:
        answer = getattr(Plugin(), hook.hook_name)(None, 5, Context())
        assert answer == Continue(5)


def test_the_matrix_is_read_off_the_signatures() -> None:
    assert accepted() == MATRIX
    assert set(MATRIX) == HOOK_NAMES == {hook.hook_name for hook in HOOKS} == set(UNRULED)
    assert all(Continue in kinds and Emit in kinds for kinds in MATRIX.values())


def test_an_action_says_its_name_its_state_and_whether_it_stops_the_pipeline() -> None:
    assert [kind.kind for kind in ACTIONS if kind.short_circuits] == ["abort", "skip", "block_tool"]
    assert len({kind.kind for kind in ACTIONS}) == len(ACTIONS) == 16
    assert Continue().state is UNCHANGED
    assert Abort("why", 5).state == 5
    assert HoldTool("why").state is UNCHANGED


def test_an_action_can_emit_beside_its_effect() -> None:
    done = PlanStepCompleted(0, "look")
    action = Skip().emitting("one", 1).reporting(done).emitting("two")
    assert action.emits == (Emission("one", 1), done, Emission("two"))
    assert Skip().emits == ()
    assert BlockTool("no").emitting("x").reason == "no"


def test_emit_lists_what_it_emits_in_order() -> None:
    done = PlanStepCompleted(0, "look")
    assert Emit("one").emitting("two").emissions == (Emission("one"), Emission("two"))
    assert Emit((("one", 1), ("two", 2))).emissions == (Emission("one", 1), Emission("two", 2))
    assert Emit(done).emissions == (done,)


def test_a_plugin_describes_itself_by_the_first_line_of_its_docstring() -> None:
    class Described(Plugin[None]):
        """Do one thing.

        And explain it.
        """

    assert Described().describe() == "Do one thing."
    assert plug("Bare").describe()


def test_a_plugin_that_says_how_its_state_grew_up_must_say_how() -> None:
    with pytest.raises(BadPlugin):
        Plugin[None]().upgrade(1)


# Attached plugins


def test_a_key_stands_for_one_of_two_plugins_of_a_class() -> None:
    plugin = plug("P")
    assert unkeyed(plugin) == ("P", plugin)
    assert unkeyed(Keyed("mine", plugin)) == ("mine", plugin)
    refuse_twins(["P", "mine"])
    with pytest.raises(UsageError, check=coded("plugin-exists")):
        refuse_twins(["P", "Q", "P"])


def test_what_is_attached_says_everything_of_a_plugin_but_its_code_and_state() -> None:
    attached = attached_plugin("mine", plug("P", critical=True, priority=7, before_tool=Continue()), 3)
    assert (attached.key, attached.priority, attached.critical, attached.hooks) == (
        "mine",
        7,
        True,
        frozenset({"before_tool"}),
    )
    assert (attached.version, attached.revision, attached.options) == (1, 3, {})
    assert attached.plugin.endswith(":P")


def test_attached_plugins_are_asked_by_priority_then_by_registration() -> None:
    attached_plugins = tuple(
        attached_plugin(str(index), plug(priority=priority)) for index, priority in enumerate((9, 1, 9, 1))
    )
    assert in_order(attached_plugins) == (1, 3, 0, 2)


# The hook runner of a replay


def test_a_replay_reads_the_rulings_in_order_and_asks_nobody() -> None:
    hook_runner = RecordedRunner([Ruling("before_prompt", reason="a"), Ruling("before_tool")], "s", 4)
    row = PluginRow((), ())
    assert hook_runner.run(BeforePrompt("hello"), row, Context).reason == "a"
    with pytest.raises(ReplayDiffers) as differs:
        hook_runner.run(BeforePrompt("hello"), row, Context)
    assert differs.value == ReplayDiffers("s", 4, "its rulings: `before_prompt` is asked, `before_tool` is recorded")
    with pytest.raises(ReplayDiffers) as ended:
        hook_runner.run(BeforeTool("look", {}, "c1"), row, Context)
    assert "nothing is recorded" in str(ended.value)


def test_a_replay_knows_what_it_was_not_asked_for() -> None:
    hook_runner = RecordedRunner(
        [Ruling("init"), Ruling("on_options"), Ruling("check"), Ruling("on_event"), Ruling("upgrade"), Ruling("init")]
    )
    attached = attached_plugin("P", plug())
    assert hook_runner.init(attached, Context).hook == "init"
    assert hook_runner.options(attached, None, {}).hook == "on_options"
    assert hook_runner.check("look", 0, {}, Meter(1)).hook == "check"
    assert hook_runner.learn((), PluginRow((), ()), Context, {}).hook == "on_event"
    assert hook_runner.upgrade(attached, None).hook == "upgrade"
    assert hook_runner.left == 1
    with pytest.raises(ReplayDiffers) as differs:
        RecordedRunner(()).init(attached, Context)
    assert differs.value == ReplayDiffers("", 0, "its rulings: `init` is asked, nothing is recorded")
