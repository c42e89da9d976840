"""What a reader has broken in the shell, and in supervision."""

from __future__ import annotations

from typing import Final

from agentrail.core import supervision_rules
from agentrail.runtime.actor import journal_log
from agentrail.runtime.actor.journal_log import JournalLog
from agentrail.runtime.actor.session import Session
from agentrail.runtime.inbox.command_results import CommandResults
from agentrail.runtime.inbox.mailbox import Mailbox
from agentrail.runtime.shared.provider_limits import ProviderLimits
from property_tests.planted.change import Change

# ruff: noqa: SLF001 - private parts are what is broken here

CHANGES: Final = (
    Change(
        "answers_at_hand_alone",
        "answers are not looked up in the journal",
        CommandResults.find,
        "await self._journal.answer(self._session_id, command)",
        "None",
        "safety",
    ),
    Change(
        "performed_too_early",
        "tools start before the record is written",
        Session._make_step,
        "        self.effect_runner.stop_early(outcome.effects)\n",
        "        for effect in outcome.effects:\n"
        "            if type(effect).__name__ == 'StartCall':\n"
        "                self.effect_runner.perform(effect)\n"
        "        self.effect_runner.stop_early(outcome.effects)\n",
        "safety",
    ),
    Change(
        "record_behind_a_snapshot_left_out",
        "the first record behind a snapshot is passed over",
        journal_log.rebuild_state,
        "    while True:\n",
        "    records = records if snapshot is None else records[1:]\n    while True:\n",
        "safety",
    ),
    Change(
        "snapshot_under_the_wrong_number",
        "a snapshot is kept as of the record before",
        JournalLog.keep,
        "snapshot_of(state, number, stem)",
        "snapshot_of(state, number - 1, stem)",
        "safety",
    ),
    Change(
        "sleep_forgets_timers",
        "the timers of a session that sleeps do not wake it",
        Session._fall_asleep,
        'self.shared.timers.clear((self.session_id, "sleep"))',
        "self.shared.timers.clear_all(self.session_id)",
        "safety",
    ),
    Change(
        "results_before_control",
        "results are read before control",
        Mailbox._next,
        "urgent = control if control or self.suspended else self._results",
        "urgent = self._results or control",
        "mailbox",
    ),
    Change(
        "put_back_at_the_end",
        "the message in hand goes to the end of its lane when the actor crashes",
        Mailbox.put_back,
        "self._lane[:0] = letter.parts or (letter,)",
        "self._lane += letter.parts or (letter,)",
        "mailbox",
    ),
    Change(
        "elders_started_again",
        "those who were started before the one that crashed are started again",
        supervision_rules._group,
        "names[names.index(key) :]",
        "names[: names.index(key) + 1]",
        "rules",
    ),
    Change(
        "transient_lives_for_ever",
        "a session that has ended is started again",
        supervision_rules.is_final,
        'facts.restart == "transient" and',
        'facts.restart == "never" and',
        "rules",
    ),
    Change(
        "slot_of_a_failed_request_lost",
        "a request that fails keeps its place in the lane of its provider",
        ProviderLimits._in_turn,
        "        finally:\n            lane.release(ticket, tokens)\n",
        "        finally:\n            if tokens is not None:\n                lane.release(ticket, tokens)\n",
        "limits",
    ),
)
"""Which functions say something else, and what finds it."""
