import re
from collections.abc import Iterable

import pytest

from agentrail import HeldCall, Status
from agentrail.api.session_values import Background
from agentrail.api.transcript import Change, Transcript
from agentrail.cli.agents.agent_source import AgentSource
from agentrail.cli.output.screen import (
    PALETTES,
    Backdrop,
    Flow,
    Screen,
    ScreenText,
    TerminalStyle,
    Tone,
    clean,
    clipped,
    columns,
    line,
    one_line,
    put_all,
)
from agentrail.cli.talk.live.markdown_rows import markdown_rows
from agentrail.cli.talk.past import PastEvents, prompt_piece
from agentrail.cli.talk.questions import question_about
from agentrail.cli.talk.rendering import SHOWN, SILENT, about, described, pieces_of, shown_args
from agentrail.cli.talk.terminal import background_of
from agentrail.models import AssistantMessage, Data, Image, JsonObject, Text, Thinking, Usage
from agentrail.tools import Todo
from agentrail.values import events as e
from tests.each_case import each_case
from tests.kit import NOTHING_USED, freeze_object

PIPE = TerminalStyle()
ASKED = e.RequestStart("r1", "demo", 1, 1)
TERMINAL = TerminalStyle(colours=True, rewrites=True, echoes=True, width=40)


def args(**given: object) -> JsonObject:
    return freeze_object(given)


def changes(events: Iterable[e.Event]) -> list[Change]:
    transcript = Transcript()
    return [change for event in events for change in transcript.take(e.Envelope("s-1", 1, 0, 0, 1, 1, event))]


def pieces(events: Iterable[e.Event]) -> list[ScreenText]:
    return [piece for change in changes(events) for piece in pieces_of(change)]


def output(*events: e.Event, look: TerminalStyle = PIPE) -> str:
    return put_all(Screen(), pieces(events), look)[1]


A_TURN = (
    e.PromptReceived("p1", "write hello to a.txt"),
    e.AgentStart("p1"),
    ASKED,
    e.MessageStart("r1"),
    e.ThinkingStart(),
    e.ThinkingDelta("I am asked "),
    e.ThinkingDelta("to write."),
    e.MessageDelta("I will "),
    e.MessageDelta("write."),
    e.ResponseComplete(AssistantMessage((Thinking("I am asked to write."), Text("I will write.")))),
    e.ToolCalls(1),
    e.ToolExecutionStart("c1", "write_file", args(path="a.txt", content="hello")),
    e.ToolExecutionUpdate("c1", "half of it"),
    e.ToolExecutionUpdate("c1", "all of it"),
    e.ToolExecutionEnd("c1", "write_file", (Text("wrote\n5 characters"),), is_error=False),
    e.ToolExecutionMetrics("c1", "write_file", 0, 1, 1),
    e.RequestStart("r2", "demo", 3, 1),
    e.MessageDelta("Done.\nAnything"),
    e.ResponseComplete(AssistantMessage((Text("Done.\nAnything else?"),))),
    e.AgentEnd("p1", "end", (), Usage()),
)


def test_a_turn_through_a_pipe() -> None:
    assert output(*A_TURN) == (
        "> write hello to a.txt\n"
        "I am asked to write.\n"
        "I will write.\n"
        "  → write_file path=a.txt content=hello\n"
        "  … half of it\n"
        "  … all of it\n"
        "  ✓ write_file: wrote 5 characters\n"
        "Done.\nAnything else?\n"
        "\n"
    )


def test_a_turn_in_a_terminal() -> None:
    assert output(*A_TURN, look=TERMINAL) == (
        "\x1b[38;5;243mI am asked \x1b[0m\x1b[38;5;243mto write.\x1b[0m\n"
        "I will write.\n"
        "  → write_file path=a.txt content=hello\n"
        "\x1b[38;5;243m  … half of it\x1b[0m\r\x1b[K\x1b[38;5;243m  … all of it\x1b[0m\r\x1b[K"
        "\x1b[38;5;28m  ✓ write_file:\n    wrote\n    5 characters\x1b[0m\n"
        "Done.\nAnything else?\n"
        "\n"
    )


def test_in_a_terminal_the_first_rows_of_a_result_are_as_they_are_and_as_wide_as_it() -> None:
    look = TerminalStyle(rewrites=True, width=30)
    rows = ["-rw-r--r--  1 ada  ada   171 a.md", "drwxr-xr-x  2 ada  ada  4096 src"]
    ended = e.ToolExecutionEnd("c", "shell", (Text("\n".join(rows * 3)),), is_error=False)
    assert output(ended, look=look) == (
        "  ✓ shell:\n"
        "    -rw-r--r--  1 ada  ada  …\n"
        "    drwxr-xr-x  2 ada  ada  …\n"
        "    -rw-r--r--  1 ada  ada  …\n"
        "    drwxr-xr-x  2 ada  ada  …\n"
        "    … 2 more lines; /show\n"
    )
    assert output(e.ToolExecutionStart("c", "t", args(text="x" * 150)), look=look.but(width=200)) == (
        f"  → t text={'x' * 150}\n"
    )


def test_steering_while_a_tool_runs() -> None:
    assert (
        output(
            e.ToolExecutionStart("c1", "count", args(to=20)),
            e.ToolExecutionUpdate("c1", "1 of 20"),
            e.SteeringReceived("s1", "list the files", "queued"),
            e.ToolSkippedForSteering("c1", "count"),
            e.SteeringApplied(("s1",), 1),
            ASKED,
            e.MessageDelta("I will list."),
        )
        == "  → count to=20\n  … 1 of 20\n  ↳ steering: list the files\n"
        "  ✗ count was stopped for what you said\n  ↳ the model reads it now\nI will list."
    )


def test_an_abort_in_the_middle_of_a_text() -> None:
    assert output(ASKED, e.MessageDelta("I wi"), e.AgentAbort("p1", "user")) == "I wi\n■ stopped (user)\n\n"


def test_of_a_failed_response_only_what_was_shown_is_told_void() -> None:
    assert output(ASKED, e.Retry(1, 0, "reset", dropped_text=True)) == "  attempt 1 failed, again in 0.0 s: reset\n"
    assert output(ASKED, e.MessageDelta("I wi"), e.Retry(1, 0, "reset", dropped_text=True)) == (
        "I wi\n  what it had said is void\n  attempt 1 failed, again in 0.0 s: reset\n"
    )


def test_what_was_not_heard_of_a_response_comes_with_its_end() -> None:
    message = AssistantMessage((Thinking("Hm."), Text("I will write.")))
    assert output(
        ASKED, e.MessageDelta("I wi"), e.Gap(1, 1, 1, 2), e.MessageDelta("."), e.ResponseComplete(message)
    ) == ("I wi\n  (some output is missing here)\nHm.\nll write.")
    assert output(e.MessageDelta("write."), e.ResponseComplete(message)) == "Hm.\nI will write."


def test_of_a_past_response_that_was_cut_off_it_is_told_that_some_was_not_heard() -> None:
    past = PastEvents(is_cut=False)
    gap = e.Gap(1, 1, 1, 2)
    for change in changes([ASKED, e.MessageDelta("I wi"), gap, e.MessageDelta("ll"), e.AgentAbort("p1", "user")]):
        past.take(change, pieces_of(change))
    assert put_all(Screen(), past.pieces(), PIPE)[1] == "I wi\n  (some output is missing here)\n■ stopped (user)\n\n"


def test_a_text_in_place_of_what_was_streamed_is_shown_whole() -> None:
    message = AssistantMessage((Text("I may not say."),))
    assert output(ASKED, e.MessageDelta("The key is"), e.ResponseComplete(message)) == (
        "The key is\n  it says this instead:\nI may not say."
    )


def test_a_decision_about_a_call_of_a_sub_agent_is_shown_with_the_sub_agent() -> None:
    held = e.ApprovalRequired("a1", "c2", "pay", args(), "", "p", 1, None, path=("s-1", "c1"))
    resolved = e.ApprovalResolved("a1", "c2", "pay", "rejected", "too much")
    assert output(held, resolved) == "  │ rejected: pay: too much\n"


LINES: list[tuple[e.Event, str]] = [
    (e.AgentAbort(None, "user"), "  nothing to stop"),
    (e.AgentAbort("p1", "plugin", "the budget\nis used"), "■ stopped (plugin: the budget is used)\n"),
    (e.AgentAbort("p1", "provider_error", "told by `StreamError`"), "■ stopped (provider_error)\n"),
    (e.AgentAbort("p1", "overflow", "told by `ContextOverflow` or `CompactEnd`"), "■ stopped (overflow)\n"),
    (e.AgentEnd("p1", "max_rounds", (), Usage()), "  (the turn ended: max_rounds)"),
    (e.AgentResumed("tool_approved"), "  goes on (tool approved)"),
    (e.ApprovalResolved("a1", "c1", "run", "approved"), "  approved: run"),
    (
        e.ApprovalResolved("a1", "c1", "run", "approved", None, edited=True),
        "  approved: run with edited arguments",
    ),
    (e.ApprovalResolved("a1", "c1", "run", "rejected", "too slow"), "  rejected: run: too slow"),
    (e.CompactEnd(3, "the oldest round went"), "  the conversation was made shorter: the oldest round went"),
    (e.CompactEnd(0, "cancelled"), "  not made shorter: cancelled"),
    (e.ContentPolicyViolated("rude", ("be kind", "be brief")), "  against the policy be kind, be brief: rude"),
    (e.ContextOverflow("200 too many"), "  the conversation is too long for the model: 200 too many"),
    (e.Gap(1, 0, 2, 0), "  (some output is missing here)"),
    (e.Intervention("mind the gap", "after_tool"), "  a plugin says: mind the gap"),
    (e.LoopDetected("repeat_pattern", "run", 3), "  the model goes in circles: run, 3 times"),
    (e.LoopDetected("file_loop_warn", "read", 5, "a.txt"), "  the model goes in circles: read on a.txt, 5 times"),
    (e.MessageDelta("text"), "text"),
    (e.ModelOptionsChanged("big"), "  model: big, other options"),
    (e.ModelOptionsChanged("big", by="Budget"), "  model: big, other options by Budget"),
    (e.FilesRewound(3, ("a.txt", "b\n.txt"), 2), "  ✓ brought back: a.txt, b .txt"),
    (e.FilesRewound(3, tuple("abcdefg"), 200), "  ✓ brought back: a, b, c, d, e and 195 more"),
    (e.HandedOff("front", "billing", "c3"), "  handed over to billing by front"),
    (e.HandedOff(AgentSource("/").id, "billing", "c3"), "  handed over to billing"),
    (e.ModelSwitched("demo", "big", provider_opts_changed=False), "  model: demo → big"),
    (e.ModelSwitched("demo", "big", provider_opts_changed=False, by="Budget"), "  model: demo → big by Budget"),
    (e.PluginError("Guard", "before_tool", "KeyError: 1"), "  plugin Guard broke at before_tool: KeyError: 1"),
    (e.PromptDropped("p2", "never mind"), "  dropped from the queue: never mind"),
    (e.PromptQueued("p2", "and\nthen", 1), "  queued, place 1: and\n    then"),
    (e.PromptReceived("p1", "hello\nyou"), "> hello you"),
    (e.PromptRejected("p1", "too long", "Budget"), "✗ the prompt was refused by Budget: too long\n"),
    (e.PromptRejected("p1", "aborted"), "✗ the prompt was refused: aborted\n"),
    (e.PromptWithdrawn("p2", "never mind"), "  dropped from the queue: never mind"),
    (e.Retry(1, 2000, "503"), "  attempt 1 failed, again in 2.0 s: 503"),
    (e.SecurityAudit("c1", "run", "held", "rm"), "  run was held: rm"),
    (e.SessionEnded("stopped"), "  the session has ended: stopped"),
    (e.SessionQuarantined("KeyError"), "  the session crashed too often: KeyError"),
    (e.SessionRecovered(12), "  the session is back, from 12 records"),
    (e.SessionRestarted("KeyError"), "  the session crashed and was restarted: KeyError"),
    (e.StatusUpdate("reading"), "  … reading"),
    (e.SteeringApplied(("s1", "s2"), 2), "  ↳ the model reads 2 texts now"),
    (
        e.SteeringReceived("s1", "see @a.py !\n\n  if x:\n1\n2\n\na.py:\n\n```\nx\n```", "queued"),
        "  ↳ steering: see @a.py !\n    \n      if x:\n    1\n    … 5 lines",
    ),
    (e.SteeringReceived("s1", "stop", "dropped"), "  ↳ steering dropped: stop"),
    (e.SteeringReceived("s1", "stop", "rejected_full"), "  ↳ steering refused, too many wait: stop"),
    (e.SteeringReceived("s1", "stop", "rejected_plugin", "no"), "  ↳ steering refused: no"),
    (e.StreamError("PermanentModelError", "no such key"), "✗ the model failed: no such key"),
    (e.StreamStalled(30.2, 1), "  nothing from the model for 30 s"),
    (e.SubagentEnd("c1", "s-2", "found it", is_error=False), "  ✓ sub-agent: found it"),
    (e.SubagentEnd("c1", "s-2", "lost it", is_error=True), "  ✗ sub-agent: lost it"),
    (e.SubagentStart("c1", "s-2", "find it"), "  → sub-agent: find it"),
    (e.ThinkingDelta("hm"), "hm"),
    (e.TitleGenerated("Tea"), "  title: Tea"),
    (
        e.AnswerRejected(1, "`room` is\nmissing", False),
        "  answer 1 has not the form that was asked for: `room` is missing",
    ),
    (
        e.TodoChange((Todo("boil", "done"), Todo("brew", "in_progress"), Todo("drink"))),
        "  [x] boil\n  [~] brew\n  [ ] drink",
    ),
    (e.TodoChange(()), "  nothing left to do"),
    (e.ToolAbandoned("c1", "run"), "  run was stopped, but has not ended yet"),
    (e.ToolApprovedAlways("run", "date"), "  not asked again: run (date)"),
    (e.ToolBlocked("c1", "run", "no rm", "Guard"), "  ✗ run was blocked by Guard: no rm"),
    (e.ToolsFound("c1", "fly high", ("fly", "soar")), "  ✓ looked for 'fly high': fly, soar"),
    (e.ToolCallUnknown("c1", "fly"), "  ✗ the model called `fly`, which is not there"),
    (e.ToolExecutionEnd("c1", "run", (), is_error=False), "  ✓ run: (nothing)"),
    (e.ToolExecutionEnd("c1", "run", (Text("no"),), is_error=True), "  ✗ run: no"),
    (e.ToolExecutionEnd("c1", "run", (Text("ok"),), is_error=False, late=True), "  ✓ run (late): ok"),
    (
        e.ToolExecutionEnd("c1", "look", (Image("image/png", ""), Data(args(a=1))), is_error=False),
        '  ✓ look: (an image) {"a":1}',
    ),
    (
        e.SubAgentEvent("c1", "child", e.SubAgentEvent("c2", "grandchild", e.ToolExecutionStart("c3", "grep", args()))),
        "  │ │ → grep",
    ),
    (e.ToolExecutionStart("c1", "pwd", args()), "  → pwd"),
    (e.ToolExecutionStart("c1", "run", args(command="ls"), 2), "  → run command=ls (attempt 2)"),
    (e.ToolExecutionUpdate("c1", "1 of\n2"), "  … 1 of 2"),
    (e.ToolKilled("c1", "run", "user"), "  ✗ run was stopped"),
    (e.ToolSkippedForSteering("c1", "run"), "  ✗ run was stopped for what you said"),
    (e.ToolUnknown("c1", "run"), "  nobody knows whether run took effect"),
    (e.ResultRequired("s:r1", "c1", "build", args(), 0), "  … build waits for its result, which is made elsewhere"),
]


@each_case(LINES)
def test_what_an_event_looks_like(event: e.Event, text: str) -> None:
    (piece,) = pieces([ASKED, event])
    assert piece.text == text


FOLDED = {e.ApprovalRequired, e.ResponseComplete, e.SteeringApplied, e.SubAgentEvent, e.ToolExecutionStart}


def test_every_kind_of_event_is_shown_or_silent_on_purpose() -> None:
    assert set(SHOWN) | SILENT == set(e.EVENTS) - FOLDED
    assert set(SHOWN) & SILENT == set()


def test_every_kind_that_is_shown_has_an_example_here() -> None:
    assert {type(event) for event, _ in LINES} - FOLDED == set(SHOWN)


def test_silent_events_say_nothing() -> None:
    assert output(e.MessageStart("r1"), e.ThinkingStart(), e.ToolCalls(2), e.Heartbeat()) == ""


def test_a_blocked_call_is_told_once_with_why() -> None:
    why = "it removes the root"
    events = (e.SecurityAudit("c1", "shell", "blocked", why), e.ToolBlocked("c1", "shell", why, "SecurityGuard"))
    assert output(*events) == f"  ✗ shell was blocked by SecurityGuard: {why}\n"


# What waits for a person


def test_the_question_about_a_call() -> None:
    held = HeldCall("a1", "approval", "c1", "run", args(command="date", note="", deep=[1]), "run `date`", family="date")
    assert put_all(Screen(), question_about(held), PIPE)[1] == (
        "? run waits for your approval\n"
        "    command: date\n"
        '    note: ""\n'
        "    deep: [1]\n"
        "    run `date`\n"
        "  [y]es / [n]o / [a]lways (all of `date`) / [e]dit\n"
    )


def test_always_is_not_offered_where_it_means_nothing() -> None:
    held = HeldCall("a1", "approval", "c1", "run", args(), "hm")
    assert question_about(held)[-1].text == "  [y]es / [n]o / [e]dit"


def test_a_question_of_the_agent() -> None:
    held = HeldCall("q1", "question", "c1", "ask_user", args(), "Tea or coffee?", ("tea", "coffee"))
    assert put_all(Screen(), question_about(held), PIPE)[1] == "? Tea or coffee?\n    1. tea\n    2. coffee\n"


def test_a_status() -> None:
    held = HeldCall("a1", "approval", "c1", "run", args(command="date"), "")
    status = Status(
        "s-1",
        "executing_tools",
        "demo",
        2,
        3,
        turn_open=True,
        usage=Usage(10, 20, estimated=True),
        queued=1,
        steering=0,
        held=(held,),
        asking=(),
        lingering=(Background("c2", "deploy", 0),),
        quarantined=(Background("c3", "stubborn", 0),),
    )
    assert put_all(Screen(), described(status), PIPE)[1] == (
        "  session   s-1\n"
        "  state     executing_tools, turn 2, round 3\n"
        "  model     demo\n"
        "  used      10 tokens read, 20 written (estimated)\n"
        "  queued    1 prompts, 0 texts of steering\n"
        "  waits for you: run command=date\n"
        "  in the background: deploy\n"
        "  stopped, but has not ended: stubborn\n"
    )


# Joints, tones and width


def test_a_status_is_cut_to_the_line_so_that_it_can_be_wiped() -> None:
    _, text = Screen().put(ScreenText(Flow.STATUS, "x" * 100), TERMINAL)
    assert text == "x" * 38 + "…"


def test_the_end_of_a_status_wipes_it() -> None:
    assert put_all(Screen(), [ScreenText(Flow.STATUS, "1"), line("done")], TERMINAL)[1] == "1\r\x1b[Kdone\n"


def test_a_text_that_ended_its_line_needs_no_new_one() -> None:
    assert put_all(Screen(), [ScreenText(Flow.TEXT, "a\n"), ScreenText(Flow.TEXT, ""), line("b")], PIPE)[1] == "a\nb\n"


def test_tones_are_only_seen_where_there_are_colours() -> None:
    bad = line("no", Tone.BAD)
    assert [Screen().put(bad, look)[1] for look in (PIPE, TERMINAL)] == ["no\n", "\x1b[38;5;161mno\x1b[0m\n"]


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("\x1b[2Jgone\x07", "�[2Jgone�"),
        ("a\tb\r\nc", "a    b\nc"),
        ("\x9b31m", "�31m"),
        ("abc\u202etxt", "abc�txt"),
    ],
)
def test_nobody_steers_the_terminal_but_us(text: str, seen: str) -> None:
    assert clean(text) == seen
    assert output(ASKED, e.MessageDelta(text)) == seen
    assert output(e.ToolExecutionEnd("c", "t", (Text(text),), is_error=False)) == f"  ✓ t: {one_line(seen)}\n"


@pytest.mark.parametrize(
    ("text", "width", "cut"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("日本語", 6, "日本語"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日…"),
        ("ab", 0, "…"),
    ],
)
def test_a_text_is_cut_by_columns(text: str, width: int, cut: str) -> None:
    assert clipped(text, width) == cut


def test_a_combining_character_takes_no_column() -> None:
    assert columns("e\u0301") == 1


def test_long_arguments_are_shortened() -> None:
    assert shown_args(args(path="a.txt", content="x" * 50), 30) == "path=a.txt content=xxxxxxxxxx…"


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        (NOTHING_USED, ""),
        (Usage(1200, 3), " · cost unknown"),
        (Usage(1200, 3, cost_usd=0.0), " · $0.0000"),
        (Usage(1200, 3, cost_usd=0.0042), " · $0.0042"),
    ],
)
def test_the_status_row_tells_a_cost_that_is_not_known(usage: Usage, cost: str) -> None:
    status = Status("s-1", "idle", "scripted", 1, 0, False, usage, 0, 0, (), (), (), ())
    row = about(status, 0)
    assert row.partition(" out")[2] == cost


def test_a_prompt_of_the_past_looks_as_it_was_pasted() -> None:
    code = "look:\n\ndef f(x):\n    if x:\n        return  1"
    assert prompt_piece(code).text == "> look:\n  \n  def f(x):\n      if x:\n          return  1"
    assert prompt_piece("\n".join(map(str, range(12)))).text.endswith("\n  9\n  … 12 lines")


STEPS = (0, 95, 135, 175, 215, 255)


def light_of(red: int, green: int, blue: int) -> float:
    """Return the relative luminance of a colour, as WCAG 2 has it."""
    parts = [part / 255 for part in (red, green, blue)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def light_of_code(code: str) -> float:
    number = int(code.removeprefix("\x1b[38;5;").removesuffix("m"))
    if number >= 232:
        return light_of(*[8 + 10 * (number - 232)] * 3)
    return light_of(*(STEPS[(number - 16) // step % 6] for step in (36, 6, 1)))


@pytest.mark.parametrize(
    ("background", "behind", "least"),
    [("unknown", 0.0, 4.0), ("unknown", 1.0, 4.0), ("dark", 0.0, 6.5), ("light", 1.0, 5.5)],
)
def test_each_role_can_be_read_on_its_background(background: Backdrop, behind: float, least: float) -> None:
    palette = PALETTES[background]
    assert set(palette) == set(Tone)
    assert len(palette) == 6
    for code in set(palette.values()) - {"", "\x1b[1m"}:
        dark, bright = sorted((light_of_code(code), behind))
        assert (bright + 0.05) / (dark + 0.05) >= least, code


@pytest.mark.parametrize(
    ("colours", "background"),
    [("", "unknown"), ("0;15", "light"), ("15;0", "dark"), ("0;default;7", "light"), ("7;8", "dark"), ("x", "unknown")],
)
def test_a_terminal_tells_its_background(colours: str, background: Backdrop) -> None:
    assert background_of(colours) == background


MARKED = "`code` [link](https://x.test)\n\n* a\n1. b\n\n> said\n\n---\n\n```\nx\n```\n"


@pytest.mark.parametrize(
    ("background", "behind", "least"),
    [("unknown", 0.0, 4.0), ("unknown", 1.0, 4.0), ("dark", 0.0, 6.5), ("light", 1.0, 5.5)],
)
def test_markdown_can_be_read_on_each_background(background: Backdrop, behind: float, least: float) -> None:
    rows = "".join(markdown_rows(MARKED, TerminalStyle(colours=True, background=background)))
    codes = {code for codes in re.findall(r"\x1b\[([0-9;]*)m", rows) for code in re.findall(r"[34]8;5;\d+|\d+", codes)}
    colours = {code for code in codes if code.startswith("38;5;")}
    assert codes - colours <= {"0", "1", "2", "3", "4"}, "no colour of the 16, which each terminal has its own of"
    for code in colours:
        light, dark = sorted((behind, light_of_code(f"\x1b[{code}m")), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= least
