"""A step may send two requests: the first is aborted at its own events, and the next queued prompt is taken."""

from agentrail.core.vocabulary.inputs import StreamEnded
from agentrail.models import Response, Text
from agentrail.plugins import Keyed
from agentrail.testing import Recorder, Scene
from agentrail.testing.probe_plugins import CriticalListener, Scripted
from tests.kit import PromptSent
from tests.machinery.worlds.checked_world import CheckedWorld


def starts(raises_at: int) -> int:
    """Return how many requests the step after a response has sent, if a critical listener raises now and then."""
    adds = Keyed("A", Scripted({"before_request": ("add_context",)}))
    world = CheckedWorld(Scene(plugins=(Recorder(), adds, Keyed("B", CriticalListener(raises_at)))))
    world.open()
    for text in ("one", "two", "three"):
        world.apply(PromptSent((Text(text),)))
    if world.state.request is None:
        return 0
    world.apply(StreamEnded(world.state.request.request_id, Response((Text("done"),))))
    return world.records[-1].effects.count("StartRequest")


def test_the_promise_about_added_context_looks_at_the_request_that_goes_on() -> None:
    assert 2 in {starts(raises_at) for raises_at in range(2, 40)}
