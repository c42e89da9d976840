"""What the pages say would happen if their code were another does happen."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.as_user import OUTPUT, run_programs, run_tests
from tests.docs.pages import programs_of
from tests.docs.sources import ROOT

pytestmark = pytest.mark.long


def _run_with(old: str, new: str, page: str, test: str, folder: Path) -> str | None:
    """Run the program of *page* that has *test*, with *new* in the place of *old*; return what pytest says of it."""
    (text,) = (program.text for program in programs_of(ROOT / page) if f"def {test}(" in program.text)
    assert old in text
    (folder / "test_claim.py").write_text(text.replace(old, new), encoding="utf-8")
    return run_tests(folder)


def test_the_property_of_the_readme_fails_without_the_guard(tmp_path: Path) -> None:
    test = "test_no_call_gets_past_the_guard"
    said = _run_with("SecurityGuard(), ", "*(), ", "README.md", test, tmp_path)
    assert said is not None
    assert f"def {test}" in said or f"in {test}\n" in said


def test_the_property_of_the_tutorial_fails_without_the_priority(tmp_path: Path) -> None:
    test = "test_no_turn_runs_more_calls_than_its_limit"
    said = _run_with("    priority = Priority.SECURITY\n", "", "docs/tutorial.md", test, tmp_path)
    assert said is not None
    assert f"def {test}" in said or f"in {test}\n" in said


def test_the_log_of_events_has_no_line_of_another_logger(tmp_path: Path) -> None:
    (text,) = (
        program.text
        for program in programs_of(ROOT / "docs/plugins/event-logger.md")
        if "import logging" in program.text
    )
    said = 'await session.ask("hello")\n'
    assert said in text
    warning = '        logging.getLogger("agentrail.watchdog").warning("a busy machine")\n'
    program = tmp_path / "example.py"
    program.write_text(text.replace(said, said + warning), encoding="utf-8")
    assert run_programs([program]) == []
    assert (tmp_path / OUTPUT).read_text(encoding="utf-8") == "INFO agent_start\nINFO agent_end\n"
