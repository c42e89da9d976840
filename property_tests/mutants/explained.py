"""Edits that no test can notice, by reason."""

from __future__ import annotations

from typing import Final

EXPLAINED: Final[dict[str, tuple[str, ...]]] = {
    "It is for type checkers alone: the other part of the condition implies it.": (
        (
            "runtime/actor/session.py Session._recover: "
            "unconfirmed is not None and letter is not None and head == records.head + len(records.unwritten) → "
            "(unconfirmed is not None) and (head == records.head + len(records.unwritten))"
        ),
        'runtime/inbox/end_reason.py why_gone: state.stop_reason or "stopped" → (state.stop_reason)',
        (
            "runtime/diagnosis/watchdog.py Watchdog.close: "
            "self._working or alarm is None or self._thread is None → (self._working) or (alarm is None)"
        ),
        (
            "runtime/diagnosis/watchdog.py Watchdog._still: "
            "self.step is not None or self._pulse is None → (self.step is not None)"
        ),
        (
            'runtime/access/code_changes.py attached_as: change.kind == "attach" and change.attached is not None → '
            "(change.kind == 'attach')"
        ),
    ),
    "It is for type checkers alone: what is due or paused is dropped with what it is about, so that is there.": (
        "core/machine/requests.py finish_before_compact: compaction is None → False",
        "core/machine/steering.py begin_before_steering: text is None → False",
        "core/machine/steering.py finish_before_steering: text is None or command is None → (command is None)",
        "core/machine/tool_checks.py where_before_tool: call is None → False",
        (
            "core/machine/tool_runs.py probe: "
            "call is None or call.status is not CallStatus.SETTLING or call.spec is None → "
            "(call.status is not CallStatus.SETTLING) or (call.spec is None)"
        ),
    ),
    "It is for type checkers alone: a hold may have no limit, and an ask always has one.": (
        (
            "core/machine/flow.py _set_deadline: "
            "waiting.pause.deadline is not None and not draft.has_timer(timer) → (not draft.has_timer(timer))"
        ),
    ),
    "It is for type checkers alone: a call that runs has a tool, one that waits without a hold has a question.": (
        (
            "core/machine/tool_runs.py on_call_timer: "
            "call is not None and call.status is CallStatus.RUNNING and call.spec is not None → "
            "(call is not None) and (call.status is CallStatus.RUNNING)"
        ),
        "core/machine/forking.py _wait_again: call.question is not None → True",
        (
            "core/machine/in_doubt_calls.py doubt_about: "
            "call.spec is None or call.spec.effect is EffectClass.UNSAFE → (call.spec.effect is EffectClass.UNSAFE)"
        ),
        (
            "core/vocabulary/tool_calls.py can_be_probed: "
            'spec is not None and (spec.effect is EffectClass.CHECKABLE or "agents" in spec.requires) → '
            "(spec.effect is EffectClass.CHECKABLE or 'agents' in spec.requires)"
        ),
    ),
    "It is for type checkers alone: a request has a turn, and a ruling that holds a call says how it goes on.": (
        "core/machine/responses.py _conclude: state.turn is None → False",
        (
            "core/machine/responses.py on_stalled: "
            "not _is_current(draft, stalled.request_id) or state.turn is None or state.request is None → "
            "(not _is_current(draft, stalled.request_id)) or (state.request is None)"
        ),
        (
            "core/machine/tool_checks.py finish_before_tool: "
            "ruling.verdict is HOLD and ruling.pause is not None → (ruling.verdict is HOLD)"
        ),
    ),
    "It is for type checkers alone: the response whose answer is checked has set the last reply.": (
        'core/machine/responses.py _problem: draft.state.last_text or "" → (draft.state.last_text)',
    ),
    "It is for type checkers alone: attrs gives each field an alias when it makes the class.": (
        "hooks/attachments.py options_of: field.alias or field.name → (field.alias)",
    ),
    "It is for type checkers alone: each hook that takes a choice of a model is about an open turn.": (
        "core/machine/draft.py StepDraft.use_model: state.turn is not None → True",
    ),
    "It costs time alone: what is copied or looked at once more is equal.": (
        "core/machine/draft.py StepDraft.record_ruling: ruling.states → True",
        "core/machine/tool_runs.py _start: families → True",
        "runtime/work/model_stream.py Stream.run: usage is response.usage → False",
        "hooks/declarations.py UsageLimits.time_reached: self.counts_work → True",
        "hooks/live_runner.py LiveRunner.audience: attached_plugins is audience.attached_plugins → False",
        "runtime/work/stored_messages.py StoredPast.messages: lacking → True",
        "runtime/shared/turn_waits.py TurnWaits._refuse_circle: visited.update(further) → pass",
        (
            "runtime/actor/screened_inputs.py _is_plain: "
            "hint is ... or isinstance(hint, Privacy) or (isinstance(hint, type) and issubclass(hint, _PLAIN)) → "
            "(hint is ...) or (isinstance(hint, type) and issubclass(hint, _PLAIN))"
        ),
    ),
    "Two threads would have to meet within one line, which no test can have them do.": (
        "runtime/shared/collector.py _Collector.withdraw: self._lock → __import__('contextlib').nullcontext()",
        (
            "runtime/diagnosis/watchdog.py Watchdog._still: "
            "self.step is not None or self._pulse is None → (self._pulse is None)"
        ),
    ),
    "It is for type checkers alone: what is asked about has a session, and only sessions are in this table.": (
        "runtime/supervision/parking.py _wake: session is not None and _is_busy(child) → (_is_busy(child))",
        (
            "runtime/supervision/sessions.py Sessions._stop_fenced: "
            "child is not None and isinstance(child.runner, SessionRunner) → (child is not None)"
        ),
    ),
    "Every negative number says that there is none.": ("hooks/ruling.py Decisions: 1 → 2",),
    "It is the quick way of what the lines after it do too, with an envelope or a call more.": (
        "core/vocabulary/changes.py _changed_timers: index + len(rest) → index - len(rest)",
        (
            "runtime/inbox/replies.py Waiters.notice: "
            "turn is not None and self._replies and turn.ref in self._replies → (turn is not None) and (self._replies)"
        ),
        "runtime/work/model_stream.py Stream.emit: not self._began → True",
        "runtime/work/model_stream.py Stream.emit: chars <= MAX_TEXT → chars < MAX_TEXT",
    ),
    "It costs time alone: more is kept before a sweep, or an empty list of readers is gone through.": (
        "core/machine/flow.py _run: unheard is not None → False",
        "runtime/actor/session.py Session._finish_step: self.traces → True",
        "runtime/events/log.py EventLog.publish: self._earlier_count → True",
        "runtime/events/log.py EventLog.publish_ephemeral: self._ephemeral_count > self._buffer_size → True",
        "runtime/inbox/replies.py : 1000 → 1001",
        "runtime/shared/timers.py Timers._sweep: 2 → 3",
    ),
    "It is about the words of an error alone.": (
        (
            'runtime/work/plugin_asks.py RunningAsk.serve: ", ".join(sorted(services)) or "none" → '
            "(', '.join(sorted(services)))"
        ),
    ),
    "A time that was measured is never equal to a limit.": (
        "runtime/diagnosis/watchdog.py Named.is_due: seconds < BLOCKED → seconds <= BLOCKED",
        "runtime/diagnosis/watchdog.py Watchdog._look: late >= LATE → late > LATE",
        "runtime/diagnosis/watchdog.py Watchdog._name_keeper: late - collecting >= LATE → late - collecting > LATE",
    ),
    "A share of objects that was counted is never equal to twice another one, but by chance.": (
        "runtime/shared/collector.py _Collector._collected: self._frozen > most → self._frozen >= most",
        "runtime/shared/collector.py _Collector._collected: remaining > most → remaining >= most",
    ),
    "The supervisor is left as soon as it is said, and leaving it does the same.": (
        "runtime/supervision/tree.py Tree.doom: True → False",
    ),
    "Of these numbers only the order counts, not the first one.": ("runtime/shared/timers.py Timers.__init__: 0 → 1",),
    "Trio has another checkpoint on the same way.": (
        "runtime/actor/journal_log.py JournalLog.record_of_seq: await trio.lowlevel.checkpoint() → pass",
        "runtime/shared/threads.py CallThreads.acquire_on_behalf_of: await trio.lowlevel.checkpoint() → pass",
    ),
    "It is read once, when the source has been tried for the first time, and no failure came before that.": (
        "runtime/actor/tool_sources.py RunningSource._change: self.failure = None → pass",
    ),
    "It is for type checkers alone: an authenticator that has failed has returned nothing, which is no identity.": (
        (
            "host/authentication/authenticators.py GuardedAuthenticator.identify: "
            "not failed and not scope.cancelled_caught and _is_identity(answer) → "
            "(not scope.cancelled_caught) and (_is_identity(answer))"
        ),
    ),
    "It is for type checkers alone: the filter of a host has a tenant.": (
        'host/hosted_sessions.py HostedSessions.listed: session_filter.tenant or "" → (session_filter.tenant)',
    ),
    "A sample without labels has a blank before its figure, so it is told by that too.": (
        "host/cluster/other_hosts.py _with_host: brace and \" \" not in name → (' ' not in name)",
    ),
    "A search that is stopped before it begins ends at its first file too.": (
        "adapters/sandboxes/searching.py Grep.run: raise SearchCancelled → pass",
    ),
    "It is for type checkers alone: the SDK gives each span a context.": (
        (
            "adapters/otel/span_export.py SampledSpans.on_end: "
            "span.context is not None and span.context.trace_flags.sampled → (span.context.trace_flags.sampled)"
        ),
    ),
    "It is for type checkers alone: other exceptions than those of SQLite have none of its codes.": (
        (
            "adapters/journals/sql/writer.py SqlWriter._undo: isinstance(error, self._dialect.errors) and "
            "self._dialect.is_passing(error) → (self._dialect.is_passing(error))"
        ),
    ),
    "It costs time alone: a lock that is free is taken with a checkpoint.": (
        "host/websocket/send_queue.py SendQueue.put_all: self._turn.locked() → True",
    ),
    "It costs a call alone: the limit is set to what it is.": (
        "host/http11/http_server.py allow_open_files: soft >= needed → soft > needed",
    ),
    "It costs a write alone: what comes with the last frames is sent before them.": (
        "host/ag_ui/run_stream.py RunStream._write_on.give: frames and self._last is None → (frames)",
    ),
    "No prompt has an empty id.": (
        "host/ag_ui/run_frames.py RunFrames._end: bool(self.ref) and ref == self.ref → (ref == self.ref)",
    ),
    "It is counted before anybody reads it.": (
        "host/uploads/session_files.py Intake.__init__: 0 → 1",
        "host/uploads/session_files.py Intake.__init__: 0 → 1 #2",
    ),
}
