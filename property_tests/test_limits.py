"""Tests of the tests at limits: bugs that are planted there, one at a time, are noticed by the scene or test named."""

# ruff: noqa: SLF001 - private parts are what is broken here

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from functools import partial
from importlib import import_module
from inspect import isawaitable
from types import FunctionType
from typing import Final, cast

import pytest
from attrs import frozen

from agentrail.core import supervision_rules
from agentrail.errors import JournalFull
from agentrail.runtime.actor import journal_log
from agentrail.runtime.events import bus, subscription
from agentrail.runtime.inbox import command_results, mailbox
from agentrail.runtime.shared import admission, clock, provider_limits, threads
from agentrail.runtime.supervision import supervisor, tree
from agentrail.runtime.supervision.subagents import subagents
from agentrail.runtime.work import background_jobs
from property_tests.planted import Planting
from tests.limits import SCENES, SIDES, Scene, adapters, machine, mailboxes, shell, test_runtime, tools
from tests.profiles import CAMPAIGN
from tests.runtime.conftest import run_in_virtual_time

EACH: Final = 1 if CAMPAIGN else 3
"""Of so many edits and scenes one is tried."""

ENTERED: Final = (adapters, machine, mailboxes, shell, tools)
"""The modules of scenes."""


@frozen
class Edit:
    """A mistake at a limit, made by one replacement in the source of a function."""

    says: str
    """What the changed function does wrong, in words."""
    where: object
    """The function whose source is changed."""
    old: str
    """The text in its source that is replaced."""
    new: str
    """The text that replaces it."""
    by: tuple[str, ...]
    """The scenes and tests that must each notice the mistake."""

    def plant(self, planting: Planting) -> None:
        planting.rewrite(cast("FunctionType", self.where), self.old, self.new)


EDITS: Final = (
    # Kept
    Edit(
        "a snapshot is kept at every record",
        journal_log.Records.write,
        "self.head >= self._kept + SNAPSHOT_EVERY",
        "self.head >= self._kept + 1",
        ("records_without_a_snapshot",),
    ),
    Edit(
        "behind the first snapshot one is kept at every record",
        journal_log.Records.write,
        "            self._kept = self.head\n",
        "",
        ("records_without_a_snapshot",),
    ),
    Edit(
        "answers are kept without limit",
        command_results.Answers.remember,
        "if len(self._kept) > MAX_KEPT:",
        "if False:",
        ("answers_at_hand",),
    ),
    Edit(
        "answers that are not at hand any more count as never given",
        command_results.Answers.remember,
        "            self.are_all_kept = False\n",
        "",
        ("answers_at_hand",),
    ),
    Edit(
        "results of tasks are kept without limit",
        subagents.Subagents._keep,
        "if len(self._ended) > MAX_ENDED_TASKS:",
        "if False:",
        ("tasks_that_have_ended",),
    ),
    Edit(
        "reports of crashes are kept without limit",
        tree.Tree.__init__,
        "deque(maxlen=MAX_REPORTS)",
        "deque()",
        ("reports_of_crashes",),
    ),
    Edit(
        "sessions that are set aside are kept without limit",
        tree.Tree.quarantine,
        "if len(self._aside) > MAX_QUARANTINED:",
        "if False:",
        ("sessions_set_aside",),
    ),
    Edit(
        "jobs that have ended are kept without limit",
        background_jobs.BackgroundJobs.start,
        "            del self._jobs[old.job_id]\n",
        "            pass\n",
        ("jobs_that_can_be_read",),
    ),
    Edit(
        "jobs that have ended count as running",
        background_jobs.BackgroundJobs.start,
        "sum(1 for job in self._jobs.values() if not job.has_ended)",
        "len(self._jobs)",
        ("jobs_that_run",),
    ),
    Edit(
        "timers that were replaced pile up",
        clock.Timers.set,
        "if len(self._heap) > self._limit:",
        "if False:",
        ("timers_that_were_replaced",),
    ),
    Edit(
        "lanes that rest are kept without limit",
        provider_limits.ProviderLimits._lane,
        "if len(self._lanes) >= MAX_RESTING:",
        "if False:",
        ("lanes_that_rest",),
    ),
    Edit(
        "that there is no space for a snapshot ends the session",
        journal_log.Records.keep,
        "        except (JournalUnavailable, Fenced):\n",
        "        except JournalFull:\n            raise\n        except (JournalUnavailable, Fenced):\n",
        ("test_a_snapshot_that_cannot_be_kept_ends_nobody",),
    ),
    # Restarts
    Edit(
        "the restarts of a supervisor count over its own restart",
        supervisor.SupervisorNode.run,
        "        self._restarts = ()\n",
        "",
        ("restarts_of_services_of_a_supervisor_that_was_started_again",),
    ),
    Edit(
        "restarts count for ever",
        supervision_rules._recent,
        "for time in times if time >= at - policy.period",
        "for time in times",
        ("restarts_behind_older_ones_that_count_no_more", "seconds_that_a_restart_counts"),
    ),
    Edit(
        "crashes on another message count too",
        supervision_rules._count_crash,
        "facts.crashes + 1 if ending.input == facts.input else 1",
        "facts.crashes + 1",
        ("crashes_on_one_message_behind_those_on_another",),
    ),
    Edit(
        "a crash on no message resets nothing",
        supervision_rules._count_crash,
        'return facts.but(input="", crashes=0)',
        "return facts",
        ("crashes_on_one_message_behind_one_on_none",),
    ),
    # The mailbox
    Edit(
        "the bytes of a letter that is received are not given back",
        mailbox.Mailbox._take,
        "return self._take_user(0)",
        "self._lane = self._user\n            return self._user.pop(0)",
        ("bytes_of_letters_that_were_received", "bytes_of_a_sender_that_waits"),
    ),
    Edit(
        "the bytes of letters that an abort clears are not given back",
        mailbox.Mailbox._cleared,
        "return self._take_user(place)",
        "return self._user.pop(place)",
        ("bytes_of_letters_that_were_cleared",),
    ),
    Edit(
        "the bytes of no letter are given back",
        mailbox.Mailbox._take_user,
        "        self._bytes -= letter.size\n",
        "",
        ("bytes_of_letters_that_were_received", "bytes_of_letters_that_were_cleared"),
    ),
    Edit(
        "the bytes of a letter that is put back do not count",
        mailbox.Mailbox.put_back,
        "            self._bytes += letter.size\n",
        "            pass\n",
        ("bytes_of_a_letter_that_was_put_back",),
    ),
    Edit(
        "the bytes of a result that is put back count among those of the user",
        mailbox.Mailbox.put_back,
        "        if self._lane is self._user:\n",
        "        if True:\n",
        ("bytes_of_a_result_that_was_put_back",),
    ),
    Edit(
        "of what callers say beside the results, only the messages are counted",
        mailbox.Mailbox.post_steering,
        "_have_room(len(sizes), sum(sizes), letter.size)",
        "_have_room(len(sizes), 0, 0)",
        ("bytes_beside_the_results",),
    ),
    Edit(
        "results count among what callers say beside them",
        mailbox.Mailbox.post_steering,
        "for waiting in self._results if waiting.slots",
        "for waiting in self._results",
        ("said_beside_the_results",),
    ),
    Edit(
        "whoever waits for room is let in one too early",
        mailbox.Mailbox._make_room,
        "if not self._has_room(letter.size):",
        "if not self._has_room(0):",
        ("bytes_of_a_sender_that_waits",),
    ),
    Edit(
        "the gate lets all in that wait",
        admission.Gate.run,
        "min(int(self._width), len(self._waiting))",
        "len(self._waiting)",
        ("sessions_that_are_admitted_in_a_later_pass",),
    ),
    # Subscribers
    Edit(
        "a delta is merged over a durable event that a subscriber has not asked for",
        subscription.Subscription._merged,
        " or last.seq != envelope.seq",
        "",
        ("test_deltas_on_both_sides_of_a_durable_event_stay_apart",),
    ),
    Edit(
        "merged deltas grow without limit",
        subscription.Subscription._merged,
        "if len(last.event.delta) >= MAX_MERGED:",
        "if False:",
        ("delta_that_takes_in_another",),
    ),
    Edit(
        "deltas for who comes late are kept without limit",
        bus.Bus.publish_ephemeral,
        "if self._buffered > self._buffer_size:",
        "if False:",
        ("deltas_for_who_comes_late",),
    ),
    # Sub-agents and threads
    Edit(
        "a sub-agent counts in its own family only",
        subagents.Subagents._launch,
        "        for family in self._line():\n            family.living += 1\n",
        "        self.living += 1\n",
        ("sub_agents_at_once_of_a_whole_tree",),
    ),
    Edit(
        "a sub-agent that has ended still counts above its own family",
        subagents.Subagents._see_off,
        "        for family in self._line():\n            family.living -= 1\n",
        "        self.living -= 1\n",
        ("sub_agents_at_once_of_a_whole_tree",),
    ),
    Edit(
        "threads that are waited for count among those that are left",
        threads.WorkerThreads.check,
        " - self.places.borrowed_tokens",
        "",
        ("threads_that_were_left_behind",),
    ),
)
"""The edits."""

BY_NAME: Final = {getattr(scene.passes, "__name__", ""): scene for scene in SCENES}


def one(scene: Scene, size: int) -> bool:
    """Return whether so much passes."""

    async def asked() -> bool:
        passes = scene.passes(size)
        return await passes if isawaitable(passes) else passes

    return run_in_virtual_time(asked)


def held(scene: Scene) -> bool:
    """Whether a scene passes up to its limit, and no further."""
    return all(one(scene, scene.at + side) is (side <= scene.last) for side in SIDES)


def fails(name: str) -> bool:
    """Whether the scene or test *name* fails with the planted mistake."""
    try:
        if name in BY_NAME:
            return not held(BY_NAME[name])
        test: Callable[..., Awaitable[None]] = getattr(test_runtime, name)
        given = [JournalFull("no space")] if "snapshot" in name else []
        run_in_virtual_time(partial(test, *given))
    except Exception:  # noqa: BLE001 - any error counts as noticed, groups of Trio included
        return True
    return False


@pytest.mark.parametrize("edit", EDITS[::EACH], ids=lambda edit: edit.says)
def test_an_edit_at_a_limit_is_noticed(edit: Edit) -> None:
    """Each scene or test named by the edit fails with it; without it they pass in their own runs."""
    planting = Planting()
    try:
        edit.plant(planting)
        noticed = {name: fails(name) for name in edit.by}
    finally:
        planting.remove()
    assert noticed == dict.fromkeys(edit.by, True)


AT_IMPORT: Final = frozenset(
    {
        "adapters.models.http.CONNECTIONS",
        "adapters.models.http.KEPT",
        "adapters.models.sse.MAX_EVENT",
        "adapters.models.http.MOST",
        "hooks.attachments.STATE_LIMIT",
        "codec.json_text.DOCUMENT_DEPTH",
        "runtime.shared.admission.WIDTH",
        "tools.json_schema.regex._EXPRESSIONS",
        "app.spec.MAX_CALLS_PER_RESPONSE",
        "values.untrusted_content.MAX_IMAGE",
        "values.untrusted_content.MAX_PARTS",
        "values.untrusted_content.MAX_TEXT",
        "tools.json_schema.validation.MAX_SCHEMAS",
        "tools.builtin.subagent_tools.MAX_TASKS",
        "tools.builtin.subagent_tools.MAX_MESSAGE",
    }
)
"""Limits that something was made with when it was imported: to move them now moves nothing."""

OTHERWISE: Final = frozenset(
    {
        "adapters.journals.sqlite.writing.ROWS_KEPT",  # the scene has a figure of its own
        "adapters.sandboxes.composite.MAX_FOUND",  # as above
        "adapters.sandboxes.searching.MAX_SEEN",  # as above
        "codec.plugin_states._WORST",  # as above
        "runtime.work.plugin_files.MAX_LISTED",  # as above
        "adapters.sandboxes.confined_open.MAX_LINKS",  # the kernel has the same
        "codec.json_text._MAX_INT",  # whatever is longer does not fit 64 bits either
        "app.spec.AT_MOST[]",  # a table: its figures have names of their own
        "values.step_budget.CHECK_STEPS",  # the meter is the scene's own
        "values.json.INT_MIN",  # one more is one number less
    }
)
"""Limits that are not moved here, and why."""


def constants() -> list[Scene]:
    """Return the scenes of limits that are constants and are looked up when they count."""
    return [
        scene
        for scene in SCENES
        if scene.limit.rpartition(".")[2].isupper() and scene.limit not in AT_IMPORT | OTHERWISE
    ]


def moved(planting: Planting, limit: str) -> None:
    """Have a limit be one more, wherever a module knows it."""
    owner, _, name = limit.rpartition(".")
    old: int = getattr(import_module(f"agentrail.{owner}"), name)
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith("agentrail.") and vars(module).get(name) == old:
            planting.put(module, name, old + 1)


@pytest.mark.parametrize("scene", constants()[::EACH], ids=lambda scene: scene.name)
def test_a_limit_that_is_one_more_is_noticed(scene: Scene) -> None:
    planting = Planting()
    try:
        moved(planting, scene.limit)
        try:
            passes = one(scene, scene.at + scene.last + 1)
        except* AssertionError:
            passes = True  # the scene has noticed it on its way
    finally:
        planting.remove()
    assert passes
