"""Renders what events change for a person; of those that are not folded, a table has the functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from agentrail.api.session_values import Status
from agentrail.api.transcript import (
    CallChanged,
    CallEnded,
    Change,
    CutOff,
    OfSubagent,
    ResponseEnded,
    SteeringRead,
    Voided,
)
from agentrail.cli.agents.agent_source import SCHEME
from agentrail.cli.output.error_text import in_own_words
from agentrail.cli.output.screen import Flow, ScreenText, Tone, aside, clipped, line, one_line
from agentrail.cli.talk.file_names import without_files
from agentrail.core.context_window import window_of
from agentrail.values import events as e
from agentrail.values.content import in_words
from agentrail.values.json import Json, JsonObject, canonical
from agentrail.values.usage import cost_text

MOST_PATHS: Final = 5
"""The most paths of files that came back that are shown, the first ones."""

SHORT: Final = 100
"""The most columns of a text that is shown in one line, such as arguments, a result or a queued prompt."""

MOST_ARGS: Final = 400
"""The most columns of the arguments of a call, which are cut where the terminal ends."""

MOST_ROWS: Final = 4
"""The most rows of a result that are shown."""

MOST_LINES: Final = 4
"""The most lines that are shown of a text that steers or waits."""

BELOW: Final = "    "
"""Before the further lines of such a text."""

LONG: Final = 1_000
"""The most columns of a prompt that was sent from elsewhere, or earlier."""

THOUSAND: Final = 1000

TOLD_BEFORE: Final = frozenset({"provider_error", "overflow"})
"""Kinds of aborts whose reason is not shown, because the event before the abort has shown it."""

MISSING: Final = "(some output is missing here)"

Show = Callable[..., ScreenText]


def pieces_of(change: Change) -> tuple[ScreenText, ...]:
    """Return the pieces of text that show a change; of a complete response, what was not told of it before."""
    match change:
        case ResponseEnded(message=message, thoughts=thoughts, is_other=True):
            return (_note("it says this instead:"), *response_pieces(thoughts, message.text))
        case ResponseEnded(thoughts=thoughts, rest=rest):
            return response_pieces(thoughts, rest)
        case Voided(text):
            return (_note("what it had said is void"),) if text else ()
        case CutOff(is_heard=False):
            return (_note(MISSING),)
        case SteeringRead(refs):
            return (_note(f"↳ the model reads {'it' if len(refs) == 1 else f'{len(refs)} texts'} now"),)
        case CallChanged(call):
            return (_started(change),) if call.state == "running" else ()
        case CallEnded(cause=e.AgentAbort() | e.AgentEnd() | e.SubagentEnd()):
            return ()  # each is shown by itself, and ends all calls
        case CallEnded(cause=event):
            return pieces_of(event)
        case e.SecurityAudit(decision="blocked"):
            return ()  # the end of the call says so, and why
        case OfSubagent(change=inner):
            pieces = pieces_of(inner) if isinstance(inner, IN_TREE) else ()
            return tuple([_aside(f"│ {clipped(one_line(piece.text), SHORT)}") for piece in pieces])
        case e.Event() if type(change) in SHOWN:
            return (SHOWN[type(change)](change),)
        case _:
            return ()


def response_pieces(thoughts: str, text: str) -> tuple[ScreenText, ...]:
    """Return the pieces that show what the model thought and said, as if it had come as deltas."""
    return (
        *((ScreenText(Flow.THOUGHT, thoughts, Tone.DIM),) if thoughts else ()),
        *((ScreenText(Flow.TEXT, text),) if text.strip() else ()),
    )


def shown_args(args: JsonObject, limit: int = SHORT) -> str:
    """Return the arguments of a call on one line, cut to *limit* columns."""
    return clipped(" ".join(f"{name}={_value(arg)}" for name, arg in args.items()), limit)


def first_lines(text: str, indent: str, most: int = MOST_LINES, width: int = SHORT) -> str:
    """Return the first lines of what a person has typed or pasted, without the texts of files; *indent* joins them."""
    rows = without_files(text).strip("\n").split("\n")
    more = [f"… {len(rows)} lines"] if len(rows) > most else []
    return f"\n{indent}".join([*(clipped(row.rstrip(), width) for row in rows[:most]), *more])


def described(status: Status) -> tuple[ScreenText, ...]:
    """Return the lines of `/status`: the phase, held calls and usage in *status*."""
    used = f"{status.usage.input_tokens} tokens read, {status.usage.output_tokens} written"
    turn = f"turn {status.turn}, round {status.round}" if status.turn_open else f"{status.turn} turns so far"
    waiting = [
        *(f"waits for you: {call.tool} {shown_args(call.args)}" for call in status.held),
        *(f"in the background: {call.name}" for call in status.lingering),
        *(f"stopped, but has not ended: {call.name}" for call in status.quarantined),
    ]
    return (
        line(f"  session   {status.session_id}"),
        line(f"  state     {status.phase}, {turn}"),
        line(f"  model     {status.model}"),
        line(f"  used      {used}{' (estimated)' if status.usage.estimated else ''}"),
        line(f"  queued    {status.queued} prompts, {status.steering} texts of steering"),
        *(line(f"  {what}") for what in waiting),
    )


def about(status: Status, last_read: int) -> str:
    """Return the status row of a session: phase, queue, model, usage, and how full the context window is.

    *last_read* is how many tokens the model read and wrote last, which it reads again.
    """
    usage, window = status.usage, window_of(status.model)
    cost = "" if usage.is_nothing else f" · {cost_text(usage)}"
    full = f" · context {100 * last_read // window} %" if window and last_read else ""
    queued = f" · {status.queued} queued" if status.queued else ""
    phase = "waits for you" if status.held else status.phase.replace("_", " ")
    tokens = f"{rounded(usage.input_tokens)} in, {rounded(usage.output_tokens)} out"
    return f"  {phase}{queued} · {status.model} · {tokens}{cost}{full}"  # of a narrow terminal, the end is cut off


def rounded(tokens: int) -> str:
    """Return a number of tokens as a person reads it: `950`, `3.1k`, `1.0M`."""
    if tokens >= THOUSAND**2:
        return f"{tokens / THOUSAND**2:.1f}M"
    return str(tokens) if tokens < THOUSAND else f"{tokens / THOUSAND:.1f}k"


def _value(arg: Json) -> str:
    return one_line(arg) if isinstance(arg, str) and arg.strip() else canonical(arg)


def _note(text: str, tone: Tone = Tone.DIM) -> ScreenText:
    return line(f"  {text}", tone)


def _aside(text: str, tone: Tone = Tone.DIM) -> ScreenText:
    return aside(f"  {text}", tone)


# Life


def _received(event: e.PromptReceived) -> ScreenText:
    return ScreenText(Flow.ECHO, f"> {clipped(one_line(event.text), LONG)}", Tone.BOLD)


def _ended(event: e.AgentEnd) -> ScreenText:
    return line("" if event.reason == "end" else f"  (the turn ended: {event.reason})", Tone.DIM)


def _aborted(event: e.AgentAbort) -> ScreenText:
    if event.ref is None:
        return _note("nothing to stop")
    reason = None if event.kind in TOLD_BEFORE else event.reason
    why = f"{event.kind}: {one_line(reason)}" if reason else event.kind
    return line(f"■ stopped ({why})\n", Tone.BAD)


def _session_ended(event: e.SessionEnded) -> ScreenText:
    return _note(f"the session has ended: {event.reason}")


def _resumed(event: e.AgentResumed) -> ScreenText:
    return _note(f"goes on ({event.trigger.replace('_', ' ')})")


def _queued(event: e.PromptQueued) -> ScreenText:
    return _aside(f"queued, place {event.position}: {first_lines(event.text, BELOW)}")


def _dropped(event: e.PromptDropped | e.PromptWithdrawn) -> ScreenText:
    return _aside(f"dropped from the queue: {first_lines(event.text, BELOW)}")


def _rejected(event: e.PromptRejected) -> ScreenText:
    by = f" by {event.plugin}" if event.plugin else ""
    return line(f"✗ the prompt was refused{by}: {event.reason}\n", Tone.BAD)


def _steering(event: e.SteeringReceived) -> ScreenText:
    preview = first_lines(event.text, BELOW)
    match event.status:
        case "queued":
            return _aside(f"↳ steering: {preview}")
        case "dropped":
            return _aside(f"↳ steering dropped: {preview}")
        case "rejected_full":
            return _aside(f"↳ steering refused, too many wait: {preview}", Tone.BAD)
        case _:
            return _aside(f"↳ steering refused: {event.reason or event.status}", Tone.BAD)


# Responses


def _text(event: e.MessageDelta) -> ScreenText:
    return ScreenText(Flow.TEXT, event.delta)


def _thought(event: e.ThinkingDelta) -> ScreenText:
    return ScreenText(Flow.THOUGHT, event.delta, Tone.DIM)


def _stalled(event: e.StreamStalled) -> ScreenText:
    return _note(f"nothing from the model for {event.elapsed_s:.0f} s")


def _retry(event: e.Retry) -> ScreenText:
    return _note(f"attempt {event.attempt} failed, again in {event.delay_ms / 1000:.1f} s: {one_line(event.reason)}")


def _failed(event: e.StreamError) -> ScreenText:
    return line(f"✗ the model failed: {in_own_words(one_line(event.message))}", Tone.BAD)


def _overflow(event: e.ContextOverflow) -> ScreenText:
    return _note(f"the conversation is too long for the model: {one_line(event.message)}")


def _switched(event: e.ModelSwitched) -> ScreenText:
    by = f" by {event.by}" if event.by else ""
    return _note(f"model: {event.from_} → {event.to}{by}")


def _handed_off(event: e.HandedOff) -> ScreenText:
    by = f" by {event.from_}" if event.from_ and not event.from_.startswith(SCHEME) else ""
    return _note(f"handed over to {event.to}{by}")


def _options_changed(event: e.ModelOptionsChanged) -> ScreenText:
    by = f" by {event.by}" if event.by else ""
    return _note(f"model: {event.model}, other options{by}")


def _unfit(event: e.AnswerRejected) -> ScreenText:
    return _note(f"answer {event.attempt} has not the form that was asked for: {one_line(event.reason)}")


def _title(event: e.TitleGenerated) -> ScreenText:
    return _aside(f"title: {event.title}")


def _status(event: e.StatusUpdate) -> ScreenText:
    return ScreenText(Flow.STATUS, f"  … {event.text}", Tone.DIM)


# Tools


def _started(change: CallChanged) -> ScreenText:
    call = change.call
    again = f" (attempt {call.attempt})" if call.attempt > 1 else ""
    return line(f"  → {call.name} {shown_args(call.args or {}, MOST_ARGS)}".rstrip() + again, is_cut=True)


def _progress(event: e.ToolExecutionUpdate) -> ScreenText:
    return ScreenText(Flow.STATUS, f"  … {one_line(event.update)}", Tone.DIM)


def _tool_ended(event: e.ToolExecutionEnd) -> ScreenText:
    """Return the result as it is, if it has a few rows; of a longer one the first rows."""
    rows = " ".join(map(in_words, event.content)).strip("\n").split("\n")
    mark, tone = ("✗", Tone.BAD) if event.is_error else ("✓", Tone.GOOD)
    head = f"  {mark} {event.name}{' (late)' if event.late else ''}:"
    if len(rows) == 1:
        return line(f"{head} {rows[0].strip() or '(nothing)'}", tone, is_cut=True)
    more = [f"    … {len(rows) - MOST_ROWS} more lines; /show"] if len(rows) > MOST_ROWS else []
    return line("\n".join([head, *(f"    {row}" for row in rows[:MOST_ROWS]), *more]), tone, is_cut=True)


def _blocked(event: e.ToolBlocked) -> ScreenText:
    return _note(f"✗ {event.name} was blocked by {event.plugin}: {one_line(event.reason)}", Tone.BAD)


def _killed(event: e.ToolKilled) -> ScreenText:
    return _note(f"✗ {event.name} was stopped", Tone.BAD)


def _skipped(event: e.ToolSkippedForSteering) -> ScreenText:
    return _note(f"✗ {event.name} was stopped for what you said", Tone.BAD)


def _abandoned(event: e.ToolAbandoned) -> ScreenText:
    return _note(f"{event.name} was stopped, but has not ended yet", Tone.BAD)


def _awaited(event: e.ResultRequired) -> ScreenText:
    return _note(f"… {event.tool} waits for its result, which is made elsewhere", Tone.DIM)


def _uncertain(event: e.ToolUnknown) -> ScreenText:
    return _note(f"nobody knows whether {event.name} took effect", Tone.BAD)


def _tools_found(event: e.ToolsFound) -> ScreenText:
    return _note(f"✓ looked for {one_line(event.query)!r}: {', '.join(event.names) or 'no tool'}", Tone.GOOD)


def _files_rewound(event: e.FilesRewound) -> ScreenText:
    more = event.count - MOST_PATHS
    paths = ", ".join(map(one_line, event.paths[:MOST_PATHS])) + (f" and {more} more" if more > 0 else "")
    return _note(f"✓ brought back: {paths}", Tone.GOOD)


def _no_such_tool(event: e.ToolCallUnknown) -> ScreenText:
    return _note(f"✗ the model called `{event.name}`, which is not there", Tone.BAD)


def _loop(event: e.LoopDetected) -> ScreenText:
    about = f" on {event.subject}" if event.subject else ""
    return _note(f"the model goes in circles: {event.name}{about}, {event.count} times")


# People


def _resolved(event: e.ApprovalResolved) -> ScreenText:
    edited = " with edited arguments" if event.edited else ""
    why = f": {event.reason}" if event.reason else ""
    return _note(f"{event.status}: {event.tool}{edited}{why}")


def _always(event: e.ToolApprovedAlways) -> ScreenText:
    return _note(f"not asked again: {event.tool} ({event.command_family})")


# Context and plugins


def _compacted(event: e.CompactEnd) -> ScreenText:
    outcome = "the conversation was made shorter" if event.removed else "not made shorter"
    full = "" if event.crowded is None else f"; it still has about {event.crowded.tokens} tokens ({event.crowded.told})"
    return _note(f"{outcome}: {event.note}{full}")


def _intervention(event: e.Intervention) -> ScreenText:
    return _note(f"a plugin says: {clipped(one_line(event.text), SHORT)}")


def _violation(event: e.ContentPolicyViolated) -> ScreenText:
    return _note(f"against the policy {', '.join(event.policies)}: {one_line(event.summary)}", Tone.BAD)


def _audit(event: e.SecurityAudit) -> ScreenText:
    return _note(f"{event.tool} was {event.decision}: {one_line(event.reason)}")


def _broken(event: e.PluginError) -> ScreenText:
    return _note(f"plugin {event.plugin} broke at {event.hook}: {one_line(event.error)}", Tone.BAD)


def _gap(_: e.Gap) -> ScreenText:
    return _note(MISSING)


def _recovered(event: e.SessionRecovered) -> ScreenText:
    return _note(f"the session is back, from {event.records} records")


def _restarted(event: e.SessionRestarted) -> ScreenText:
    return _note(f"the session crashed and was restarted: {one_line(event.cause)}", Tone.BAD)


def _quarantined(event: e.SessionQuarantined) -> ScreenText:
    return _note(f"the session crashed too often: {one_line(event.cause)}", Tone.BAD)


def _subagent(event: e.SubagentStart) -> ScreenText:
    return _note(f"→ sub-agent: {clipped(one_line(event.description), SHORT)}", Tone.PLAIN)


def _subagent_done(event: e.SubagentEnd) -> ScreenText:
    mark, tone = ("✗", Tone.BAD) if event.is_error else ("✓", Tone.GOOD)
    return _note(f"{mark} sub-agent: {clipped(one_line(event.text), SHORT)}", tone)


def _todos(event: e.TodoChange) -> ScreenText:
    marks = {"done": "x", "in_progress": "~"}
    lines = [f"  [{marks.get(todo.status, ' ')}] {one_line(todo.text)}" for todo in event.todos]
    return line("\n".join(lines) or "  nothing left to do")


IN_TREE: Final = (
    CallChanged,
    CallEnded,
    OfSubagent,
    e.ApprovalResolved,
    e.Retry,
    e.StreamError,
    e.SubagentEnd,
    e.SubagentStart,
)
"""What is shown of a sub-agent, below its parent's call."""

SHOWN: Final[Mapping[type[e.Event], Show]] = {
    e.AgentAbort: _aborted,
    e.AgentEnd: _ended,
    e.AnswerRejected: _unfit,
    e.AgentResumed: _resumed,
    e.ApprovalResolved: _resolved,
    e.CompactEnd: _compacted,
    e.ContentPolicyViolated: _violation,
    e.ContextOverflow: _overflow,
    e.Gap: _gap,
    e.Intervention: _intervention,
    e.LoopDetected: _loop,
    e.MessageDelta: _text,
    e.ModelOptionsChanged: _options_changed,
    e.HandedOff: _handed_off,
    e.ModelSwitched: _switched,
    e.PluginError: _broken,
    e.PromptDropped: _dropped,
    e.PromptQueued: _queued,
    e.PromptReceived: _received,
    e.PromptRejected: _rejected,
    e.PromptWithdrawn: _dropped,
    e.Retry: _retry,
    e.SecurityAudit: _audit,
    e.SessionEnded: _session_ended,
    e.SessionQuarantined: _quarantined,
    e.SessionRecovered: _recovered,
    e.SessionRestarted: _restarted,
    e.StatusUpdate: _status,
    e.SteeringReceived: _steering,
    e.StreamError: _failed,
    e.StreamStalled: _stalled,
    e.SubagentEnd: _subagent_done,
    e.SubagentStart: _subagent,
    e.ThinkingDelta: _thought,
    e.TitleGenerated: _title,
    e.TodoChange: _todos,
    e.ToolAbandoned: _abandoned,
    e.FilesRewound: _files_rewound,
    e.ToolApprovedAlways: _always,
    e.ToolBlocked: _blocked,
    e.ToolCallUnknown: _no_such_tool,
    e.ToolsFound: _tools_found,
    e.ToolExecutionEnd: _tool_ended,
    e.ToolExecutionUpdate: _progress,
    e.ToolKilled: _killed,
    e.ToolSkippedForSteering: _skipped,
    e.ResultRequired: _awaited,
    e.ToolUnknown: _uncertain,
}
"""The function that renders each class of event."""

SILENT: Final[frozenset[type[e.Event]]] = frozenset(
    {
        e.AbortPending,
        e.AgentStart,
        e.AskAnswered,
        e.AskStarted,
        e.AskUser,
        e.BeforeCompact,
        e.CompactStart,
        e.Heartbeat,
        e.InputQuarantined,
        e.LabelsChanged,
        e.LargeResultOffloaded,
        e.MemoryFlushed,
        e.MessageStart,
        e.ModelEffective,
        e.PlanGenerated,
        e.PlanStepCompleted,
        e.PluginAttached,
        e.PluginDetached,
        e.PluginEvent,
        e.PluginOptsUpdated,
        e.PluginSlow,
        e.PluginUpgraded,
        e.PrefixChanged,
        e.RequestStart,
        e.SessionForked,
        e.SessionHibernated,
        e.SessionStarted,
        e.SessionWoken,
        e.ShadowDiffers,
        e.ShadowEnded,
        e.ThinkingStart,
        e.ToolAttached,
        e.ToolCalls,
        e.ToolDetached,
        e.ToolExecutionMetrics,
        e.ToolsUpdated,
        e.UnknownEvent,
        e.UserResponded,
    }
)
"""The classes of events that are not shown; held calls are shown by `questions.question_about` instead."""
