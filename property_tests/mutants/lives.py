"""What keeps work from being lost or done twice when sessions end and begin, each the other way round."""

from __future__ import annotations

from typing import Final

COMING_BACK: Final = (
    # the code that there is now
    ("recovering", "    if problem is not None:\n        w.refuse(problem)\n        return\n", ""),
    ("recovering", "if ruling.verdict is not Verdict.PASS:", "if False:"),
    ("recovering", "if old is not None and old.version == seat.version:", "if old is not None:"),
    ("recovering", "if old is not None and old.version == seat.version:", "if False:"),
    ("recovering", "s.seats, s.plugin_states = seats, tuple(states)", "s.plugin_states = tuple(states)"),
    ("recovering", "        _take_new_places(w)\n", "        pass\n"),
    ("recovering", "waiting.gathered.but(replaced_at=to)", "waiting.gathered"),
    ("recovering", "_moved(suspension, places[suspension.plugin])", "suspension"),
    (
        "recovering",
        "            put(w, call.but(hold=call.hold.but(place=START",
        "            _ = (w, call.but(hold=call.hold.but(place=START",
    ),
    ("recovering", "s.tools.items() if name not in returned.gone", "s.tools.items()"),
    ("recovering", "left |= {spec.name: Attached", "_ = {spec.name: Attached"),
    ("recovering", "    change_tools(w, returned)\n", ""),
    ("recovering", "    _drop_changes(w, returned.without)\n", ""),
    ("recovering", "    _tell_of_lost(w, returned.lost)\n", ""),
    ("recovering", "    s.jobs = ()\n", ""),
    # what was under way
    ("recovering", "    s.asleep = False\n", ""),
    ("recovering", "        w.ask(SetTimer(timer, at))\n", "        pass\n"),
    ("recovering", "    _end_strays(w)\n", ""),
    ("recovering", "s.lingering, s.quarantined = s.lingering, (), ()", "s.lingering = s.lingering, ()"),
    ("recovering", "    w.clear_timer(GRACE_TIMER)\n", ""),
    ("recovering", "        w.clear_timer(call_timer(stray.call_id))\n", ""),
    ("recovering", "        remember(w, stray.doubt)\n", ""),
    ("recovering", "    _settle(w, pause=returned.pause)\n", ""),
    ("recovering", "        s.request = None\n", ""),
    ("recovering", '        w.next("request")\n', ""),
    ("recovering", "s.compaction = s.compaction.but(running=False)", "s.compaction = None"),
    ("recovering", '        w.next("before_compact")\n', ""),
    ("recovering", '        w.later("advance_batch")\n', "        pass\n"),
    ("recovering", "suspension.but(asked=False) for", "suspension for"),
    ("recovering", '            w.next("ask_again", suspension.ask_id)\n', "            pass\n"),
    ("agenda", "attached is None or attached.spec.effect not in running.CAN_RUN_AGAIN", "attached is None"),
    ("agenda", "        request = _screened(w, waiting.plugin, request, ask_id)\n", "        pass\n"),
    ("agenda", "    s.suspended = tuple(other.but(asked=True)", "    _ = tuple(other.but(asked=True)"),
    # calls that ran
    ("recovering", "        again(w, call)\n        return\n", "        pass\n"),
    ("recovering", "== call.call_id and not agent.background for", "== call.call_id for"),
    ("recovering", "if effect in CAN_RUN_AGAIN and call.attempt < MAX_RUNS:", "if effect in CAN_RUN_AGAIN:"),
    ("recovering", "if effect in CAN_RUN_AGAIN and call.attempt < MAX_RUNS:", "if call.attempt < MAX_RUNS:"),
    ("recovering", "MAX_RUNS = 3", "MAX_RUNS = 2"),
    ("recovering", "MAX_RUNS = 3", "MAX_RUNS = 4"),
    ("recovering", "status=CallStatus.READY, attempt=call.attempt + 1)", "status=CallStatus.READY)"),
    ("recovering", "elif can_be_probed(call.spec) and is_there:", "elif is_there:"),
    ("recovering", "elif can_be_probed(call.spec) and is_there:", "elif can_be_probed(call.spec):"),
    ("calls", ' or "agents" in spec.requires)', ")"),
    ("recovering", "attached is not None and attached.revision == call.revision\n", "attached is not None\n"),
    ("recovering", "        give_up(w, call)\n", "        put(w, call.but(status=CallStatus.READY))\n"),
    (
        "resting",
        'return f"{w.s.session_id}/{call.call_id}"',
        'return f"{w.s.session_id}/{call.call_id}/{call.attempt}"',
    ),
    ("resting", 'return f"{w.s.session_id}/{call.call_id}"', "return call.call_id"),
    ("resting", "    put(w, call.but(status=CallStatus.RUNNING, attempt=call.attempt + 1))\n", ""),
    ("resting", "    put(w, call.but(status=CallStatus.RUNNING, ", "    put(w, call.but("),
    ("running", "    put(w, call.but(status=CallStatus.RUNNING))\n", ""),
    ("running", "    w.set_timer(call_timer(call_id), w.at + int(call.spec.timeout * 1000))\n", ""),
    (
        "running",
        "        case Unknown():\n            give_up(w, call)\n",
        "        case Unknown():\n            again(w, call)\n",
    ),
    ("running", "            put(w, call.but(status=CallStatus.READY))\n", "            again(w, call)\n"),
    ("running", "    w.emit(ToolUnknown(call.call_id, call.name))\n", ""),
    (
        "running",
        '    remember(w, doubt_about(w, call))\n    take_answer(w, call, err(f"the p',
        '    take_answer(w, call, err(f"the p',
    ),
    ("running", "if returned.jobs is not None:", "if False:"),
    # at rest until somebody decides
    ("recovering", "        if s.paused:\n            wake(w)\n", "        pass\n"),
    ("recovering", "elif s.turn is not None and s.turn.ended is None:", "elif s.turn is not None:"),
    ("recovering", " if waits else ()), *s.paused), ()", " if waits else ())), ()"),
    ("recovering", "        _pause(w)\n", "        pass\n"),
    ("recovering", "    if w.s.paused:\n        wake(w)\n", "    pass\n"),
    ("recovering", "    if w.s.paused:\n        wake(w)\n", "    wake(w)\n"),
    (
        "recovering",
        "    for suspension in s.suspended:\n        w.clear_timer",
        "    for suspension in ():\n        w.clear_timer",
    ),
    ("recovering", "    w.clear_timer(RETRY_TIMER)\n", ""),
    ("recovering", '*((Due("request"),) if waits else ()), ', ""),
    ("recovering", "s.paused, s.due = (*s.due, ", "s.paused, s.due = (*(), "),
    ("recovering", "    rest(w)\n", "    s.phase = Phase.IDLE\n"),
    ("resting", "s.due, s.paused = (*s.paused, *s.due), ()", "s.paused = ()"),
    ("resting", "s.due, s.paused = (*s.paused, *s.due), ()", "s.due = (*s.paused, *s.due)"),
    ("ending", "    w.s.due = w.s.paused = ()\n", "    w.s.due = ()\n"),
)
"""How a session comes back."""

REPLAYING: Final = (
    ("rebuilding", "if again.events != tuple(events):", "if False:"),
    ("rebuilding", "if judge.left:", "if False:"),
    ("rebuilding", "if began is not None:", "if False:"),
)
"""How it is rebuilt from its records."""

LEFT_BEHIND: Final = (
    *("seq=0", "changes=()", "queue=()", "steering=()", "taking=None", "request=None", "compaction=None"),
    *("compact_wanted=None", "suspended=()", "quarantined=()", "lingering=()", "subagents=()"),
    *("timers=()", "paused=()", "jobs=()", "asleep=False", "stopping=None", "crashed=None"),
)
"""What a fork does not take over from its origin; that nothing is due between two steps is no choice of it."""

BRANCHING: Final = (
    *(("forking", f"        {field},\n", "") for field in LEFT_BEHIND),
    ("forking", "setup=origin.setup.but(path=(), ", "setup=origin.setup.but("),
    ("forking", "but(path=(), shares=False)", "but(path=())"),
    ("forking", "        fail_start(w, problem)\n        return\n", "        pass\n"),
    ("forking", "    s.opening = False\n", ""),
    ("forking", "    change_tools(w, branched)\n", ""),
    ("forking", "            _settle(w, call)\n", "            pass\n"),
    ("forking", "    if not waiting:\n        _drop_turn(w)\n        return\n", ""),
    ("forking", "    close_batch(w)\n", ""),
    ("forking", "    s.turn = None\n", ""),
    ("forking", "    s.round = 0\n", ""),
    ("forking", "    if call.done:\n        return\n", ""),
    ("forking", "    if call.started_at:\n", "    if True:\n"),
    ("forking", "    if call.started_at:\n", "    if False:\n"),
    ("forking", "        remember(w, doubt_about(w, call))\n", ""),
    ("forking", "old.but(approval_id=", "old.but(hint="),
    ("forking", "            w.set_timer(hold_timer(hold.approval_id), hold.expires_at)\n", "            pass\n"),
    ("forking", "call.question.but(ref=", "call.question.but(question="),
)
"""How a session begins with the past of another one."""

SLEEPING: Final = (
    ("sleeping", "    if can_sleep(w.s):\n", "    if True:\n"),
    ("sleeping", "        w.s.asleep = True\n", ""),
    ("sleeping", "    if w.s.asleep:\n", "    if True:\n"),
    ("sleeping", "        w.s.asleep = False\n", ""),
    ("sleeping", "state.phase is Phase.IDLE and ", ""),
    ("sleeping", "busy = state.at_work or ", "busy = "),
    ("sleeping", "or state.quarantined ", ""),
    ("sleeping", "or state.queue ", ""),
    ("sleeping", "or state.changes ", ""),
    ("sleeping", "or state.paused", ""),
    ("sleeping", "(state.asleep or busy", "(busy"),
    ("sleeping", " or state.setup.path)", ")"),
    ("state", "bool(self.lingering or goes_on", "bool(goes_on"),
    ("state", "not self.paused and (self.suspended", "(self.suspended"),
    ("state", " or any(not agent.rests for agent in self.subagents))", ")"),
    ("state", "any(not agent.rests for agent in self.subagents)", "self.subagents"),
    ("crashing", "    w.s.asleep = False\n", ""),
    ("crashing", "    w.s.crashed = crashed.cause\n", ""),
)
"""How a session sleeps, and what is remembered of crashes."""

SUBAGENTS: Final = (
    # what they do, and use
    ("subagents", "    s.subagents = (*s.subagents, Subagent(", "    _ = (*s.subagents, Subagent("),
    ("subagents", "    if s.stopping is not None:\n        stop_subagents(w)\n", ""),
    ("subagents", "found is None or reported.heard < found.heard:", "found is None:"),
    ("subagents", "        w.count(reported.used.minus(found.used))\n", "        w.count(reported.used)\n"),
    ("subagents", "        w.count(reported.used.minus(found.used))\n", "        pass\n"),
    ("subagents", "heard=reported.heard, used=reported.used)", "heard=reported.heard)"),
    ("subagents", "heard=reported.heard, used=reported.used)", "used=reported.used)"),
    ("subagents", "return event if isinstance(event, FOR_PEOPLE) else", "return"),
    ("subagents", "    w.s.elsewhere = elsewhere.used\n", "    pass\n"),
    # their end
    ("subagents", "if other is not found)", ")"),
    ("subagents", "if found.background and s.stopping is None:", "if found.background:"),
    ("subagents", "if found.background and s.stopping is None:", "if s.stopping is None:"),
    ("subagents", "        w.clear_timer(call_timer(call.call_id))\n", ""),
    ("subagents", "        take_answer(w, call, answer)\n", "        pass\n"),
    ("subagents", "        closed_late(w, found.call_id, answer, answered=True)\n", "        pass\n"),
    ("subagents", "closed_late(w, found.call_id, answer, answered=True)\n    _go_on_stopping(w)\n", "pass\n"),
    ("subagents", "not s.subagents and s.turn is None and not s.due", "s.turn is None and not s.due"),
    ("ending", '        kill_lingering(w, sent.reason or "user")\n        stop_subagents(w)\n', "        pass\n"),
    (
        "ending",
        '        kill_lingering(w, sent.reason or "user")\n        stop_subagents(w)\n',
        "        stop_subagents(w)\n",
    ),
    ("prompting", "        if s.subagents:  # they", "        if False:  # they"),
    ("prompting", "            stop_subagents(w)\n", "            pass\n"),
    # coming back with their parent
    ("subagents", "kept = () if s.stopping is not None else ", "kept = "),
    ("subagents", "    s.subagents = kept\n", ""),
    ("subagents", "        w.ask(ResumeSubagents(back))\n", "        pass\n"),
    ("subagents", "if agent.background or not (pause or agent.rests))", ")"),
    ("subagents", "not (pause or agent.rests))", "not pause)"),
    ("subagents", "            put(w, call.but(status=CallStatus.RUNNING))  #", "            pass  #"),
    ("subagents", "not (agent.rests or call.status is", "not (call.status is"),
    ("subagents", "        w.emit(SubagentEnd(agent.call_id, agent.child, why, is_error=True))\n", "        pass\n"),
    ("subagents", "    if lost:\n        _go_on_stopping(w)\n", ""),
    ("subagents", "        return agent.background\n", "        return True\n"),
    ("subagents", "        return agent.background\n", "        return False\n"),
    # resting with their turn
    ("resting", "    w.clear_timer(timer)\n", ""),
    ("resting", "rests=True, left=agent.left if due is None else max(0, due - w.at))", "rests=True)"),
    ("resting", "    put(w, call.but(status=CallStatus.SETTLING))\n", ""),
    ("resting", "    w.ask(ResumeSubagents(tuple(agent.child for agent in resting)))\n", ""),
    ("resting", "if agent.left is not None and not agent.waits:", "if agent.left is not None:"),
    ("resting", "rests=False, left=agent.left if agent.waits else None)", "rests=False)"),
    ("ending", "    let_go_of_resting(w)\n", ""),
    (
        "ending",
        "for agent in w.s.subagents if not agent.rests)\n    if there",
        "for agent in w.s.subagents)\n    if there",
    ),
    ("prompting", "        let_go_of_resting(w)\n", ""),
    ("subagents", "attached is not None and attached.revision == call.revision", "attached is not None"),
    # waiting for a person
    ("subagents", "due = None if agent.background else dict", "due = dict"),
    ("subagents", "        w.clear_timer(timer)\n", ""),
    ("subagents", "waits=True, left=left)", "waits=True)"),
    ("subagents", "    if w.s.waits:\n        stop_clock(w)\n", ""),
    ("subagents", "    if w.s.waits:\n", "    if True:\n"),
    ("subagents", "    if agent.left is not None and (", "    if ("),
    ("subagents", "(runs or any(stray.call_id == agent.call_id for stray in s.lingering))", "runs"),
    ("subagents", "agent.left is not None and (runs or any(", "agent.left is not None and (True or any("),
    ("subagents", "waits=False, left=None))\n    _start_clock(w)\n", "waits=False, left=None))\n"),
    ("subagents", "    _put(w, agent.but(waits=False, left=None))\n", "    _put(w, agent.but(left=None))\n"),
    ("running", "    elif s.subagents and s.waits:\n        stop_clock(w)\n", ""),
    ("state", "agent.waits and not agent.background and agent", "agent.waits and agent"),
    ("clocks", "        w.clear_timer(TURN_TIMER)\n", ""),
    ("clocks", "        w.set_timer(TURN_TIMER, w.at + s.turn.deadline_left)\n", ""),
    ("clocks", "        s.turn = s.turn.but(deadline_left=None)\n", ""),
)
"""How a parent sees its sub-agents."""

EDITS_OF_LIVES: Final = (*COMING_BACK, *REPLAYING, *BRANCHING, *SLEEPING, *SUBAGENTS)
