"""Tests of the edits that are written by hand: how one is read and made, what is told of it, and what is no edit."""

from pathlib import Path

import pytest

from property_tests.mutants.by_hand import GROUPS
from property_tests.mutants.hand_edits import EQUIVALENT, FILE, NOT_NOTICED, NOTICED, NotAnEditError, read, write
from property_tests.mutants.operators import ROOT

MODULE = "bridge/host_loop.py"
BODY = "bridge/host_loop.py OwnLoop._run: the loop stays open"
CLOSES = f"{BODY}\n- loop.close()\n+ pass"


def test_what_comes_of_each_edit_is_python() -> None:
    for edit in read(FILE.read_text(encoding="utf-8"))[0]:
        edit.check()


def test_each_edit_is_of_an_area_whose_tests_are_known_and_says_what_has_come_of_it() -> None:
    areas = {area for group in GROUPS for area in group.areas}
    for edit in read(FILE.read_text(encoding="utf-8"))[0]:
        assert edit.area in areas
        assert edit.outcome in ("", NOT_NOTICED) or edit.outcome.startswith((NOTICED, EQUIVALENT))


def test_an_edit_changes_the_text_in_its_function_and_no_line_number() -> None:
    (edit,), _ = read(CLOSES)
    text = (ROOT / "agentrail" / MODULE).read_text(encoding="utf-8")
    changed = edit.applied(text)
    differing = [(old, new) for old, new in zip(text.split("\n"), changed.split("\n"), strict=True) if old != new]
    assert differing == [("        loop.close()", "        pass")]
    assert edit.area == "bridge"
    assert {text.split("\n")[line - 1] for line in edit.lines} == {"        loop.close()"}


def test_fewer_lines_take_the_place_of_several_and_an_indented_one_stays_so() -> None:
    old = "- while not life.done():\n-     with suppress(SystemExit, KeyboardInterrupt):"
    block = f"{MODULE} OwnLoop._run: it waits for nothing\n{old}\n+ if life:"
    (edit,), _ = read(block)
    text = (ROOT / "agentrail" / MODULE).read_text(encoding="utf-8")
    changed = edit.applied(text)
    assert changed.count("\n") == text.count("\n")
    assert "\n        if life:\n                loop.run_until_complete(life)" in changed


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        ("a line", "no edit begins with"),
        (BODY, "other lines"),
        (f"{CLOSES}\n+ pass", "other lines"),
        (CLOSES.replace("host_loop.py", "no_loop.py"), "no such module"),
        (CLOSES.replace("_run", "_walk"), "no such function"),
        (CLOSES.replace("- loop.close()", "- loop.shut()"), "stands there 0 times"),
        (CLOSES.replace("- loop.close()", "- loop"), "times, and not once"),
    ],
)
def test_what_is_no_edit_is_told(block: str, problem: str) -> None:
    edits, problems = read(block)
    assert not edits
    assert problem in problems[0]


def test_what_is_no_python_is_told() -> None:
    (edit,), _ = read(CLOSES.replace("+ pass", "+ pass pass"))
    with pytest.raises(NotAnEditError, match="no Python"):
        edit.check()


def test_what_has_come_of_edits_is_written_and_all_else_stays(tmp_path: Path) -> None:
    file = tmp_path / "by_hand.txt"
    file.write_text(f"# words\n\n{CLOSES}\n= {NOT_NOTICED}\n\n{CLOSES.replace('stays', 'is')}\n", encoding="utf-8")
    write({BODY: f"{NOTICED}a test"}, file)
    assert file.read_text("utf-8") == f"# words\n\n{CLOSES}\n= noticed by a test\n\n{CLOSES.replace('stays', 'is')}\n"
    edits, _ = read(file.read_text("utf-8"))
    assert [edit.outcome for edit in edits] == ["noticed by a test", ""]
