"""Scenes of the machine: options, what plugins may do, and which values, errors and stored texts are accepted."""

from collections.abc import Callable
from typing import cast

import trio

from agentrail import Ask, Intervene, Options, SessionSpec
from agentrail.app import build
from agentrail.codec.decode_error import MisfitError, shorten
from agentrail.codec.json_text import from_text
from agentrail.codec.plugin_states import storable
from agentrail.core import tools_on_demand
from agentrail.core.inline_tags import title_in, without_tags
from agentrail.core.machine.in_doubt_calls import bounded
from agentrail.core.vocabulary.effects import StartCall
from agentrail.core.vocabulary.inputs import AskSettled, StreamCut, StreamEnded, StreamStalled, ToolRaised
from agentrail.core.vocabulary.tool_calls import Doubt
from agentrail.errors import BadPlugin, BadSpec, BadText, NotJson, ResponseTooLong, SupervisorStuck
from agentrail.events import (
    AgentAbort,
    AgentEnd,
    Envelope,
    Event,
    LoopDetected,
    PluginError,
    RequestStart,
    Retry,
    SteeringReceived,
    SubagentEnd,
    ToolBlocked,
    ToolExecutionStart,
    ToolUnknown,
)
from agentrail.models import Data, Failure, FailureKind, Image, JsonObject, Partial, Response, Text, ToolCall
from agentrail.plugins import Answered, BudgetGuard, CallModel
from agentrail.testing import ScriptedModel, ScriptStep, call, prompt, say, simulate, stall, transient
from agentrail.tools import Ok, ToolSpec, ok
from agentrail.values import untrusted_content, untrusted_values
from agentrail.values.untrusted_content import UnfitError
from tests.cells import bench as benches
from tests.cells.bench import Bench, plug
from tests.cells.scenes import executing, idle, running, streaming
from tests.core import driving
from tests.kit import EMPTY, AbortSent, Phase, PromptSent, Refused, SteerSent, freeze, freeze_object
from tests.limits import scene
from tests.runtime.families import agent, task
from tests.runtime.world import open_world

OPTIONS = "core.vocabulary.options.Options"


def has(bench: Bench, kind: type[Event]) -> bool:
    return any(isinstance(event, kind) for got in bench.got for event in got.events)


def refused(bench: Bench) -> bool:
    return any(isinstance(got.step.answer, Refused) for got in bench.got)


# Options, each as it is by default


@scene(f"{OPTIONS}.max_rounds", 100)
def rounds_of_a_turn(count: int) -> bool:
    bench = streaming()
    for number in range(count):
        if bench.state.request is not None:
            bench.answers("", benches.call("look", path=f"{number}"))
        if bench.state.batch is not None:
            bench.returns(bench.state.batch.calls[0].call_id)
    return sum(isinstance(event, RequestStart) for got in bench.got for event in got.events) >= count


@scene(f"{OPTIONS}.max_prompt_queue", 100)
def prompts_that_wait(count: int) -> bool:
    bench = streaming()
    for _ in range(count):
        bench.prompt()
    return not refused(bench)


@scene(f"{OPTIONS}.max_steering_queue", 3)
def steering_texts_that_wait(count: int) -> bool:
    bench = streaming()
    for _ in range(count):
        bench.send(SteerSent("rather this"))
    return not refused(bench)


@scene(f"{OPTIONS}.max_interventions", 5)
def interventions_of_a_turn(count: int) -> bool:
    bench = streaming(plug("A", before_finish=Intervene("more")))
    for _ in range(count):
        bench.answers("so")
    return bench.state.turn is not None


@scene(f"{OPTIONS}.stall_limit", 2, last=-1)
def stalls_of_a_request(count: int) -> bool:
    bench = running()
    for number in range(count):
        if bench.state.request is not None:
            bench.send(StreamStalled("r2", 30.0 * number))
    return not has(bench, Retry)


BUSY = Failure(FailureKind.TRANSIENT, "Busy", "try later")


def broken_requests(count: int) -> Bench:
    bench = running()
    for _ in range(count):
        if bench.state.request is not None:
            bench.send(StreamCut(bench.request_id, Partial(), BUSY))
        if bench.state.turn is not None:
            bench.fires("retry")
    return bench


@scene(f"{OPTIONS}.max_retries", 5)
def retries_of_a_request(count: int) -> bool:
    return not has(broken_requests(count), AgentAbort)


@scene(f"{OPTIONS}.tool_max_retries", 2)
def retries_of_a_tool(count: int) -> bool:
    bench = executing()
    for attempt in range(1, count + 1):
        bench.send(ToolRaised("c3", attempt, "OSError"))
    return sum(isinstance(e, ToolExecutionStart) for got in bench.got for e in got.events) == count + 1


@scene(f"{OPTIONS}.answer_max_retries", 2)
def answers_that_do_not_fit(count: int) -> bool:
    bench = idle()
    bench.send(PromptSent((Text("go"),), returns=freeze_object({"type": "object", "required": ["room"]})))
    for _ in range(count):
        bench.send(StreamEnded(bench.request_id, Response((Text("the kitchen"),))))
        if has(bench, AgentAbort):
            return False
    bench.send(StreamEnded(bench.request_id, Response((Text('{"room": "kitchen"}'),))))
    return has(bench, AgentEnd)


def many(count: int) -> Bench:
    return executing(*(benches.call("look", path=f"{number}") for number in range(count)))


@scene(f"{OPTIONS}.max_parallel_tools", 8)
def calls_at_once(count: int) -> bool:
    return sum(isinstance(effect, StartCall) for effect in many(count).got[-1].step.effects) == count


@scene("core.vocabulary.tool_calls.MAX_CALLS_PER_RESPONSE")
def calls_of_a_response(count: int) -> bool:
    return all(many(count).call(f"c{number + 3}").result is None for number in range(count))


def taken(**args: object) -> bool:
    try:
        bench = executing(ToolCall("", "look", freeze_object(args)))
    except NotJson:
        return False
    return has(bench, ToolExecutionStart)


@scene("hooks.live_runner.MAX_ARGUMENT_CHARS")
def characters_of_arguments(size: int) -> bool:
    return taken(path="x" * (size - len("path")))


@scene("values.json.MAX_ITEMS")
def items_of_arguments(count: int) -> bool:
    return taken(path=[0] * (count - 1))


@scene(f"{OPTIONS}.repeat_pattern", 3, last=-1)
def equal_calls_in_a_row(count: int) -> bool:
    bench = streaming()
    for number in range(count):
        bench.answers("", benches.call("store", value="x"))
        bench.returns(f"c{2 * number + 3}")
    return not has(bench, LoopDetected)


def on_one_subject(count: int, kind: str) -> bool:
    """Return whether *count* calls about one file are reported as no loop of this kind."""
    bench = streaming()
    for number in range(count):
        if bench.state.request is not None:
            bench.answers("", benches.call("look", path="a", line=number))
        if bench.state.batch is not None:
            bench.returns(bench.state.batch.calls[0].call_id)
    return not any(isinstance(e, LoopDetected) and e.kind == kind for got in bench.got for e in got.events)


@scene(f"{OPTIONS}.file_loop_warn", 5, last=-1)
def calls_on_one_subject_before_a_remark(count: int) -> bool:
    return on_one_subject(count, "file_loop_warn")


@scene(f"{OPTIONS}.file_loop_abort", 8, last=-1)
def calls_on_one_subject_before_an_abort(count: int) -> bool:
    return on_one_subject(count, "file_loop_abort")


# What plugins may do


@scene("hooks.hook_run.MAX_ASKS")
def questions_of_one_hook(count: int) -> bool:
    bench = Bench(plug("Asks", before_prompt=Ask(CallModel("again?"))))
    bench.prompt()
    for _ in range(count - 1):
        bench.send(AskSettled(bench.state.suspended_runs[0].ask_id, Answered(None)))
    return not has(bench, PluginError)


@scene("hooks.live_runner.MAX_FAILURES", last=-1)
def failures_before_a_listener_is_left_alone(count: int) -> bool:
    """A plugin that has not failed too often gets one more event."""
    heard: list[object] = []

    def on_event(event: object, _state: object, _ctx: object) -> None:
        if isinstance(event, Envelope) and isinstance(event.event, SteeringReceived):
            heard.append(event)
            raise KeyError(event.seq)

    bench = streaming(plug("Deaf", on_event=on_event), options=Options(max_steering_queue=10))
    for _ in range(count + 1):
        bench.send(SteerSent("rather this"))
    return len(heard) == count + 1


def guarded(guard: BudgetGuard, *script_steps: ScriptStep) -> bool:
    """Return whether a guard blocks no call and aborts no turn."""
    events = [
        envelope.event for happened in simulate([guard], [*script_steps]).steps for envelope in happened.step.events
    ]
    return not any(isinstance(event, AgentAbort | ToolBlocked) for event in events)


def rounds(count: int) -> list[ScriptStep]:
    return [*(say(calls=[call("read", {"n": n})]) for n in range(count - 1)), say("done")]


@scene("plugins.budget.BudgetGuard.max_rounds", 3)
def rounds_of_a_guarded_session(count: int) -> bool:
    return guarded(BudgetGuard(max_rounds=3), prompt("go"), *rounds(2), prompt("on"), *rounds(count - 2))


@scene("plugins.budget.BudgetGuard.max_turn_rounds", 3)
def rounds_of_a_guarded_turn(count: int) -> bool:
    return guarded(BudgetGuard(max_turn_rounds=3), prompt("go"), *rounds(3), prompt("on"), *rounds(count))


def calls(count: int) -> list[ScriptStep]:
    return [say(calls=[call("read", {"n": n}) for n in range(count)]), say("done")]


@scene("plugins.budget.BudgetGuard.max_calls", 3)
def calls_of_a_guarded_session(count: int) -> bool:
    return guarded(BudgetGuard(max_calls=3), prompt("go"), *calls(1), prompt("on"), *calls(count - 1))


@scene("plugins.budget.BudgetGuard.max_turn_calls", 3)
def calls_of_a_guarded_turn(count: int) -> bool:
    return guarded(BudgetGuard(max_turn_calls=3), prompt("go"), *calls(3), prompt("on"), *calls(count))


# Calls, doubts, results


@scene("core.machine.in_doubt_calls.MOST")
def doubts_of_a_session(count: int) -> bool:
    doubts = tuple(Doubt(f"c{n}", f"tool{n}", EMPTY) for n in range(count))
    return bounded(doubts) == doubts


@scene("core.machine.in_doubt_calls.TURNS_KEPT")
def turns_that_a_doubt_lasts(count: int) -> bool:
    bench = executing(benches.call("edit", path="a"))
    bench.send(AbortSent())
    for _ in range(count):
        bench.prompt("go on")
        bench.answers("yes")
    return bool(bench.state.in_doubt_calls)


@scene("core.machine.tool_results.NOTICE_CHARS")
def characters_of_a_call_that_ended_in_the_background(size: int) -> bool:
    bench = executing(benches.call("keep"))
    bench.send(AbortSent())
    bench.returns("c3", ok("x" * size))
    (notice,) = bench.state.notices
    return "x" * size in notice


@scene("core.machine.tool_checks.NAMED_TOOLS")
def tools_that_an_unknown_one_is_told_of(count: int) -> bool:
    bench = Bench(tools=tuple(benches.LOOK.but(name=f"look{number}") for number in range(count)))
    bench.prompt()
    bench.begins()
    bench.answers("", benches.call("unknown"))
    return bench.state.history[-1].text.count("`look") == count


def on_demand(name: str, description: str = "switches lamps") -> ToolSpec:
    return ToolSpec(name, description, deferred=True)


def found_among(count: int) -> str:
    """Return the result of looking for lamps among *count* tools that switch some."""
    return tools_on_demand.answer("lamps", [on_demand(f"t{number}") for number in range(count)], "find", "call")[0]


@scene("core.tools_on_demand.NAMED")
def names_of_tools_on_demand_in_a_request(count: int) -> bool:
    finder, _ = tools_on_demand.declared([on_demand(f"lamp{number}") for number in range(count)])
    return finder.description.count("lamp") == count


@scene("core.tools_on_demand.DEFINED")
def tools_that_are_found_at_once(count: int) -> bool:
    return found_among(count).count('"name"') == count


@scene("core.tools_on_demand.MENTIONED")
def tools_that_are_named_beside_those_that_are_found(count: int) -> bool:
    return f"t{tools_on_demand.DEFINED + count - 1};" in found_among(tools_on_demand.DEFINED + count)


@scene("core.tools_on_demand.ROOM")
def characters_of_definitions(size: int) -> bool:
    short = on_demand("a", "b")
    rest = size - 2 * len(tools_on_demand.definition(short))
    return len(tools_on_demand.fitting([short, on_demand("a", "b" * (rest + 1))])) == 2


@scene("core.tools_on_demand.QUERY_CHARS")
def characters_of_what_is_looked_for(size: int) -> bool:
    return bool(tools_on_demand.best("-" * (size - 2) + "q7", [on_demand("q7")]))


@scene("core.machine.deferred_tools.MAX_FOUND")
def tools_that_were_found(count: int) -> bool:
    names = [f"lamp{number:04}" for number in range(count)]
    bench = Bench(tools=tuple(map(on_demand, names)), options=Options(repeat_pattern=1_000))
    bench.prompt()
    bench.begins()
    looked = [" ".join(names[start : start + 8]) for start in range(0, count, 8)]
    bench.answers("", *(benches.call("find_tools", query=query) for query in looked))
    return names[0] in bench.state.found_tools


@scene("core.inline_tags.LONGEST")
def characters_of_a_tag(size: int) -> bool:
    _, tags = without_tags((Text(f"<status>{'x' * size}</status>"),))
    return len(tags) == 1


@scene("core.inline_tags.TITLE")
def characters_of_a_title(size: int) -> bool:
    _, tags = without_tags((Text(f"<title>{'x' * size}</title>"),))
    return len(title_in(tags)) == size


@scene("errors.outside.MAX_STUCK")
def names_of_what_is_stuck(count: int) -> bool:
    error = SupervisorStuck(1.0, tuple(f"task {number}" for number in range(count)))
    assert len(error.stuck) == count
    return str(error).count("task ") == count


# Values, and what is stored


def nested(levels: int) -> object:
    value: object = []
    for _ in range(levels - 1):
        value = [value]
    return value


def is_json(value: object) -> bool:
    try:
        freeze(value)
    except NotJson:
        return False
    return True


@scene("values.json.MAX_DEPTH")
def levels_of_json(levels: int) -> bool:
    return is_json(nested(levels))


@scene("values.json.INT_MAX", 2**64 - 1)
def largest_number(number: int) -> bool:
    assert is_json(number) is can_be_read(f"{number}")
    return is_json(number)


@scene("values.json.INT_MIN", 2**63)
def smallest_number(number: int) -> bool:
    assert is_json(-number) is can_be_read(f"-{number}")
    return is_json(-number)


def can_be_read(text: str) -> bool:
    try:
        from_text(text)
    except BadText:
        return False
    return True


@scene("codec.json_text._MAX_INT")
def digits_of_a_number(count: int) -> bool:
    return can_be_read("1" * count)


@scene("codec.json_text.DOCUMENT_DEPTH")
def levels_of_a_text(levels: int) -> bool:
    return can_be_read("[" * levels + "]" * levels)


@scene("hooks.attachments.STATE_LIMIT")
def bytes_of_the_state_of_a_plugin(size: int) -> bool:
    return storable("x" * (size - 2)) is None


@scene("hooks.attachments.STATE_LIMIT")
def bytes_of_the_first_state_of_a_plugin(size: int) -> bool:
    bench = Bench(plug("Large", first="x" * (size - 2), critical=True))
    return bench.state.phase is Phase.IDLE


@scene("codec.decode_error._LONGEST")
def characters_of_a_path(size: int) -> bool:
    error = MisfitError("x" * size, "is odd")
    return "x" * size in error.subject


@scene("codec.decode_error.shortened<60", 60)
def characters_of_a_key(size: int) -> bool:
    return shorten("x" * size) == "x" * size


@scene("plugins.budget.BudgetGuard.max_tokens", 100)
def tokens_of_a_guarded_session(count: int) -> bool:
    """The text of a request counts before it is sent, four characters as one token."""
    return guarded(BudgetGuard(max_tokens=100), prompt("x" * 4 * count))


@scene("plugins.budget.BudgetGuard.max_turn_tokens", 100)
def tokens_of_a_guarded_turn(count: int) -> bool:
    return guarded(BudgetGuard(max_turn_tokens=100), prompt("x" * 4 * count))


@scene("core.machine.recovery.MAX_RUNS")
def runs_of_a_call_that_end_with_the_process(count: int) -> bool:
    """Each run but the first begins when the session comes back in a new process."""
    world = driving.session()
    driving.ask_for_calls(world, driving.call("read"))
    events = [event for _ in range(count - 1) for event in driving.events(world.apply(driving.back(world)))]
    return not any(isinstance(event, ToolUnknown) for event in events)


@scene("core.vocabulary.options.Options.max_turn_seconds", 3)
async def seconds_of_a_turn(seconds: int) -> bool:
    """Checked half a second earlier."""
    async with open_world() as world:
        session = await world.spawn([stall()], max_turn_seconds=3.0)
        await session.prompt("go")
        await trio.sleep(seconds - 0.5)
        return session.status().turn_open


@scene("core.vocabulary.options.Options.max_agent_seconds", 3)
async def seconds_of_a_sub_agent(seconds: int) -> bool:
    async with open_world() as world:
        agents = {"finder": agent([stall()])}
        session = await world.spawn([task(), stall()], "p", agents=agents, max_agent_seconds=3.0)
        await session.prompt("go")
        await trio.sleep(seconds - 0.5)
        return not world.heard(session).of(SubagentEnd)


# What comes from outside


def fit(make: Callable[[], object]) -> bool:
    """Return whether a value is accepted."""
    try:
        make()
    except (NotJson, ResponseTooLong, UnfitError):
        return False
    return True


@scene("values.json.MAX_ITEMS")
def items_of_json(count: int) -> bool:
    return is_json([0] * count)


@scene("values.json.MAX_ITEMS")
def keys_of_json(count: int) -> bool:
    return is_json({f"k{number}": 0 for number in range(count)})


@scene("values.untrusted_content.MAX_IMAGE")
def characters_of_an_image_of_a_tool(size: int) -> bool:
    return fit(lambda: untrusted_content.fit_part(Image("image/png", "A" * size)))


@scene("values.untrusted_content.MAX_TEXT")
def characters_of_a_text_from_outside(size: int) -> bool:
    return fit(lambda: untrusted_content.fit_text("x" * size))


@scene("values.untrusted_content.MAX_TEXT")
def characters_of_all_texts_of_a_response(size: int) -> bool:
    return fit(lambda: untrusted_content.fit_response(Response((Text("x" * (size - 1)), Text("y")))))


@scene("values.untrusted_content.MAX_TEXT")
def characters_of_all_texts_of_a_result(size: int) -> bool:
    return fit(lambda: untrusted_content.fit_result(ok("x" * size)))


@scene("values.untrusted_content.MAX_TEXT")
def characters_of_all_json_of_a_result(size: int) -> bool:
    """A text in JSON counts for its characters and three more."""
    return fit(lambda: untrusted_content.fit_result(Ok((Data("x" * (size - 3)),))))


@scene("values.untrusted_content.MAX_TEXT")
def characters_of_the_details_of_a_result(size: int) -> bool:
    """An object with one key counts for ten more than its text."""
    return fit(lambda: untrusted_content.fit_result(ok("x", {"a": "x" * (size - 10)})))


@scene("values.untrusted_content.MAX_IMAGES")
def characters_of_all_images_of_a_result(size: int) -> bool:
    item = size // 5  # no image has as many as one may have
    images = (Image("image/png", "A" * item),) * 4
    last = Image("image/png", "A" * (size - 4 * item))
    return fit(lambda: untrusted_content.fit_result(Ok((*images, last))))


@scene("values.untrusted_content.MAX_NAME")
def characters_of_the_name_of_a_call(size: int) -> bool:
    return fit(lambda: untrusted_content.fit_call(ToolCall("c", "x" * size, EMPTY)))


@scene("values.untrusted_content.MAX_PARTS")
def parts_of_a_response(count: int) -> bool:
    return fit(lambda: untrusted_content.fit_response(Response((Text(""),) * count)))


@scene("values.untrusted_content.MAX_CALLS")
def calls_that_a_response_may_hold(count: int) -> bool:
    return fit(lambda: untrusted_content.fit_response(Response((), (ToolCall("c", "n", EMPTY),) * count)))


@scene("values.untrusted_content.CALLS_WITH_MUCH")
def calls_of_a_response_with_as_many_items_as_may_be(count: int) -> bool:
    much: list[ToolCall] = [ToolCall("c", "n", cast("JsonObject", {"a": [0] * 9_999})) for _ in range(count)]
    return fit(lambda: untrusted_content.fit_response(Response((), tuple(much))))


@scene("values.untrusted_values.TEN_YEARS")
def seconds_of_a_time(count: int) -> bool:
    return untrusted_values.as_seconds(count) == count


@scene("values.untrusted_values.MAX_TOKENS")
def tokens_of_a_response(count: int) -> bool:
    return untrusted_values.tokens(count) == count


@scene("values.untrusted_values.MAX_USD")
def dollars_of_a_response(count: int) -> bool:
    return untrusted_values.as_usd(count) == count


@scene("values.untrusted_values.MAX_MESSAGE_CHARS")
def characters_of_an_error(size: int) -> bool:
    return untrusted_values.message_of(ValueError("x" * size)) == "x" * size


@scene("values.untrusted_values.MAX_CHARACTERS")
def characters_of_a_value_in_an_error(size: int) -> bool:
    return "x" * size in untrusted_values.brief("x" * size)


@scene("values.untrusted_values.MAX_FACTS")
def facts_of_an_error(count: int) -> bool:
    return untrusted_values.message_of(ValueError(*range(count))) != "it holds more than can be shown"


@scene("values.untrusted_values.MAX_LED")
def errors_that_led_to_one_another(count: int) -> bool:
    error: BaseException | None = None
    for _ in range(count):
        value_error = ValueError()
        value_error.__cause__ = value_error.__context__ = error
        error = value_error
    assert error is not None
    return untrusted_values.is_short(error)


@scene("values.untrusted_values.CHARACTERS_OF_A_FACT", 99_899)
def characters_of_a_text_in_an_error(size: int) -> bool:
    """Two facts are the list and what it holds; up to 99 characters more count as none."""
    return untrusted_values.message_of(ValueError(["x" * size])) != "it holds more than can be shown"


@scene("app.build.MAX_RESTARTS")
def restarts_that_count(count: int) -> bool:
    return build.policy("one_for_one", count, 5.0).max_restarts == count


@scene("app.spec.MOST")
def figure_of_a_specification(figure: int) -> bool:
    try:
        SessionSpec(model="demo", max_rounds=figure).check()
    except BadSpec:
        return False
    return True


@scene("hooks.plugin_checks.MAX_SAID")
def priority_of_a_plugin(figure: int) -> bool:
    try:
        Bench(plug("P", priority=figure))
    except BadPlugin:
        return False
    return True


@scene(f"{OPTIONS}.fallback_after", 2)
async def requests_to_one_model_before_the_next_is_asked(number: int) -> bool:
    """Whether the last of so many requests still goes to the first model; all before it fail."""
    first = ScriptedModel([*(transient() for _ in range(number - 1)), "fine"], name="first")
    async with open_world() as world:
        session = await world.supervisor.spawn(SessionSpec(model=(first, ScriptedModel(["well"], name="second"))))
        return (await session.ask("go")).text == "fine"
