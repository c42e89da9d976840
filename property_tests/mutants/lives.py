"""Edits of rules that keep work from being lost or done twice at the end and the return of a session."""

from __future__ import annotations

from typing import Final

COMING_BACK: Final = (
    # the code that there is now
    ("machine.recovery", "    if problem is not None:\n        w.refuse(problem)\n        return\n", ""),
    ("machine.recovery", "if ruling.verdict is not Verdict.PASS:", "if False:"),
    ("machine.recovery", "if old is not None and old.version == seat.version:", "if old is not None:"),
    ("machine.recovery", "if old is not None and old.version == seat.version:", "if False:"),
    ("machine.recovery", "s.seats, s.plugin_states = seats, tuple(states)", "s.plugin_states = tuple(states)"),
    ("machine.recovery", "        _take_new_places(w)\n", "        pass\n"),
    ("machine.recovery", "waiting.gathered.but(replaced_at=to)", "waiting.gathered"),
    ("machine.recovery", "_moved(suspension, places[suspension.plugin])", "suspension"),
    (
        "machine.recovery",
        "            put(w, call.but(hold=call.hold.but(place=START",
        "            _ = (w, call.but(hold=call.hold.but(place=START",
    ),
    ("machine.recovery", "s.tools.items() if name not in returned.gone", "s.tools.items()"),
    ("machine.recovery", "left |= {spec.name: Attached", "_ = {spec.name: Attached"),
    ("machine.recovery", "    change_tools(w, returned)\n", ""),
    ("machine.recovery", "    _drop_changes(w, returned.without)\n", ""),
    ("machine.recovery", "    _tell_of_lost(w, returned.lost)\n", ""),
    ("machine.recovery", "    s.jobs = ()\n", ""),
    # what was under way
    ("machine.recovery", "    s.asleep = False\n", ""),
    ("machine.recovery", "        w.ask(SetTimer(timer, at))\n", "        pass\n"),
    ("machine.recovery", "    _end_strays(w)\n", ""),
    ("machine.recovery", "s.lingering, s.quarantined = s.lingering, (), ()", "s.lingering = s.lingering, ()"),
    ("machine.recovery", "    w.clear_timer(GRACE_TIMER)\n", ""),
    ("machine.recovery", "        w.clear_timer(call_timer(stray.call_id))\n", ""),
    ("machine.recovery", "        remember(w, stray.doubt)\n", ""),
    ("machine.recovery", "    _settle(w, pause=returned.pause)\n", ""),
    ("machine.recovery", "        s.request = None\n", ""),
    ("machine.recovery", '        w.next("request")\n', ""),
    ("machine.recovery", "s.compaction = s.compaction.but(running=False)", "s.compaction = None"),
    ("machine.recovery", '        w.next("before_compact")\n', ""),
    ("machine.recovery", '        w.later("advance_batch")\n', "        pass\n"),
    ("machine.recovery", "suspension.but(asked=False) for", "suspension for"),
    ("machine.recovery", '            w.next("ask_again", suspension.ask_id)\n', "            pass\n"),
    ("machine.flow", "attached is None or attached.spec.effect not in tool_runs.CAN_RUN_AGAIN", "attached is None"),
    ("machine.flow", "        request = _screened(w, waiting.plugin, request, ask_id)\n", "        pass\n"),
    ("machine.flow", "    s.suspended = tuple(other.but(asked=True)", "    _ = tuple(other.but(asked=True)"),
    # calls that ran
    ("machine.recovery", "        again(w, call)\n        return\n", "        pass\n"),
    ("machine.recovery", "== call.call_id and not agent.background for", "== call.call_id for"),
    ("machine.recovery", "if effect in CAN_RUN_AGAIN and call.attempt < MAX_RUNS:", "if effect in CAN_RUN_AGAIN:"),
    ("machine.recovery", "if effect in CAN_RUN_AGAIN and call.attempt < MAX_RUNS:", "if call.attempt < MAX_RUNS:"),
    ("machine.recovery", "MAX_RUNS = 3", "MAX_RUNS = 2"),
    ("machine.recovery", "MAX_RUNS = 3", "MAX_RUNS = 4"),
    ("machine.recovery", "status=CallStatus.READY, attempt=call.attempt + 1)", "status=CallStatus.READY)"),
    ("machine.recovery", "elif can_be_probed(call.spec) and is_there:", "elif is_there:"),
    ("machine.recovery", "elif can_be_probed(call.spec) and is_there:", "elif can_be_probed(call.spec):"),
    ("vocabulary.tool_calls", ' or "agents" in spec.requires)', ")"),
    ("machine.recovery", "attached is not None and attached.revision == call.revision\n", "attached is not None\n"),
    ("machine.recovery", "        give_up(w, call)\n", "        put(w, call.but(status=CallStatus.READY))\n"),
    (
        "machine.resting",
        'return f"{w.s.session_id}/{call.call_id}"',
        'return f"{w.s.session_id}/{call.call_id}/{call.attempt}"',
    ),
    ("machine.resting", 'return f"{w.s.session_id}/{call.call_id}"', "return call.call_id"),
    ("machine.resting", "    put(w, call.but(status=CallStatus.RUNNING, attempt=call.attempt + 1))\n", ""),
    ("machine.resting", "    put(w, call.but(status=CallStatus.RUNNING, ", "    put(w, call.but("),
    ("machine.tool_runs", "    put(w, call.but(status=CallStatus.RUNNING))\n", ""),
    ("machine.tool_runs", "    w.set_timer(call_timer(call_id), w.at + int(call.spec.timeout * 1000))\n", ""),
    (
        "machine.tool_runs",
        "        case Unknown():\n            give_up(w, call)\n",
        "        case Unknown():\n            again(w, call)\n",
    ),
    ("machine.tool_runs", "            put(w, call.but(status=CallStatus.READY))\n", "            again(w, call)\n"),
    ("machine.tool_runs", "    w.emit(ToolUnknown(call.call_id, call.name))\n", ""),
    (
        "machine.tool_runs",
        '    remember(w, doubt_about(w, call))\n    take_answer(w, call, err(f"the p',
        '    take_answer(w, call, err(f"the p',
    ),
    ("machine.tool_runs", "if returned.jobs is not None:", "if False:"),
    # at rest until somebody decides
    ("machine.recovery", "        if s.paused:\n            wake(w)\n", "        pass\n"),
    ("machine.recovery", "elif s.turn is not None and s.turn.ended is None:", "elif s.turn is not None:"),
    ("machine.recovery", " if waits else ()), *s.paused), ()", " if waits else ())), ()"),
    ("machine.recovery", "        _pause(w)\n", "        pass\n"),
    ("machine.recovery", "    if w.s.paused:\n        wake(w)\n", "    pass\n"),
    ("machine.recovery", "    if w.s.paused:\n        wake(w)\n", "    wake(w)\n"),
    (
        "machine.recovery",
        "    for suspension in s.suspended:\n        w.clear_timer",
        "    for suspension in ():\n        w.clear_timer",
    ),
    ("machine.recovery", "    w.clear_timer(RETRY_TIMER)\n", ""),
    ("machine.recovery", '*((Due("request"),) if waits else ()), ', ""),
    ("machine.recovery", "s.paused, s.due = (*s.due, ", "s.paused, s.due = (*(), "),
    ("machine.recovery", "    rest(w)\n", "    s.phase = Phase.IDLE\n"),
    ("machine.resting", "s.due, s.paused = (*s.paused, *s.due), ()", "s.paused = ()"),
    ("machine.resting", "s.due, s.paused = (*s.paused, *s.due), ()", "s.due = (*s.paused, *s.due)"),
    ("machine.endings", "    w.s.due = w.s.paused = ()\n", "    w.s.due = ()\n"),
)
"""Rules for a session that comes back after a restart."""

REPLAYING: Final = (
    ("machine.step", "if again.events != tuple(events):", "if False:"),
    ("machine.step", "if judge.left:", "if False:"),
    ("machine.step", "if began is not None:", "if False:"),
)
"""Rules for rebuilding a session from its records."""

LEFT_BEHIND: Final = (
    *("seq=0", "changes=()", "queue=()", "steering=()", "taking=None", "request=None", "compaction=None"),
    *("compact_wanted=None", "suspended=()", "quarantined=()", "lingering=()", "subagents=()"),
    *("timers=()", "paused=()", "jobs=()", "asleep=False", "stopping=None", "crashed=None"),
)
"""Fields of the state that a fork does not take over from its origin. `due` is left out: it is empty between steps."""

BRANCHING: Final = (
    *(("machine.forking", f"        {field},\n", "") for field in LEFT_BEHIND),
    ("machine.forking", "setup=origin.setup.but(path=(), ", "setup=origin.setup.but("),
    ("machine.forking", "but(path=(), shares=False)", "but(path=())"),
    ("machine.forking", "        fail_start(w, problem)\n        return\n", "        pass\n"),
    ("machine.forking", "    s.opening = False\n", ""),
    ("machine.forking", "    change_tools(w, branched)\n", ""),
    ("machine.forking", "            _settle(w, call)\n", "            pass\n"),
    ("machine.forking", "    if not waiting:\n        _drop_turn(w)\n        return\n", ""),
    ("machine.forking", "    close_batch(w)\n", ""),
    ("machine.forking", "    s.turn = None\n", ""),
    ("machine.forking", "    s.round = 0\n", ""),
    ("machine.forking", "    if call.done:\n        return\n", ""),
    ("machine.forking", "    if call.started_at:\n", "    if True:\n"),
    ("machine.forking", "    if call.started_at:\n", "    if False:\n"),
    ("machine.forking", "        remember(w, doubt_about(w, call))\n", ""),
    ("machine.forking", "old.but(approval_id=", "old.but(hint="),
    (
        "machine.forking",
        "            w.set_timer(hold_timer(hold.approval_id), hold.expires_at)\n",
        "            pass\n",
    ),
    ("machine.forking", "call.question.but(ref=", "call.question.but(question="),
)
"""Rules for the first step of a fork."""

SLEEPING: Final = (
    ("machine.actor_notes", "    if can_sleep(w.s):\n", "    if True:\n"),
    ("machine.actor_notes", "        w.s.asleep = True\n", ""),
    ("machine.actor_notes", "    if w.s.asleep:\n", "    if True:\n"),
    ("machine.actor_notes", "        w.s.asleep = False\n", ""),
    ("machine.actor_notes", "state.phase is Phase.IDLE and ", ""),
    ("machine.actor_notes", "busy = state.at_work or ", "busy = "),
    ("machine.actor_notes", "or state.quarantined ", ""),
    ("machine.actor_notes", "or state.queue ", ""),
    ("machine.actor_notes", "or state.changes ", ""),
    ("machine.actor_notes", "or state.paused", ""),
    ("machine.actor_notes", "(state.asleep or busy", "(busy"),
    ("machine.actor_notes", " or state.setup.path)", ")"),
    ("vocabulary.state", "bool(self.lingering or goes_on", "bool(goes_on"),
    ("vocabulary.state", "not self.paused and (self.suspended", "(self.suspended"),
    ("vocabulary.state", " or any(not agent.rests for agent in self.subagents))", ")"),
    ("vocabulary.state", "any(not agent.rests for agent in self.subagents)", "self.subagents"),
    ("machine.actor_notes", "    w.s.asleep = False\n    w.emit(", "    w.emit("),
    ("machine.actor_notes", "    w.s.crashed = crashed.cause\n", ""),
)
"""Rules for sleep, and for what is kept of crashes."""

SUBAGENTS: Final = (
    # what they do, and use
    ("machine.subagents", "    s.subagents = (*s.subagents, Subagent(", "    _ = (*s.subagents, Subagent("),
    ("machine.subagents", "    if s.stopping is not None:\n        stop_subagents(w)\n", ""),
    ("machine.subagents", "found is None or reported.heard < found.heard:", "found is None:"),
    ("machine.subagents", "        w.count(reported.used.minus(found.used))\n", "        w.count(reported.used)\n"),
    ("machine.subagents", "        w.count(reported.used.minus(found.used))\n", "        pass\n"),
    ("machine.subagents", "heard=reported.heard, used=reported.used)", "heard=reported.heard)"),
    ("machine.subagents", "heard=reported.heard, used=reported.used)", "used=reported.used)"),
    ("machine.subagents", "return event if isinstance(event, FOR_PEOPLE) else", "return"),
    ("machine.subagents", "    w.s.elsewhere = elsewhere.used\n", "    pass\n"),
    # their end
    ("machine.subagents", "if other is not found)", ")"),
    ("machine.subagents", "if found.background and s.stopping is None:", "if found.background:"),
    ("machine.subagents", "if found.background and s.stopping is None:", "if s.stopping is None:"),
    ("machine.subagents", "        w.clear_timer(call_timer(call.call_id))\n", ""),
    ("machine.subagents", "        take_answer(w, call, answer)\n", "        pass\n"),
    ("machine.subagents", "        closed_late(w, found.call_id, answer, answered=True)\n", "        pass\n"),
    ("machine.subagents", "closed_late(w, found.call_id, answer, answered=True)\n    _go_on_stopping(w)\n", "pass\n"),
    ("machine.subagents", "not s.subagents and s.turn is None and not s.due", "s.turn is None and not s.due"),
    (
        "machine.endings",
        '        kill_lingering(w, sent.reason or "user")\n        stop_subagents(w)\n',
        "        pass\n",
    ),
    (
        "machine.endings",
        '        kill_lingering(w, sent.reason or "user")\n        stop_subagents(w)\n',
        "        stop_subagents(w)\n",
    ),
    ("machine.prompts", "        if s.subagents:  # they", "        if False:  # they"),
    ("machine.prompts", "            stop_subagents(w)\n", "            pass\n"),
    # coming back with their parent
    ("machine.subagents", "kept = () if s.stopping is not None else ", "kept = "),
    ("machine.subagents", "    s.subagents = kept\n", ""),
    ("machine.subagents", "        w.ask(ResumeSubagents(back))\n", "        pass\n"),
    ("machine.subagents", "if agent.background or not (pause or agent.rests))", ")"),
    ("machine.subagents", "not (pause or agent.rests))", "not pause)"),
    ("machine.subagents", "            put(w, call.but(status=CallStatus.RUNNING))  #", "            pass  #"),
    ("machine.subagents", "not (agent.rests or call.status is", "not (call.status is"),
    (
        "machine.subagents",
        "        w.emit(SubagentEnd(agent.call_id, agent.child, why, is_error=True))\n",
        "        pass\n",
    ),
    ("machine.subagents", "    if lost:\n        _go_on_stopping(w)\n", ""),
    ("machine.subagents", "        return agent.background\n", "        return True\n"),
    ("machine.subagents", "        return agent.background\n", "        return False\n"),
    # resting with their turn
    ("machine.resting", "    w.clear_timer(timer)\n", ""),
    ("machine.resting", "rests=True, left=agent.left if due is None else max(0, due - w.at))", "rests=True)"),
    ("machine.resting", "    put(w, call.but(status=CallStatus.SETTLING))\n", ""),
    ("machine.resting", "    w.ask(ResumeSubagents(tuple(agent.child for agent in resting)))\n", ""),
    ("machine.resting", "if agent.left is not None and not agent.waits:", "if agent.left is not None:"),
    ("machine.resting", "rests=False, left=agent.left if agent.waits else None)", "rests=False)"),
    ("machine.endings", "    let_go_of_resting(w)\n", ""),
    (
        "machine.endings",
        "for agent in w.s.subagents if not agent.rests)\n    if there",
        "for agent in w.s.subagents)\n    if there",
    ),
    ("machine.prompts", "        let_go_of_resting(w)\n", ""),
    ("machine.subagents", "attached is not None and attached.revision == call.revision", "attached is not None"),
    # waiting for a person
    ("machine.subagents", "due = None if agent.background else dict", "due = dict"),
    ("machine.subagents", "        w.clear_timer(timer)\n", ""),
    ("machine.subagents", "waits=True, left=left)", "waits=True)"),
    ("machine.subagents", "    if w.s.waits:\n        stop_clock(w)\n", ""),
    ("machine.subagents", "    if w.s.waits:\n", "    if True:\n"),
    ("machine.subagents", "    if agent.left is not None and (", "    if ("),
    ("machine.subagents", "(runs or any(stray.call_id == agent.call_id for stray in s.lingering))", "runs"),
    ("machine.subagents", "agent.left is not None and (runs or any(", "agent.left is not None and (True or any("),
    ("machine.subagents", "waits=False, left=None))\n    _start_clock(w)\n", "waits=False, left=None))\n"),
    ("machine.subagents", "    _put(w, agent.but(waits=False, left=None))\n", "    _put(w, agent.but(left=None))\n"),
    ("machine.tool_runs", "    elif s.subagents and s.waits:\n        stop_clock(w)\n", ""),
    ("vocabulary.state", "agent.waits and not agent.background and agent", "agent.waits and agent"),
    ("machine.turn_clock", "        w.clear_timer(TURN_TIMER)\n", ""),
    ("machine.turn_clock", "        w.set_timer(TURN_TIMER, w.at + s.turn.deadline_left)\n", ""),
    ("machine.turn_clock", "        s.turn = s.turn.but(deadline_left=None)\n", ""),
)
"""Rules for a session with sub-agents."""

EDITS_OF_LIVES: Final = (*COMING_BACK, *REPLAYING, *BRANCHING, *SLEEPING, *SUBAGENTS)
