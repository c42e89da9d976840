import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, run_state_machine_as_test

from agentrail import Action, Context
from agentrail.events import Envelope
from agentrail.hooks.action_checks import why_malformed
from agentrail.hooks.hook_types import HOOK_NAMES, HOOKS
from agentrail.models import Message, ToolCall
from agentrail.plugins import MATRIX, Attachable, Hook
from agentrail.testing import (
    Choose,
    Holder,
    Recorder,
    Scene,
    SessionMachine,
    World,
    actions,
    contexts,
    event_scripts,
    hooks,
    messages,
    plugin_sets,
    sessions,
    tool_calls,
)
from agentrail.testing.probe_plugins import Guard
from agentrail.testing.strategies import HOOK_FIELDS
from agentrail.values.messages import why_unfit


def test_each_hook_has_its_strategy() -> None:
    assert set(HOOK_FIELDS) == set(HOOKS)


@pytest.mark.parametrize("hook_name", sorted(HOOK_NAMES))
@settings(max_examples=20)
@given(st.data())
def test_an_action_for_a_hook_is_one_that_it_accepts(hook_name: str, data: st.DataObject) -> None:
    action = data.draw(actions(hook_name))
    assert type(action) in MATRIX[hook_name]
    assert why_malformed(action) is None
    assert data.draw(hooks(hook_name)).hook_name == hook_name


@given(hooks(), actions(), contexts(), tool_calls())
def test_what_is_drawn_is_frozen_and_has_a_hash(hook: Hook, action: Action[int], ctx: Context, call: ToolCall) -> None:
    assert len({hook: 1, ctx: 2, call: 3}) == 3
    assert action == action.but()


@given(messages())
def test_drawn_messages_are_fit_for_a_provider(drawn: tuple[Message, ...]) -> None:
    assert why_unfit(drawn) is None


@given(plugin_sets((Recorder(), Guard(), st.builds(Holder, timeout=st.just(5.0))), least=1, most=2))
def test_a_plugin_set_is_a_part_of_the_candidates(drawn: tuple[Attachable, ...]) -> None:
    assert 1 <= len(drawn) <= 2
    assert set(drawn) <= {Recorder(), Guard(), Holder(timeout=5.0)}
    assert len(set(drawn)) == len(drawn)


@settings(max_examples=20)
@given(sessions(plugins=(Holder(),)))
def test_a_drawn_session_can_be_rebuilt(world: World) -> None:
    assert "Holder" in {attached.key for attached in world.first.plugins}
    world.check_replay()


@settings(max_examples=20)
@given(event_scripts())
def test_an_event_script_is_numbered_without_a_gap(script: tuple[Envelope, ...]) -> None:
    assert [envelope.seq for envelope in script] == list(range(1, len(script) + 1))


class NeverTalks(SessionMachine):
    """A machine of a user, with an invariant that does not hold."""

    def scene(self, choose: Choose) -> Scene:
        return Scene(plugins=(Recorder(),))

    @invariant()
    def nobody_says_anything(self) -> None:
        assert not hasattr(self, "world") or not self.world.state.history


def test_an_invariant_of_a_user_is_checked_and_what_breaks_it_is_small() -> None:
    with pytest.raises(AssertionError) as broken:
        run_state_machine_as_test(
            NeverTalks,
            settings=settings(max_examples=100, stateful_step_count=6, phases=(Phase.generate, Phase.shrink)),
        )
    notes = "\n".join(getattr(broken.value, "__notes__", ()))
    assert notes.count("state.the_user_") <= 1


def test_choices_are_what_they_say() -> None:
    first = Choose(lambda _: 0)
    assert first.pick("abc") == "a"
    assert first.number(3, 9) == 3
    assert not first.percent(99)
    assert first.weighted(((0, "never"), (1, "always"))) == "always"
    assert first.some("abc", 100) == ("a", "b", "c")
