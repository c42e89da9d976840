"""How the answers of several plugins combine."""

from typing import Final

from agentrail import (
    Abort,
    Accepted,
    AddContext,
    BlockTool,
    Context,
    Continue,
    Emit,
    Intervene,
    Priority,
    ReplaceMessages,
    ReplaceToolArgs,
    ReplaceToolResult,
    SetSection,
    Skip,
    SwitchModel,
)
from agentrail.core.system_prompt import pairs_of
from agentrail.core.vocabulary.commands import SwitchModelSent, UpdatePluginSent
from agentrail.core.vocabulary.effects import CloseSession, ReportStart
from agentrail.core.vocabulary.inputs import SessionOpened
from agentrail.core.vocabulary.state import Steering
from agentrail.errors import PluginRefused, SessionRefused
from agentrail.events import (
    AgentAbort,
    Intervention,
    ModelEffective,
    ModelSwitched,
    PlanStepCompleted,
    PluginEvent,
    PluginOptsUpdated,
    PromptRejected,
    RequestStart,
    ResponseComplete,
    SessionEnded,
    SteeringReceived,
    ToolBlocked,
    ToolCalls,
)
from agentrail.hooks.ruling import Decisions, Section, Switch
from agentrail.models import AssistantMessage, FrozenObject, Json, Origin, Text, ToolCall
from agentrail.plugins import AnyPlugin, Hook
from agentrail.tools import err, ok
from agentrail.values.messages import Added, MessageRange, Rearranged
from tests.cells.bench import Answering, Bench, Got, Now, call, plug, ruled
from tests.cells.scenes import (
    executing,
    failed,
    limit,
    out,
    path,
    replied,
    request,
    run,
    running,
    start,
    starts,
    streaming,
    turn,
    user_message,
)
from tests.kit import DONE, EMPTY, Phase, Refused, Ruling, SteerSent, Verdict

OTHER: Final = user_message("other")


def noted(plugin: str, name: str, payload: Json = None) -> PluginEvent:
    return PluginEvent(plugin, name, payload)


class Watching:
    """Makes plugins that note what they were asked."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Hook, object]] = []

    def plug(
        self, name: str, hook_name: str, *answers: object, priority: int = 900, critical: bool = False
    ) -> AnyPlugin:
        """Return a plugin that gives *answers* one after the other, and then repeats the last one."""
        number = 0

        def answer(hook: Hook, state: object, _ctx: Context) -> object:
            nonlocal number
            self.seen.append((name, hook, state))
            number += 1
            return answers[min(number, len(answers)) - 1]

        return watch(name, hook_name, answer, priority=priority, critical=critical)

    @property
    def who(self) -> list[str]:
        return [name for name, _, _ in self.seen]


def watch(name: str, hook_name: str, answer: Answering, *, priority: int = 900, critical: bool = False) -> AnyPlugin:
    return plug(name, priority=priority, critical=critical, first=0, **{hook_name: answer})


def prompted(*plugins: AnyPlugin) -> Got:
    """Return the step of a prompt."""
    return Bench(*plugins).prompt()


def started(got: Got, rulings: tuple[Ruling, ...], *, states: tuple[object, ...], **changes: object) -> None:
    """Check that the step started a turn as usual, apart from these rulings and changes of the state."""
    old = got.before
    model = changes.get("model", "m")
    assert isinstance(model, str)
    sections = pairs_of(changes.get("sections", ()))  # type: ignore[arg-type]  # sections
    history = changes.pop("history", old.history.and_(user_message()))
    visible = changes.pop("shown", history)
    events = changes.pop("events", None)
    pieces = changes.pop("pieces", ())
    got.expect_only(
        answer=Accepted("p1", "started"),
        ids=2,
        events=events or starts("p1", "r2"),  # type: ignore[arg-type]  # events
        effects=[request(old, "r2", messages=visible, model=model, sections=sections)],
        rulings=rulings,
        phase=Phase.RUNNING,
        turn_count=1,
        round=1,
        turn=turn(model=model),
        plugin_states=states,
        history=history,
        last_request_model=(model, EMPTY),
        request=out("r2", 0, *pieces),  # type: ignore[misc]  # ranges and messages
        **changes,
    )


# Going on


def test_continue_asks_the_next_plugin() -> None:
    watching = Watching()
    plugins = [watching.plug(name, "before_prompt", Continue(name)) for name in "ABC"]
    states = ((0, "A"), (1, "B"), (2, "C"))
    started(
        prompted(*plugins),
        (Ruling("before_prompt", states=states), *ruled("before_request")),
        states=("A", "B", "C"),
    )
    assert watching.who == ["A", "B", "C"]


def test_interventions_are_joined_by_a_blank_line_and_injected_once() -> None:
    got = prompted(
        plug("A", before_prompt=Intervene("first")),
        plug("B", before_prompt=Continue()),
        plug("C", before_prompt=Intervene("second")),
    )
    note = user_message("first\n\nsecond", Origin.INTERVENTION)
    opening = starts("p1", "r2", messages=2)
    history = got.before.history.and_(user_message(), note)
    started(
        got,
        (Ruling("before_prompt", decisions=Decisions(texts=("first", "second"))), *ruled("before_request")),
        states=(None, None, None),
        events=[*opening[:3], Intervention("first\n\nsecond", "before_prompt"), *opening[3:]],
        history=history,
        shown=history,
    )


def test_interventions_of_a_response_and_its_tools_become_one_message_behind_the_results() -> None:
    bench = executing(
        call("look", path="a"),
        call("store"),
        plugins=(
            plug(
                "A",
                after_response=lambda hook, _s, _c: Intervene("one") if hook.message.calls else Continue(),
                after_tool=Intervene("two"),
                after_tool_batch=Intervene("three"),
            ),
        ),
    )
    bench.returns("c4")
    bench.returns("c3")
    note = user_message("one\n\ntwo\n\ntwo\n\nthree", Origin.INTERVENTION)
    assert bench.state.history[-1] == note
    texts = [(event.hook, event.text) for event in bench.got[-1].events if isinstance(event, Intervention)]
    assert texts == [
        ("after_response", "one"),
        ("after_tool", "two"),
        ("after_tool", "two"),
        ("after_tool_batch", "three"),
    ]


def test_interventions_before_a_request_become_one_message_at_its_end() -> None:
    got = prompted(plug("A", before_request=Intervene("first")), plug("B", before_request=Intervene("second")))
    history = got.before.history.and_(user_message(), user_message("first\n\nsecond", Origin.INTERVENTION))
    started(
        got,
        (*ruled("before_prompt"), Ruling("before_request", decisions=Decisions(texts=("first", "second")))),
        states=(None, None),
        events=[
            *starts("p1", "r2")[:-1],
            Intervention("first\n\nsecond", "before_request"),
            RequestStart("r2", "m", 2, 1),
        ],
        history=history,
    )


def test_interventions_in_steering_are_joined_behind_the_text_of_the_user() -> None:
    bench = running(plug("A", before_steering=Intervene("first")), plug("B", before_steering=Intervene("second")))
    text = "rather this\n\nfirst\n\nsecond"
    bench.send(SteerSent("rather this")).expect_only(
        answer=Accepted("s3", "queued", 1),
        ids=1,
        events=[Intervention("first\n\nsecond", "before_steering"), SteeringReceived("s3", text, "queued")],
        rulings=(Ruling("before_steering", decisions=Decisions(texts=("first", "second"))),),
        steering=(Steering("s3", text),),
    )


# Stopping


GATHERING: Final = (
    plug("A", before_request=Intervene("note", 1).emitting("by_a"), first=0),
    plug("B", before_request=ReplaceMessages((OTHER,), 1).emitting("by_b"), first=0),
    plug("C", before_request=SetSection("mood", "calm", 1).emitting("by_c"), first=0),
    plug("D", before_request=SwitchModel("n", 1).emitting("by_d"), first=0),
    plug("E", before_request=Emit("by_e", state=1), first=0),
)
EMITTED: Final = tuple(noted(name, f"by_{name.lower()}") for name in "ABCDE")
CHANGED: Final = tuple((place, 1) for place in range(5))


def test_an_abort_drops_what_was_accumulated_but_for_states_and_emits() -> None:
    watching = Watching()
    late = watching.plug("G", "before_request", Continue())
    got = prompted(*GATHERING, plug("F", before_request=Abort("no", 1).emitting("by_f"), first=0), late)
    emits = (*EMITTED, noted("F", "by_f"))
    decided = Ruling(
        "before_request", Verdict.ABORT, "F", "no", decisions=Decisions(emits=emits), states=(*CHANGED, (5, 1))
    )
    got.expect_only(
        answer=Accepted("p1", "started"),
        ids=1,
        events=[*starts("p1", "r2")[:-1], *emits, AgentAbort("p1", "plugin", "F: no")],
        rulings=(*ruled("before_prompt"), decided, *ruled("after_turn")),
        turn_count=1,
        plugin_states=(1, 1, 1, 1, 1, 1, 0),
        history=got.before.history.and_(user_message()),
    )
    assert watching.who == []


def test_skip_keeps_what_earlier_plugins_did() -> None:
    watching = Watching()
    late = watching.plug("G", "before_request", Continue())
    got = prompted(*GATHERING, plug("F", before_request=Skip(1).emitting("by_f"), first=0), late)
    emits = (*EMITTED, noted("F", "by_f"))
    switch = Switch("n", EMPTY, "D")
    decisions = Decisions(
        texts=("note",),
        messages=Rearranged((OTHER,)),
        replaced_by=("B",),
        switch=switch,
        sections=(Section("mood", "calm", by="C"),),
        emits=emits,
    )
    decided = Ruling("before_request", Verdict.SKIP, "F", decisions=decisions, states=(*CHANGED, (5, 1)))
    note = user_message("note", Origin.INTERVENTION)
    started(
        got,
        (*ruled("before_prompt"), decided),
        states=(1, 1, 1, 1, 1, 1, 0),
        events=[
            *starts("p1", "r2")[:-1],
            *emits,
            ModelSwitched("m", "n", provider_opts_changed=False, by="D"),
            Intervention("note", "before_request"),
            ModelEffective("n"),
            RequestStart("r2", "n", 2, 1),
        ],
        model="n",
        sections=(Section("mood", "calm", by="C"),),
        shown=(OTHER, note),
        pieces=(OTHER, MessageRange(1, 2)),
        history=got.before.history.and_(user_message(), note),
    )
    assert watching.who == []


def test_an_abort_of_a_prompt_leaves_the_next_one() -> None:
    picky = plug("A", before_prompt=lambda hook, _s, _c: Abort("no") if hook.text == "bad" else Continue())
    bench = Bench(picky)
    no = Ruling("before_prompt", Verdict.ABORT, "A", "no")
    bench.prompt("bad").expect_only(
        answer=Accepted("p1", "started"),
        ids=1,
        events=[PromptRejected("p1", "no", "A")],
        rulings=(no,),
    )
    bench.prompt("good")
    bench.prompt("bad")
    bench.prompt("good")
    message = replied("bye")
    old = bench.state
    assert [prompt.text for prompt in old.queue] == ["bad", "good"]
    bench.answers("bye")
    got = bench.got[-1]
    assert got.events[2:] == [
        PromptRejected("p4", "no", "A"),
        *(event for event in starts("p5", "r6", "good", turns=2, messages=3) if not isinstance(event, Now)),
    ]
    assert got.step.effects == (request(old, "r6", message, user_message("good")),)


def test_an_abort_of_a_start_ends_the_session() -> None:
    bench = Bench(plug("A", session_start=Abort("not here")), opened=False)
    error = SessionRefused("s", "plugin `A`", "not here")
    init = Ruling("init", states=((0, None),))
    bench.send(SessionOpened()).expect_only(
        answer=DONE,
        events=[SessionEnded(str(error))],
        effects=[ReportStart(Refused.of(error)), CloseSession(str(error))],
        rulings=(init, Ruling("session_start", Verdict.ABORT, "A", "not here")),
        phase=Phase.ENDED,
        is_starting=False,
        plugin_states=(None,),
        stop_reason=str(error),
    )


def test_an_abort_of_steering_refuses_that_text() -> None:
    bench = running(plug("A", before_steering=lambda hook, _s, _c: Abort("no") if hook.text == "bad" else Continue()))
    bench.send(SteerSent("bad")).expect_only(
        answer=Refused.of(PluginRefused("no", "A")),
        ids=1,
        events=[SteeringReceived("s3", "bad", "rejected_plugin", "no")],
        rulings=(Ruling("before_steering", Verdict.ABORT, "A", "no"),),
    )
    bench.send(SteerSent("good"))
    assert [text.text for text in bench.state.steering] == ["good"]


def test_an_abort_of_new_options_refuses_them_and_their_owner_is_not_asked() -> None:
    watching = Watching()
    owner = watching.plug("B", "before_plugin_opts_update", Abort("never"))
    bench = Bench(plug("A", before_plugin_opts_update=Abort("no")), owner)
    attached = bench.attach(owner, 1)
    bench.send(UpdatePluginSent(attached, FrozenObject(level=2))).expect_only(
        answer=DONE,
        events=[PluginOptsUpdated("B", success=False, error="A refused: no")],
        rulings=(Ruling("before_plugin_opts_update", Verdict.ABORT, "A", "no"),),
    )
    assert watching.who == []


def test_a_block_stops_one_call_and_leaves_the_others() -> None:
    def answer(hook: Hook, _state: object, _ctx: object) -> object:
        return BlockTool("not this", 1).emitting("by_b") if getattr(hook, "name", "") == "store" else Continue()

    watching = Watching()
    late = watching.plug("C", "before_tool", Continue())
    changes = plug("A", before_tool=ReplaceToolArgs({"path": "b"}, 1).emitting("by_a"), first=0)
    bench = streaming(changes, watch("B", "before_tool", answer), late)
    old = bench.state
    bench.answers("", call("store", path="a"), call("look", path="a"))
    got = bench.got[-1]
    asks = replied("", ToolCall("c3", "store", path()), ToolCall("c4", "look", path()))
    emits = (noted("A", "by_a"), noted("B", "by_b"))
    passed = Decisions(args=path("b"), replaced_by=("A",), replaced_at=0, emits=emits[:1])
    after = got.step.state
    assert after.batch is not None
    got.expect_only(
        ids=2,
        events=[
            ResponseComplete(asks),
            ToolCalls(2),
            *emits,
            ToolBlocked("c3", "store", "not this", "B"),
            emits[0],
            run("c4", "look", path("b")),
        ],
        effects=[limit("c4"), start("c4", "look", path("b"))],
        rulings=(
            *ruled("after_response", "check"),
            Ruling(
                "before_tool",
                Verdict.BLOCK,
                "B",
                "not this",
                decisions=Decisions(emits=emits),
                states=((0, 1), (1, 1)),
            ),
            *ruled("check"),
            Ruling("before_tool", decisions=passed),
            *ruled("check"),
        ),
        phase=Phase.EXECUTING_TOOLS,
        last_text="",
        request=None,
        plugin_states=(1, 1, 0),
        turn=after.turn,
        batch=after.batch,
        history=old.history.and_(asks),
    )
    assert bench.call("c3").result == failed("c3", "store", "blocked by B: not this")
    assert bench.call("c3").args == path()
    assert watching.who == ["C"]


# Threading


def test_each_plugin_sees_the_arguments_that_the_one_before_it_left() -> None:
    watching = Watching()
    plugins = [watching.plug(name, "before_tool", ReplaceToolArgs({"path": name})) for name in "AB"]
    bench = streaming(*plugins, watching.plug("C", "before_tool", Continue()))
    bench.answers("", call("look", path="a"))
    assert [getattr(hook, "args", None) for _, hook, _ in watching.seen] == [path("a"), path("A"), path("B")]
    assert bench.got[-1].step.effects == (limit("c3"), start("c3", "look", path("B")))
    decisions = Decisions(args=path("B"), replaced_by=("A", "B"), replaced_at=1)
    assert bench.got[-1].rulings[2] == Ruling("before_tool", decisions=decisions)


def test_each_plugin_sees_the_messages_that_the_one_before_it_left() -> None:
    watching = Watching()
    first, second = (user_message("first"),), (user_message("second"),)
    got = prompted(
        watching.plug("A", "before_request", ReplaceMessages(first)),
        watching.plug("B", "before_request", ReplaceMessages(second)),
        watching.plug("C", "before_request", Continue()),
    )
    assert [tuple(getattr(hook, "messages", ())) for _, hook, _ in watching.seen] == [(user_message(),), first, second]
    decisions = Decisions(messages=Rearranged(second), replaced_by=("A", "B"))
    started(
        got,
        (*ruled("before_prompt"), Ruling("before_request", decisions=decisions)),
        states=(0, 0, 0),
        shown=second,
        pieces=second,
    )


def test_each_plugin_sees_the_result_that_the_one_before_it_left() -> None:
    watching = Watching()
    bench = executing(
        plugins=(
            watching.plug("A", "after_tool", ReplaceToolResult(ok("one"))),
            watching.plug("B", "after_tool", ReplaceToolResult(err("two"))),
            watching.plug("C", "after_tool", Continue()),
        )
    )
    bench.returns("c3")
    assert [getattr(hook, "result", None) for _, hook, _ in watching.seen] == [ok("done"), ok("one"), err("two")]
    assert bench.state.history[-1] == failed("c3", "look", "two")


# Emitting


def test_what_was_emitted_is_broadcast_whatever_the_end() -> None:
    for end in (Continue(), Skip(), BlockTool("no"), Abort("no")):
        first = plug("A", before_tool=Emit("one").emitting("two"))
        bench = streaming(first, plug("B", before_tool=Emit("three")), plug("C", before_tool=end))
        bench.answers("", call("look", path="a"))
        got = [event for event in bench.got[-1].events if isinstance(event, PluginEvent)]
        assert got == [noted("A", "one"), noted("A", "two"), noted("B", "three")]


def test_emit_takes_one_name_several_pairs_or_an_event_of_the_catalogue() -> None:
    done = PlanStepCompleted(0, "look")
    for action, expected in (
        (Emit("one"), [noted("A", "one")]),
        (Emit("one", 5), [noted("A", "one", 5)]),
        (Emit("one", (1, "x")), [noted("A", "one", (1, "x"))]),
        (Emit((("one", 1), ("two", (2, 3)))), [noted("A", "one", 1), noted("A", "two", (2, 3))]),
        (Emit(done), [done]),
    ):
        got = prompted(plug("A", before_prompt=action))
        assert got.events[: len(expected)] == expected
        assert got.rulings[0] == Ruling("before_prompt", decisions=Decisions(emits=tuple(expected)))


def test_a_mapping_gets_the_user_data_of_the_session() -> None:
    user = FrozenObject(tenant="t")
    for payload, expected in (
        ({"a": 1}, FrozenObject(user_data=user, a=1)),
        ({"a": 1, "user_data": None}, FrozenObject(user_data=None, a=1)),
        ({"a": 1, "_no_user_data": True}, FrozenObject(a=1)),
        ([1, 2], (1, 2)),
        ("text", "text"),
    ):
        bench = Bench(plug("A", before_prompt=Emit("noted", payload)), user_data=user)
        assert bench.prompt().events[0] == noted("A", "noted", expected)


def test_any_action_can_also_emit() -> None:
    done = PlanStepCompleted(0, "look")
    for action in (Continue(), Intervene("x"), Skip(), SetSection("a", "b"), Abort("no"), Emit("own")):
        got = prompted(plug("A", before_prompt=action.emitting("more", {"b": 2}).reporting(done)))
        emitted = got.step.rulings[0].decisions.emits
        assert emitted[-2:] == (noted("A", "more", FrozenObject(user_data=EMPTY, b=2)), done)
        assert got.events[len(emitted) - 1] == done


def test_added_context_follows_the_messages_in_the_order_of_the_plugins() -> None:
    got = prompted(
        plug("B", before_request=AddContext("second"), priority=950),
        plug("A", before_request=AddContext("first"), priority=900),
        plug("C", before_request=ReplaceMessages((OTHER,)), priority=960),
    )
    sent = got.step.state.request
    assert sent is not None
    assert sent.messages is not None
    first, second = (
        Added(user_message(text, Origin.INTERVENTION), by) for text, by in (("first", "A"), ("second", "B"))
    )
    assert sent.messages.pieces == (OTHER, first, second)
    assert got.step.state.history == got.before.history.and_(user_message())


def test_context_in_front_precedes_the_messages_in_the_order_of_the_plugins() -> None:
    noted = AssistantMessage((Text("noted"),))
    got = prompted(
        plug("B", before_request=AddContext("end", front=[user_message("second")], behind=[noted]), priority=950),
        plug("A", before_request=AddContext(front=(user_message("first"), noted)), priority=900),
        plug("C", before_request=ReplaceMessages((OTHER,)), priority=960),
    )
    first, second, end = (user_message(text, Origin.INTERVENTION) for text in ("first", "second", "end"))
    front = (Added(first, "A"), Added(noted, "A"), Added(second, "B"))
    sent = got.step.state.request
    assert sent is not None
    assert sent.messages == Rearranged((*front, OTHER, Added(noted, "B"), Added(end, "B")))
    assert got.step.state.history == got.before.history.and_(user_message())
    assert got.rulings[-1].decisions.front == front
    assert got.events[-1] == RequestStart("r2", "m", 6, 1)


# Models and sections


def test_the_last_plugin_that_switches_the_model_wins() -> None:
    warm = FrozenObject(temperature=1)
    got = prompted(
        plug("B", before_request=SwitchModel("late", provider_options=warm), priority=500),
        plug("A", before_request=SwitchModel("early"), priority=100),
    )
    decided = Ruling("before_request", decisions=Decisions(switch=Switch("late", warm, "B")))
    assert got.rulings[-1] == decided
    assert got.events[-3:] == [
        ModelSwitched("m", "late", provider_opts_changed=True, by="B"),
        ModelEffective("late"),
        RequestStart("r2", "late", 1, 1),
    ]
    assert got.step.state.turn is not None
    assert (got.step.state.turn.model, got.step.state.turn.options) == ("late", warm)


def test_the_later_of_two_decisions_about_the_model_wins() -> None:
    switches = plug(
        "A", after_response=SwitchModel("x"), after_tool=SwitchModel("y"), after_tool_batch=SwitchModel("z")
    )
    bench = executing(plugins=(switches,))
    bench.send(SwitchModelSent("u"))
    bench.returns("c3")
    assert bench.got[-1].events[-1] == RequestStart("r4", "z", 3, 1)
    assert bench.state.model == "z"
    bench.send(SwitchModelSent("u"))
    assert bench.state.turn is not None
    assert (bench.state.model, bench.state.turn.model) == ("u", "z")


def test_the_last_word_on_a_section_counts() -> None:
    bench = Bench(
        plug("A", before_prompt=SetSection("mood", "calm")),
        plug("B", before_prompt=SetSection("plan", "none yet")),
        plug("C", before_prompt=SetSection("mood", "brisk")),
        plug("D", after_response=SetSection("plan", None)),
    )
    assert bench.prompt().step.state.sections == (Section("plan", "none yet", by="B"), Section("mood", "brisk", by="C"))
    assert bench.answers("bye").step.state.sections == (Section("mood", "brisk", by="C"),)


# Order


def test_lower_priorities_are_asked_first_and_equal_ones_in_order_of_registration() -> None:
    watching = Watching()
    value = [("A", 900), ("B", 100), ("C", 900), ("D", 10), ("E", 100)]
    prompted(*(watching.plug(name, "before_prompt", Continue(), priority=priority) for name, priority in value))
    assert watching.who == ["D", "B", "E", "A", "C"]


def test_the_bands_begin_where_the_design_says() -> None:
    bands = [Priority.SECURITY, Priority.CORE, Priority.QUALITY, Priority.INTELLIGENCE, Priority.OWN]
    assert [int(band) for band in bands] == [0, 100, 300, 600, 900]
    assert AnyPlugin.priority == Priority.OWN
