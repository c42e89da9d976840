"""Each promise of the README and the pages behind it names its tests: what is reworded, or goes, is noticed."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from tests.parsed import ROOT, functions_of

PROMISES: Final[Mapping[str, tuple[str, ...]]] = {
    "no key is needed": ("tests/cli/test_choosing.py::test_the_first_provider_whose_key_is_there_is_talked_to",),
    "`pip install '/path/to/the/clone'` installs the distribution": (
        "tests/test_packaging.py::test_what_is_installed_works_outside_of_the_repository",
    ),
    "None of these waits for the model or for the tool": (
        "tests/runtime/test_abort.py::test_killable_tools_are_cancelled_at_once_though_the_commit_takes_a_second",
        "tests/runtime/test_abort.py::test_steering_cuts_the_stream_at_once_though_the_commit_takes_a_second",
        "tests/runtime/test_calls.py::test_a_held_call_is_decided_beside_the_batch",
    ),
    "It prints:": ("tests/docs/test_examples.py::test_the_programs_of_the_pages_run_in_empty_folders",),
    "without a model, a clock or a network": (
        "tests/docs/test_examples.py::test_the_tests_of_the_pages_pass_in_an_empty_project",
    ),
    "without the guard, and the test fails": (
        "tests/docs/test_claims.py::test_the_property_of_the_readme_fails_without_the_guard",
    ),
    "checks each plugin that the file makes against the laws": (
        "tests/cli/test_check.py::test_a_clean_file_is_clean",
        "tests/cli/test_check.py::test_a_conflict_is_printed_and_the_exit_code_says_so",
    ),
    "`agentrail run` prints the answer alone": ("tests/cli/test_run.py::test_the_answer_alone_is_printed",),
    "its exit status says how it went": ("tests/cli/test_prompt_run.py::test_each_way_to_end_has_an_outcome",),
    "The arguments are shown exactly as they would be used": (
        "tests/cli/test_run.py::test_what_waits_for_a_person_is_named_with_its_exact_arguments",
    ),
    "Stopping never waits": (
        "property_tests/test_session.py::test_the_invariants_hold_in_long_sessions",
        "tests/runtime/test_abort.py::test_a_stream_is_cut_at_once_though_the_commit_takes_a_second",
        "tests/runtime/test_outliving.py::test_a_stubborn_tool_is_reported_after_its_grace_and_listed_until_it_ends",
        "tests/runtime/test_outliving.py::test_it_delays_nothing",
    ),
    "Steering reaches the next request": (
        "tests/cells/test_steering.py::test_immune_calls_finish_first_and_all_others_are_skipped",
        "tests/runtime/test_abort.py::test_the_next_request_follows_steering_at_once_though_a_tool_would_take_3_s",
    ),
    "What was approved is what runs": (
        "property_tests/test_promises_people.py::test_what_was_approved_is_what_ran",
        "tests/core/test_holds.py::test_what_was_approved_runs_byte_for_byte_also_where_python_sees_no_difference",
    ),
    "No plugin gets a call past a guard": (
        (
            "property_tests/test_promises_plugins.py::"
            "test_a_critical_plugin_that_does_something_wrong_never_lets_a_call_run"
        ),
        "tests/cells/test_broken_plugins.py::test_a_critical_plugin_that_raises_blocks_the_call",
        "tests/cells/test_guards.py::test_a_guard_is_asked_once_more_with_the_final_arguments",
    ),
    "A slow subscriber slows nobody": (
        "tests/runtime/test_event_log.py::test_a_slow_subscriber_that_coalesces_gets_merged_deltas_and_every_durable_event",
        "tests/runtime/test_event_log.py::test_a_slow_subscriber_that_disconnects_is_told_where_to_go_on",
        "tests/runtime/test_event_log.py::test_a_slow_subscriber_that_drops_gets_a_gap",
    ),
    "Nothing is dropped silently": (
        "property_tests/test_simulation.py::test_no_rule_is_ever_broken_and_every_fault_happens",
        "tests/core/test_nothing_is_dropped_silently.py::test_a_session_that_does_not_start_drops_what_was_said_to_it",
        "tests/runtime/test_calls.py::test_the_mailbox_is_bounded_for_those_who_do_not_wait",
    ),
    "A session is its records": (
        (
            "property_tests/test_changes.py::"
            "test_random_sessions_are_the_fold_of_what_is_written_and_an_audit_finds_nothing"
        ),
        "property_tests/test_session.py::test_a_session_is_rebuilt_from_any_number_of_its_records",
    ),
    "It is cheap": (
        "tests/test_counts.py::test_a_chunk_takes_at_most_twelve_python_calls",
        "tests/test_counts.py::test_a_further_parallel_call_takes_at_most_two_more",
        "tests/test_counts.py::test_a_turn_takes_at_most_nine_task_steps",
    ),
    "the tests run on 3.11, 3.12 and 3.13": (
        "tests/docs/test_repository.py::test_the_workflow_runs_what_ci_runs_on_each_python_of_the_package",
    ),
    "macOS and Windows [are simulated]": (
        "tests/platforms/test_elsewhere.py::test_tests_of_files_journals_and_keys_pass_where_macos_is_simulated",
        "tests/platforms/test_elsewhere.py::test_the_library_and_the_host_work_where_windows_is_simulated",
    ),
}
"""Tests by a phrase of the pages: short, so that the sentence around it may be reworded."""


PAGES: Final = ("README.md", "docs/promises.md", "docs/guide/scripts.md", "docs/guide/testing.md")
"""Where the phrases stand."""


def _pages() -> str:
    return "\n".join((ROOT / page).read_text("utf-8") for page in PAGES)


def _table_of_promises() -> Iterator[str]:
    """Yield the first column of the table below “What it promises”."""
    section = _pages().partition("# What it promises\n")[2].partition("\n## ")[0]
    _, _, *rows = re.findall(r"^\| (.+?) \|", section, re.MULTILINE)
    yield from rows


def test_the_pages_say_each_of_the_promises() -> None:
    text = " ".join(_pages().split())
    assert [phrase for phrase in PROMISES if phrase not in text] == []


def test_each_promise_in_the_table_names_its_tests() -> None:
    rows = set(_table_of_promises())
    assert "Stopping never waits" in rows
    assert rows - PROMISES.keys() == set()


def test_each_test_that_holds_a_promise_exists() -> None:
    names: dict[str, set[str]] = defaultdict(set)
    for node_ids in PROMISES.values():
        assert node_ids
        for node_id in node_ids:
            file, _, name = node_id.partition("::")
            names[file].add(name)
    gone = {file: missing for file, held in names.items() if (missing := held - functions_of(ROOT / file))}
    assert gone == {}
