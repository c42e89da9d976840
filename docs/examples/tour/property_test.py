"""A property test: whatever a session does, no call of one tool runs with a path that a guard forbids.

A second plugin changes paths after the guard was asked. `play` runs whole sessions without a model, a clock or a
network; a failure is a seed and a number of steps.

    50 sessions, no forbidden path
"""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from agentrail.events import ToolExecutionStart
from agentrail.plugins import SecurityGuard
from agentrail.testing import ArgsReplacer, Choose, Scene, play

played: list[int] = []


@settings(max_examples=50, deadline=None, derandomize=True)
@given(seed=st.integers(0, 9_999), steps=st.integers(1, 60))
def test_no_call_gets_past_the_guard(seed: int, steps: int) -> None:
    scene = Scene(plugins=(SecurityGuard(), ArgsReplacer({"path": ".ssh/id_rsa"})))
    world = play(Choose(Random(seed).randrange), scene, steps)
    events = [envelope.event for record in world.records for envelope in record.events]
    paths = [event.args["path"] for event in events if isinstance(event, ToolExecutionStart)]
    assert ".ssh/id_rsa" not in paths
    played.append(seed)


if __name__ == "__main__":
    test_no_call_gets_past_the_guard()
    print(len(played), "sessions, no forbidden path")
