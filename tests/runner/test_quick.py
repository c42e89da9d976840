"""What `make quick` runs: the tests that reach what has changed, and a list of those that reach nearly all lines."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.runner import quick
from tests.runner.quick import LIST, ROOT, SECONDS, FunctionReach, changed_lines, choose, functions_of

PERSON: Final = ("-c", "user.name=a", "-c", "user.email=a@example.org")

DIFF = """diff --git a/agentrail/one.py b/agentrail/one.py
index 1..2 100644
--- a/agentrail/one.py
+++ b/agentrail/one.py
@@ -3 +3,2 @@ def one() -> None:
-    a
+    b
+    c
@@ -9,2 +9,0 @@ def two() -> None:
-    d
-    e
diff --git a/agentrail/two.py b/agentrail/two.py
--- a/agentrail/two.py
+++ b/agentrail/two.py
@@ -1 +1 @@
-x
+y
"""


def test_changed_lines_are_those_of_the_new_text_and_those_around_what_was_taken_away() -> None:
    assert changed_lines(DIFF) == {"agentrail/one.py": {3, 4, 9, 10}, "agentrail/two.py": {1}}


def test_a_line_belongs_to_the_innermost_function() -> None:
    text = "class A:\n    x = 1\n\n    def f(self):\n        def g():\n            pass\n        return g\n"
    assert functions_of(text) == {4: "A.f", 5: "A.f.g", 6: "A.f.g", 7: "A.f"}


def test_the_quickest_tests_that_reach_a_change_are_chosen_as_far_as_there_is_time() -> None:
    seconds = {"slow": SECONDS - 1, "other": 0.1, "quick": 0.1, "slower": SECONDS}
    reach = FunctionReach(seconds, {"one.py f": ["slow", "slower", "quick"], "one.py g": ["other"]})
    assert choose({"one.py f", "one.py new"}, reach) == ["quick", "slow"]
    assert choose({"one.py new"}, reach) == []


@pytest.mark.long
def test_files_of_tests_that_differ_or_are_new_are_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick, "ROOT", tmp_path)
    kept, changed, gone, helper, long, new = (
        tmp_path / "tests" / name
        for name in ("test_kept.py", "test_changed.py", "test_gone.py", "kit.py", "test_long.py", "test_new.py")
    )
    kept.parent.mkdir()
    for file in (kept, changed, gone, helper, long):
        file.write_text("")
    for words in (("init",), ("add", "."), (*PERSON, "commit", "-m", "all")):
        subprocess.run(("git", *words), cwd=tmp_path, check=True, capture_output=True)  # noqa: S603, S607 - git
    for file in (changed, helper, new):
        file.write_text("x = 1\n")
    long.write_text("pytestmark = pytest.mark.long\n")
    gone.unlink()
    assert quick.changed_tests("HEAD") == ["tests/test_changed.py", "tests/test_new.py"]


def test_without_a_record_the_files_that_import_a_change_are_run_the_nearest_first(tmp_path: Path) -> None:
    for path, text in {
        "agentrail/one.py": "",
        "agentrail/two.py": "if TYPE_CHECKING:\n    from agentrail import one\n",
        "agentrail/three.py": "from agentrail.two import (\n    f,\n)\n",
        "tests/test_one.py": "from agentrail.one import x  # why\n",
        "tests/kit.py": "def f():\n    import agentrail.two\n",
        "tests/test_kit.py": "from tests import kit, other\n",
        "tests/test_other.py": "from agentrail import four\n",
    }.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text, "utf-8")
    assert list(quick.nearest_first(["agentrail/one.py"], quick.importers_of(tmp_path))) == [
        *("agentrail/two.py", "tests/test_one.py", "agentrail/three.py", "tests/kit.py", "tests/test_kit.py")
    ]


@pytest.mark.long
def test_a_change_of_a_module_has_its_own_tests_run_first() -> None:
    chosen = quick.importing_tests(["agentrail/runtime/inbox/mailbox.py"])
    assert "tests/runtime/test_mailbox.py" in chosen[:20]
    assert all((ROOT / path).exists() for path in chosen)


def test_what_is_recorded_is_read_as_it_was_written(tmp_path: Path) -> None:
    reach = FunctionReach({"a": 0.5, "b": 0.25}, {"one.py f": ["b"], "one.py g": ["a", "b"]})
    quick.store_reach(reach, tmp_path / "reach.json")
    assert quick.load_reach(tmp_path / "reach.json") == reach


def test_the_list_names_test_functions_that_there_are() -> None:
    for line in LIST.read_text("utf-8").splitlines():
        path, _, name = line.partition("::")
        assert f"def {name.rpartition('::')[2]}(" in (ROOT / path).read_text("utf-8")
