"""Changes of plugins while a session lives: they take effect between turns."""

from agentrail import Abort, Continue, Plugin
from agentrail.core.vocabulary.commands import AttachPluginSent, DetachPluginSent, UpdatePluginSent
from agentrail.core.vocabulary.state import PluginChange
from agentrail.errors import UnknownPlugin
from agentrail.events import AgentEnd, PluginAttached, PluginDetached, PluginOptsUpdated, SessionEnded
from agentrail.models import FrozenObject, JsonObject
from agentrail.plugins import AnyPlugin
from tests.cells.bench import Bench, Now, plug, ruled
from tests.cells.scenes import idle, replied, starts, streaming, user_message
from tests.kit import DONE, NOTHING_USED, Refused, Ruling, StopSent, Verdict

LEVEL = FrozenObject(level=2)


def counting(*, refuses: bool = False, broken: bool = False) -> AnyPlugin:
    """Return a plugin that keeps in its state the options it was updated to."""

    class Counts(Plugin[tuple[str, ...]]):
        def init(self, ctx: object) -> tuple[str, ...]:
            return ()

        def on_options(self, new: JsonObject, state: tuple[str, ...]) -> tuple[str, ...]:
            if refuses:
                raise ValueError(new["level"])
            return [*state] if broken else (*state, f"level {new['level']}")  # type: ignore[return-value]  # a lie

    return Counts()


def test_the_plugin_in_its_new_form_says_with_which_state_it_goes_on() -> None:
    bench = idle(counting())
    new = bench.attach(counting(), 1)
    bench.send(UpdatePluginSent(new, LEVEL)).expect_only(
        answer=DONE,
        events=[PluginOptsUpdated("Counts", success=True)],
        rulings=(*ruled("before_plugin_opts_update"), Ruling("on_options", states=((0, ("level 2",)),))),
        plugins=(new,),
        plugin_states=(("level 2",),),
    )


def test_a_plugin_that_refuses_its_options_keeps_its_old_form() -> None:
    for plugin, why in (
        (counting(refuses=True), "ValueError: 2"),
        (counting(broken=True), "its state cannot be stored: it is a `list`, which can change; keep a tuple"),
    ):
        bench = idle(plugin)
        new = bench.attach(plugin, 1)
        bench.send(UpdatePluginSent(new, LEVEL)).expect_only(
            answer=DONE,
            events=[PluginOptsUpdated("Counts", success=False, error=why)],
            rulings=(
                *ruled("before_plugin_opts_update"),
                Ruling("on_options", Verdict.ABORT, "Counts", why, critical=True),
            ),
        )


def test_the_last_options_of_each_plugin_win_and_apply_after_the_turn() -> None:
    bench = streaming(counting(), plug("Other"))
    first, second = bench.attach(counting(), 1), bench.attach(counting(), 2)
    other = bench.attach(plug("Other"), 1)
    bench.send(UpdatePluginSent(first, FrozenObject(level=1)))
    bench.send(UpdatePluginSent(other, LEVEL))
    bench.send(UpdatePluginSent(second, LEVEL))
    assert bench.state.plugin_changes == (
        PluginChange("update", "Other", other, LEVEL),
        PluginChange("update", "Counts", second, LEVEL),
    )
    bench.prompt("next")
    bench.answers("bye")
    history = (user_message(), replied("bye"))
    assert bench.got[-1].events[1:] == [
        AgentEnd("p1", "end", history, NOTHING_USED),
        PluginOptsUpdated("Other", success=True),
        PluginOptsUpdated("Counts", success=True),
        *(event for event in starts("p3", "r4", "next", turns=2, messages=3) if not isinstance(event, Now)),
    ]
    assert bench.state.plugins == (second, other)
    assert bench.state.plugin_states == (("level 2",), None)


def test_changes_apply_in_order_after_the_turn() -> None:
    bench = streaming(plug("First"))
    new = bench.attach(plug("New", priority=10, first=3))
    bench.send(AttachPluginSent(new))
    bench.send(DetachPluginSent("First"))
    bench.send(DetachPluginSent("New"))
    bench.send(DetachPluginSent("New")).expect_only(answer=Refused.of(UnknownPlugin("New", "none")))
    bench.send(AttachPluginSent(new))
    bench.answers("bye")
    assert bench.got[-1].events[2:] == [
        PluginAttached("New"),
        PluginDetached("First"),
        PluginDetached("New"),
        PluginAttached("New"),
    ]
    assert (bench.state.plugins, bench.state.plugin_states) == ((new,), (3,))


def test_a_plugin_joins_at_its_place_in_the_row() -> None:
    bench = idle(plug("A", priority=100, first="a"), plug("C", priority=900, first="c"))
    for name, priority in (("B", 100), ("D", 900), ("Z", 5)):
        bench.send(AttachPluginSent(bench.attach(plug(name, priority=priority, first=name))))
    assert [attached.key for attached in bench.state.plugins] == ["Z", "A", "B", "C", "D"]
    assert bench.state.plugin_states == ("Z", "a", "B", "c", "D")


def test_a_plugin_that_refuses_to_join_is_not_there() -> None:
    class Refuses(Plugin[None]):
        def init(self, ctx: object) -> None:
            raise ValueError(ctx is None)

    bench = idle()
    bench.send(AttachPluginSent(bench.attach(Refuses()))).expect_only(
        answer=DONE,
        events=[PluginAttached("Refuses", success=False, error="ValueError: False")],
        rulings=(Ruling("init", Verdict.ABORT, "Refuses", "ValueError: False", critical=True),),
    )


def test_an_update_of_a_plugin_that_never_joined_is_reported() -> None:
    class Refuses(Plugin[None]):
        def init(self, ctx: object) -> None:
            raise ValueError(ctx is None)

    bench = streaming()
    attached = bench.attach(Refuses())
    bench.send(AttachPluginSent(attached))
    bench.send(UpdatePluginSent(attached, LEVEL))
    bench.send(DetachPluginSent("Refuses"))
    bench.answers("bye")
    assert bench.got[-1].events[2:] == [
        PluginAttached("Refuses", success=False, error="ValueError: False"),
        PluginOptsUpdated("Refuses", success=False, error="it was never attached"),
        PluginDetached("Refuses", success=False, error="it was never attached"),
    ]


def test_the_plugin_itself_is_not_asked_about_its_own_options() -> None:
    shut = plug("Shut", before_plugin_opts_update=Abort("never"))
    bench = idle(shut)
    bench.send(UpdatePluginSent(bench.attach(shut, 1), LEVEL))
    assert bench.got[-1].events == [PluginOptsUpdated("Shut", success=True)]
    watch: list[object] = []

    def answer(hook: object, _s: object, _c: object) -> object:
        watch.append(hook)
        return Continue()

    bench = idle(plug("Watch", before_plugin_opts_update=answer), plug("Other"))
    bench.send(UpdatePluginSent(bench.attach(plug("Other"), 1), LEVEL))
    assert [(getattr(hook, "plugin", ""), getattr(hook, "options", {})) for hook in watch] == [("Other", LEVEL)]


def test_changes_that_never_apply_are_reported_at_the_end() -> None:
    bench = streaming(plug("First"))
    bench.send(UpdatePluginSent(bench.attach(plug("First"), 1), LEVEL))
    bench.send(AttachPluginSent(bench.attach(plug("New"))))
    bench.send(DetachPluginSent("First"))
    bench.send(StopSent())
    over = "the session has ended"
    assert bench.got[-1].events[1:] == [
        PluginOptsUpdated("First", success=False, error=over),
        PluginAttached("New", success=False, error=over),
        PluginDetached("First", success=False, error=over),
        SessionEnded("stopped"),
    ]


def test_the_row_of_a_bench_is_in_order() -> None:
    assert [attached.key for attached in Bench(plug("A", priority=9), plug("B", priority=1)).state.plugins] == [
        "B",
        "A",
    ]
