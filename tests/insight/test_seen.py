"""`seen`: the parts of a request, their origins, what was cached, and the difference to the request before."""

import random

import pytest

from agentrail import Intervene, SetSection
from agentrail.core.system_prompt import fixed_text
from agentrail.core.vocabulary.commands import SwitchModelSent
from agentrail.core.vocabulary.effects import StartRequest
from agentrail.core.vocabulary.inputs import StreamCut, StreamEnded
from agentrail.errors import UnknownRequest
from agentrail.events import PrefixChanged
from agentrail.insight import Seen, at, requests, seen
from agentrail.models import Failure, FailureKind, Usage
from agentrail.testing import Choose
from agentrail.testing.world.random_setups import draw_scene
from agentrail.tools import ok
from agentrail.values.stream import NOTHING_YET
from tests.cells.bench import Bench, call, plug, response
from tests.insight.stories import records_of, records_of_world
from tests.kit import SteerSent, freeze_object
from tests.machinery.worlds.checked_world import CheckedWorld
from tests.profiles import CAMPAIGN


def told(bench: Bench, which: int | str | None = None) -> Seen:
    return seen(records_of(bench), which)


def test_a_round_is_found_by_its_number_or_by_the_id_of_an_attempt() -> None:
    bench = Bench()
    bench.prompt("go")
    bench.send(StreamCut(bench.request_id, NOTHING_YET, Failure(FailureKind.TRANSIENT, "Overloaded", "later")))
    (timer,) = [name for name, _ in bench.state.timers if name.startswith("retry")]
    bench.fires(timer)
    bench.answers("done")
    bench.prompt("more")
    first, second, third = requests(records_of(bench))
    assert [(sent.number, sent.turn, sent.round, sent.attempt) for sent in (first, second, third)] == [
        (1, 1, 1, 1),
        (1, 1, 1, 2),
        (2, 2, 1, 1),
    ]
    assert told(bench).sent == third
    assert told(bench, 1).sent == second
    assert told(bench, first.request_id).sent == first
    for which, message in ((3, "no request `3`"), ("r99", "no request `r99`; it has sent 3")):
        with pytest.raises(UnknownRequest, match=message):
            told(bench, which)
    with pytest.raises(UnknownRequest, match="session `s` has sent no request yet; it has sent 0"):
        told(Bench())


def test_each_message_names_the_record_that_brought_it() -> None:
    bench = Bench(plug("Coach", before_finish=Intervene("be thorough")))
    bench.prompt("go")
    bench.answers("", call("look", path="a"))
    bench.returns("c3")
    bench.answers("done")
    one = told(bench)
    parts = [part for part in one.parts if part.message is not None]
    assert [(part.name, part.record, part.place) for part in parts] == [
        ("user", 2, 0),
        ("assistant", 3, 1),
        ("tool", 4, 2),
        ("assistant", 5, 3),
        ("user", 5, 4),
    ]
    assert [part.by for part in parts] == [(), (), (), (), ("Coach",)]


def test_a_text_of_a_plugin_in_the_words_of_somebody_else_makes_them_not_its_own() -> None:
    bench = Bench(plug("Coach", before_finish=Intervene("done")))
    bench.prompt("go")
    bench.answers("well")
    bench.send(SteerSent("get it done"))
    bench.answers("", call("look", path="a"))
    bench.returns("c4", ok("done"))
    parts = [(part.name, part.by) for part in told(bench).parts if part.message is not None and part.by]
    assert parts == [("user", ("Coach",))]


def test_what_the_provider_had_cached_is_told_by_the_usage_that_it_reported() -> None:
    bench = Bench(tools=())
    bench.prompt("a" * 400)
    bench.answers("b" * 400)
    bench.prompt("c" * 400)
    assert [part.cached for part in told(bench).parts] == [None] * 3, "no response has come"
    bench.send(StreamEnded(bench.request_id, response("done").but(usage=Usage(300, 5, cached_tokens=210))))
    one = told(bench)
    assert [part.cached for part in one.parts] == [True, True, False]
    assert one.difference is not None
    assert one.difference.new == one.parts[1:], "it says the same of a part wherever it tells of it"
    bench.prompt("more")
    bench.send(StreamEnded(bench.request_id, response("done").but(usage=Usage(300, 5, estimated=True))))
    assert {part.cached for part in told(bench).parts} == {None}, "the provider has not counted"


def test_the_difference_names_what_broke_the_cache() -> None:
    moods = iter(("calm", "calm", "wild"))
    bench = Bench(
        plug("Mood", before_prompt=lambda _h, _s, _c: SetSection("mood", next(moods), layer="memory")), tools=()
    )
    for text in ("one", "two", "three"):
        bench.prompt(text)
        bench.answers("done")
    second, third = told(bench, 2).difference, told(bench, 3).difference
    assert second is not None
    assert third is not None
    assert (second.same, [part.name for part in second.new], second.broke) == (2, ["assistant", "user"], None)
    assert third.same == 0
    assert [(part.name, part.by, part.text) for part in third.gone] == [("mood", ("Mood",), "calm")]
    assert [part.text for part in third.new if part.layer == "memory"] == ["wild"]
    assert isinstance(third.broke, PrefixChanged)
    assert (third.broke.part, third.broke.name, third.broke.by) == ("memory", "mood", "Mood")


def test_another_model_and_other_options_are_told_as_settings() -> None:
    bench = Bench(tools=())
    bench.prompt("one")
    bench.answers("done")
    bench.send(SwitchModelSent("n", freeze_object({"temperature": 0.5})))
    bench.prompt("two")
    difference = told(bench).difference
    assert difference is not None
    assert [(one.field, one.before, one.after) for one in difference.settings] == [
        ("model", "m", "n"),
        ("options.temperature", None, 0.5),
    ]


@pytest.mark.long
def test_of_random_sessions_each_request_is_seen_whole() -> None:
    count = 0
    for seed in range(1_000 if CAMPAIGN else 60):
        choose = Choose(random.Random(seed).randrange)
        world = CheckedWorld(draw_scene(choose))
        done = world.open()
        wanted = [effect.request for effect in done.effects if isinstance(effect, StartRequest)]
        while len(world.records) < 60:
            going = world.go(choose)
            if going is None:
                break
            wanted += [effect.request for effect in going.effects if isinstance(effect, StartRequest)]
        records = records_of_world(world)
        by_id = {request.request_id: request for request in wanted}
        for sent in requests(records):
            one = seen(records, sent.request_id)
            assert one.request == by_id[sent.request_id], (seed, sent)
            demand_whole(one)
            state = at(records, sent.record).state
            assert fixed_text(state.acting, state.tools) == one.request.system
            count += 1
    assert count > 200


def demand_whole(one: Seen) -> None:
    """Check that the parts are those of the request."""
    shown = [part.message for part in one.parts if part.message is not None]
    assert shown == list(one.request.messages)
    assert sum(part.is_passing for part in one.parts) == one.request.passing
    fixed = "\n\n".join(part.text for part in one.parts if part.layer in ("tool_names", "user"))
    assert fixed == one.request.system
    sections = [(part.name, part.text) for part in one.parts if part.layer in ("environment", "skills", "memory")]
    assert tuple(sections) == one.request.background
    if not one.by_tool:
        assert [part.tool for part in one.parts if part.tool is not None] == list(one.request.tools)
        dynamic = [(part.name, part.text) for part in one.parts if part.layer == "dynamic"]
        assert tuple(dynamic) == one.request.sections
    assert all(part.by for part in one.parts if part.layer in ("added", "replaced"))
    assert one.difference is None or one.difference.same <= len(one.parts)
