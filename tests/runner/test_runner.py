"""The runner, tried on small projects, each in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import pytest

from tests.runner.pieces import MOST_TESTS, longest_first, pieces_of
from tests.runner.rewriting import MANY

HERE: Final = Path(__file__).parents[2]

BURN: Final = """
import pytest, time
from tests.runner.budget import Budget
@pytest.fixture(scope="session")
def burn(pytestconfig):
    budget = next(plugin for plugin in pytestconfig.pluginmanager.get_plugins() if isinstance(plugin, Budget))
    def burn_budgets(times):
        end = time.process_time() + times * budget.seconds
        while time.process_time() < end: pass
    return burn_budgets
"""
"""Takes a multiple of what a test may take here and now, which each run measures anew."""


def ran(folder: Path, *options: str, **files: str) -> subprocess.CompletedProcess[str]:
    """Run pytest with the runner on the *files*, which are modules by their names."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, "utf-8")
    return subprocess.run(  # noqa: S603 - our own tests
        _command(*options), cwd=folder, env=_environment(), capture_output=True, text=True, check=False
    )


@contextmanager
def waiting(folder: Path, text: str) -> Generator[subprocess.Popen[str], None, None]:
    """Run pytest with the runner on a module with *text*, from the time on when a test in it has printed `waits`."""
    (folder / "test_a.py").write_text(text, "utf-8")
    with subprocess.Popen(  # noqa: S603 - our own tests
        _command("-s"), cwd=folder, env=_environment(), stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as running:
        assert running.stdout
        while "waits" not in (line := running.stdout.readline()):
            assert line, "it has ended"
        yield running


def _command(*options: str) -> list[str]:
    return [
        *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "tests.runner.plugin"),
        *("--workers", "2", *options),
    ]


def _environment() -> dict[str, str]:
    """Return ours; the plugins that are installed would take four fifths of the time, and the runner needs none."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return kept | {"PYTHONPATH": str(HERE), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def summary(done: subprocess.CompletedProcess[str]) -> str:
    """Return the last line, without its time."""
    return done.stdout.splitlines()[-1].strip("= ").partition(" in ")[0]


PASSING: Final = "def test_one(): pass\ndef test_two(): pass\n"


def test_a_file_is_cut_and_the_longest_piece_comes_first() -> None:
    ids = [*[f"a.py::test_a[{number}]" for number in range(MOST_TESTS + 1)], "b.py::test_b", "c.py::test_c"]
    pieces = longest_first(pieces_of(ids, [*[0.01] * (MOST_TESTS + 1), 9.0, 0.001], [""] * len(ids)))
    assert [piece.indexes for piece in pieces] == [(61,), tuple(range(60)), (60,), (62,)]


def test_a_piece_of_slow_tests_is_cut_by_their_time() -> None:
    pieces = pieces_of([f"a.py::test_{number}" for number in range(5)], [32.0, 32.0, 160.0, 1.0, 1.0], [""] * 5)
    assert [piece.indexes for piece in pieces] == [(0,), (1,), (2,), (3, 4)]


@pytest.mark.long
def test_reports_are_those_of_a_run_without_workers(tmp_path: Path) -> None:
    text = """
import pytest
def test_passes(): pass
def test_fails(): assert [1] == [2]
@pytest.mark.skip(reason="not now")
def test_is_skipped(): pass
@pytest.mark.xfail(strict=True)
def test_is_expected_to_fail(): assert False
@pytest.fixture
def broken(): raise OSError("no fixture")
def test_has_an_error(broken): pass
@pytest.fixture
def ends_badly():
    yield
    raise OSError("no end")
def test_ends_badly(ends_badly): print("said")
"""
    junit = tmp_path / "junit.xml"
    done = ran(tmp_path, f"--junit-xml={junit}", test_a=text, test_b=PASSING)
    alone = ran(tmp_path, "--workers=0")
    assert done.returncode == alone.returncode == 1
    assert summary(done) == summary(alone) == "1 failed, 4 passed, 1 skipped, 1 xfailed, 2 errors"
    assert "assert [1] == [2]" in done.stdout
    cases = ET.parse(junit).iter("testcase")  # noqa: S314 - we have written it
    assert [(case.attrib["name"], *[child.tag for child in case]) for case in cases if len(case)] == [
        ("test_fails", "failure"),
        ("test_is_skipped", "skipped"),
        ("test_is_expected_to_fail", "skipped"),
        ("test_has_an_error", "error"),
        ("test_ends_badly", "error"),
    ]


@pytest.mark.long
@pytest.mark.parametrize("marks", ["pytest.mark.long", "[\n    pytest.mark.usefixtures(),\n    pytest.mark.long,\n]"])
def test_a_file_of_long_tests_alone_is_not_imported_where_none_is_wanted(tmp_path: Path, marks: str) -> None:
    (tmp_path / "conftest.py").write_text(
        "def pytest_configure(config): config.addinivalue_line('markers', 'long: it takes long')\n", "utf-8"
    )
    broken = f"import pytest\n\npytestmark = {marks}\n\nimport there_is_no_such_module\n"
    mixed = "import pytest\n@pytest.mark.long\ndef test_long(): pass\ndef test_short(): pass\n"
    assert summary(ran(tmp_path, "-m", "not long", test_a=broken, test_b=mixed)) == "1 passed, 1 deselected"
    assert "there_is_no_such_module" in ran(tmp_path).stdout


@pytest.mark.long
def test_modules_that_were_never_rewritten_are_imported_from_both_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    noting = """
import os
with open("imported", "a") as file: file.write(f"{os.getpid()} {__name__}\\n")
def test_it(): assert [1] == [2]
"""
    files = {f"test_{number}": noting for number in range(100, 100 + MANY)}
    firsts: list[list[str]] = []
    for _ in range(2):
        done = ran(tmp_path, "--maxfail=1", **files)
        assert "assert [1] == [2]" in done.stdout
        lines = [line.split() for line in (tmp_path / "imported").read_text("utf-8").splitlines()]
        (tmp_path / "imported").unlink()
        by_process = {process: [name for other, name in lines if other == process] for process, _ in lines}
        assert max(map(len, by_process.values())) == MANY, "the collection imports all"
        firsts.append(sorted(names[0] for names in by_process.values()))
    assert firsts == [["test_100", f"test_{99 + MANY}"], ["test_100"]]


@pytest.mark.long
def test_what_was_skipped_can_be_run_by_its_ids(tmp_path: Path) -> None:
    text = """
import os, pytest
@pytest.mark.parametrize("word", ["a b", "[c]::d", "e"])
def test_it(word):
    if word != "e" and not os.path.exists("there"): pytest.skip("it is not there")
"""
    assert summary(ran(tmp_path, "--store-skipped=skipped", test_a=text)) == "1 passed, 2 skipped"
    (tmp_path / "there").touch()
    assert summary(ran(tmp_path, "@skipped")) == "2 passed"


@pytest.mark.long
def test_what_failed_can_be_run_by_its_ids(tmp_path: Path) -> None:
    text = """
import os, pytest
@pytest.fixture
def ends_badly():
    yield
    assert os.path.exists("there")
def test_its_end(ends_badly): pass
@pytest.mark.parametrize("word", ["a b", "[c]::d", "e"])
def test_it(word): assert word == "e" or os.path.exists("there")
"""
    assert summary(ran(tmp_path, "--store-failed=failed", test_a=text)) == "2 failed, 2 passed, 1 error"
    (tmp_path / "there").touch()
    assert summary(ran(tmp_path, "@failed")) == "3 passed"


@pytest.mark.long
def test_a_run_that_does_not_run_all_tests_has_no_list_of_what_failed(tmp_path: Path) -> None:
    ran(
        tmp_path, "--store-failed=failed", test_a="def test_it(): assert False\n", test_b="import nothing_of_the_kind\n"
    )
    assert not (tmp_path / "failed").exists()


@pytest.mark.long
def test_what_the_runner_could_not_run_is_in_the_list_and_fails_again(tmp_path: Path) -> None:
    text = """
import os, pytest
@pytest.fixture(scope="session", autouse=True)
def dies(): os._exit(3)
def test_it(): pass
"""
    assert ran(tmp_path, "--store-failed=failed", test_a=text).returncode == 1
    (tmp_path / "test_a.py").unlink()
    assert ran(tmp_path, "@failed", test_b=PASSING).returncode != 0


@pytest.mark.long
def test_of_a_list_of_functions_and_files_what_is_gone_is_left_out(tmp_path: Path) -> None:
    inherited = "class Base:\n    def test_it(self): pass\nclass TestHere(Base): pass\n"
    (tmp_path / "list").write_text(
        "test_a.py::test_one\ntest_a.py::test_gone\ntest_b.py\ntest_c.py::TestHere::test_it\n"
    )
    done = ran(tmp_path, "--only=list", test_a=PASSING, test_b=PASSING, test_c=inherited, test_d=PASSING)
    assert summary(done) == "4 passed, 3 deselected"


@pytest.mark.long
def test_a_failure_names_its_worker_and_the_test_before_it(tmp_path: Path) -> None:
    done = ran(tmp_path, test_a="def test_first(): pass\ndef test_second(): assert False\n")
    assert "worker 0" in done.stdout
    assert "the test before it was test_a.py::test_first" in done.stdout


@pytest.mark.long
def test_a_seed_draws_an_order_that_keeps_files_together_and_can_be_repeated(tmp_path: Path) -> None:
    noting = """
import pytest
def note(name):
    with open("order", "a") as file: file.write(name + "\\n")
@pytest.fixture(scope="module", autouse=True)
def fixture(): note("fixture")
@pytest.mark.parametrize("number", range(9))
def test_it(number): note(f"{__name__} {number}")
def test_fails(): assert False
"""
    orders: list[str] = []
    for options in (("--shuffle=7",), ("--shuffle=7",), ("--shuffle=8",), ()):
        done = ran(tmp_path, "--workers=1", *options, test_a=noting, test_b=noting, test_c=noting)
        assert ("order: --shuffle 7" in done.stdout) == ("--shuffle=7" in options)
        assert done.stdout.count("in the order of --shuffle 7") == (3 if "--shuffle=7" in options else 0)
        orders.append((tmp_path / "order").read_text("utf-8"))
        (tmp_path / "order").unlink()
    assert orders[0] == orders[1]
    assert len(set(orders)) == 3
    assert {tuple(sorted(order.split())) for order in orders} == {tuple(sorted(orders[0].split()))}
    assert {order.count("fixture") for order in orders} == {3}
    (tmp_path / "test_a.py").unlink()
    ran(tmp_path, "--workers=0", "--shuffle=7", "-k", "test_it", test_b=noting)
    kept = [line for line in orders[0].splitlines() if not line.startswith("test_a")]
    alone = (tmp_path / "order").read_text("utf-8").splitlines()
    assert [line for line in kept if line != "fixture"] == [line for line in alone if line != "fixture"]


@pytest.mark.long
def test_a_worker_that_dies_fails_its_test_alone(tmp_path: Path) -> None:
    text = "import os\ndef test_a(): pass\ndef test_dies(): os.abort()\ndef test_z(): pass\n"
    done = ran(tmp_path, "-p", "no:faulthandler", test_a=text, test_b=PASSING)
    assert summary(done) == "1 failed, 4 passed"
    assert f"ended with status {-signal.SIGABRT} while it ran this test" in done.stdout
    assert "FAILED test_a.py::test_dies" in done.stdout


@pytest.mark.long
def test_a_test_that_hangs_is_shown_and_fails_alone(tmp_path: Path) -> None:
    text = "import threading\ndef test_a(): pass\ndef test_hangs(): threading.Event().wait()\ndef test_z(): pass\n"
    hangs = ("-p", "faulthandler", "-o", "faulthandler_timeout=1", "-o", "faulthandler_exit_on_timeout=true")
    done = ran(tmp_path, *hangs, test_a=text, test_b=PASSING)
    assert summary(done) == "1 failed, 4 passed"
    assert "FAILED test_a.py::test_hangs - worker" in done.stdout
    assert "in test_hangs" in done.stderr


@pytest.mark.long
def test_workers_that_die_between_tests_leave_word_of_what_did_not_run(tmp_path: Path) -> None:
    dying = "import os\nos.register_at_fork(after_in_child=lambda: os._exit(3))\n"
    done = ran(tmp_path, conftest=dying, test_a=PASSING, test_b=PASSING, test_c=PASSING)
    assert (done.returncode, summary(done)) == (pytest.ExitCode.TESTS_FAILED, "3 failed")
    for number in (0, 1):
        assert f"worker {number} ended with status 3 while it ran no test: 2 tests did not run" in done.stdout
    assert "2 tests did not run: no worker is left" in done.stdout


@pytest.mark.long
def test_after_so_many_failures_no_test_begins(tmp_path: Path) -> None:
    failing = "".join(f"def test_{number}(): assert False\n" for number in range(50))
    done = ran(tmp_path, "-x", test_a=failing, test_b=failing)
    assert done.returncode == 1
    assert "stopping after 1 failures" in done.stdout
    assert summary(done) == "1 failed"


@pytest.mark.long
def test_fixtures_of_the_session_are_made_once_in_a_worker_and_ended(tmp_path: Path) -> None:
    shared = """
import os, pathlib, pytest
@pytest.fixture(scope="session")
def server():
    made = pathlib.Path(f"{os.getpid()}.made")
    made.touch(exist_ok=False)
    yield
    made.rename(f"{os.getpid()}.ended")
"""
    using = "def test_one(server): pass\n"
    done = ran(tmp_path, conftest=shared, test_a=using, test_b=using, test_c=using, test_d=using)
    assert summary(done) == "4 passed"
    assert not list(tmp_path.glob("*.made"))
    assert 1 <= len(list(tmp_path.glob("*.ended"))) <= 2


@pytest.mark.long
def test_fixtures_of_a_package_are_made_once_and_ended_with_its_tests(tmp_path: Path) -> None:
    shared = """
import pathlib, pytest
@pytest.fixture(scope="package")
def server():
    pathlib.Path("made").touch(exist_ok=False)
    yield
    pathlib.Path("ended").touch(exist_ok=False)
"""
    using = "import pytest\n@pytest.mark.parametrize('number', range(90))\ndef test_one(server, number): pass\n"
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    files = {"package/conftest": shared, "package/test_a": using, "package/test_b": PASSING, "package/test_c": using}
    after = "import pathlib\ndef test_after(): assert pathlib.Path('ended').exists()\n"
    assert summary(ran(tmp_path, **files)) == "182 passed"
    for name in ("made", "ended"):
        (tmp_path / name).unlink()
    assert summary(ran(tmp_path, "--workers=1", test_z=after)) == "183 passed"


@pytest.mark.long
def test_what_one_worker_prints_is_not_shown_with_the_failure_of_another(tmp_path: Path) -> None:
    text = "import os\ndef test_{0}():\n    os.write(1, b'{0}' * 2000)\n    assert False\n"
    done = ran(tmp_path, test_a=text.format("a"), test_b=text.format("b"))
    assert done.stdout.count("a" * 2000) == done.stdout.count("b" * 2000) == 1


@pytest.mark.long
def test_a_test_over_the_budget_fails_and_one_that_pays_for_an_import_does_not(tmp_path: Path) -> None:
    text = """
import multiprocessing, pytest, subprocess, sys
done = []
def test_is_slow(burn): burn(15)
def test_is_slow_once(burn):
    if not done: burn(15)
    done.append(1)
def test_starts_a_process(): subprocess.run([sys.executable, "-c", ""], check=True)
def test_spawns():
    process = multiprocessing.get_context("spawn").Process(target=print)
    process.start()
    process.join()
@pytest.fixture(scope="module")
def server(): subprocess.run([sys.executable, "-c", ""], check=True)
def test_has_a_server(server): pass
def test_has_it_too(server): pass
def test_is_fast(): pass
"""
    done = ran(tmp_path, "--budget", "0.03", conftest=BURN, test_a=text)
    assert summary(done) == "5 failed, 2 passed"
    assert "it started a process: mark it `long`" in done.stdout
    assert "FAILED test_a.py::test_spawns" in done.stdout
    assert "make it smaller, or mark it `long`" in done.stdout


@pytest.mark.long
def test_a_fixture_of_a_file_is_shared_out_among_its_tests(tmp_path: Path) -> None:
    text = """
import pytest
@pytest.fixture(scope="module")
def dear(burn): burn(30)
@pytest.mark.parametrize("number", range({0}))
def test_uses_it(dear, number): pass
"""
    assert summary(ran(tmp_path, "--budget", "0.02", conftest=BURN, test_few=text.format(2))) == "2 failed"
    (tmp_path / "test_few.py").unlink()
    done = ran(tmp_path, "--budget", "0.02", conftest=BURN, test_more=text.format(18))
    assert summary(done) == "18 passed"
    assert "over the budget: 18, to be made smaller, or marked `long`" in done.stdout
    (tmp_path / "test_more.py").unlink()
    assert "over the budget" not in ran(tmp_path, "--budget", "0.02", conftest=BURN, test_many=text.format(60)).stdout


@pytest.mark.long
def test_an_interrupt_ends_the_fixtures_of_the_workers(tmp_path: Path) -> None:
    text = """
import pathlib, pytest, time
@pytest.fixture
def server():
    yield
    pathlib.Path("ended").touch()
def test_waits(server):
    print("waits", flush=True)
    time.sleep(60)
"""
    with waiting(tmp_path, text) as running:
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does
        assert running.stdout
        told = running.stdout.read()
    assert running.returncode == pytest.ExitCode.INTERRUPTED
    assert "KeyboardInterrupt" in told
    assert (tmp_path / "ended").exists()


@pytest.mark.long
def test_an_interrupt_of_the_runner_alone_lets_its_workers_end_in_order(tmp_path: Path) -> None:
    text = """
import pathlib, pytest, time
@pytest.fixture(scope="session")
def server():
    yield
    pathlib.Path("ended").touch()
def test_waits(server):
    print("waits", flush=True)
    while not pathlib.Path("interrupted").exists(): time.sleep(0.01)
"""
    with waiting(tmp_path, text) as running:
        running.send_signal(signal.SIGINT)
        (tmp_path / "interrupted").touch()
        running.communicate()
    assert running.returncode == pytest.ExitCode.INTERRUPTED
    assert (tmp_path / "ended").exists()


@pytest.mark.long
def test_a_test_over_the_budget_that_fails_when_it_is_run_again_fails(tmp_path: Path) -> None:
    text = """
done = []
def test_is_slow_and_runs_once(burn):
    assert not done, "it ran before"
    done.append(1)
    burn(2)
"""
    done = ran(tmp_path, "--budget", "0.03", conftest=BURN, test_a=text)
    assert summary(done) == "1 failed"
    assert "it ran before" in done.stdout


@pytest.mark.long
def test_what_the_collector_finds_behind_the_last_test_is_an_error_of_it(tmp_path: Path) -> None:
    text = """
async def never_awaited(): pass
def test_leaves_a_cycle():
    cycle = [never_awaited()]
    cycle.append(cycle)
"""
    done = ran(tmp_path, "-p", "tests.conftest", "-W", "error", test_a=text)
    assert summary(done) == "1 passed, 1 error"
    assert "coroutine 'never_awaited' was never awaited" in done.stdout


@pytest.mark.long
def test_a_machine_that_is_slower_by_now_has_more_time(tmp_path: Path) -> None:
    text = """
import tests.runner.speed as speed
def test_begins(): speed.REFERENCE /= 4
def test_takes_longer(burn): burn(6)
def test_takes_too_long(burn): burn(24)
"""
    done = ran(tmp_path, "--workers=1", "--budget", "0.03", conftest=BURN, test_a=text)
    assert summary(done) == "1 failed, 2 passed"
    assert "FAILED test_a.py::test_takes_too_long" in done.stdout


@pytest.mark.long
@pytest.mark.parametrize("option", ["--pdb", "--trace", "--setup-show"])
def test_an_option_that_needs_the_terminal_is_refused_with_workers(tmp_path: Path, option: str) -> None:
    done = ran(tmp_path, option, test_a=PASSING)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"{option} needs the terminal while a test runs, and a worker has none: add `--workers 0`" in done.stderr


LEAVING = """
import atexit, os, threading
kept = []
async def never_awaited(): pass
def fails(): raise OSError("at the end")
def test_leaves_a_coroutine(): kept.append(never_awaited())
def test_leaves_a_thread():
    for name in ("forgotten", "harmless"):
        threading.Thread(target=threading.Event().wait, name=name, daemon=name == "harmless").start()
def test_leaves_a_function_for_the_end(): atexit.register(fails)
def test_changes_the_folder(): os.chdir("/")
def test_sets_a_variable(): os.environ["LEFT"] = "1"
def test_takes_one_away(): del os.environ["HOME"]
def test_changes_both_back(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEFT", "2")
"""

AFTER_LEAVING = """
import os
def test_all_is_as_before():
    assert "LEFT" not in os.environ and "HOME" in os.environ and os.getcwd() != "/"
"""


@pytest.mark.long
def test_what_a_test_leaves_behind_is_an_error_of_it_and_not_of_later_ones(tmp_path: Path) -> None:
    done = ran(tmp_path, "--workers=1", "-rE", test_a=LEAVING, test_b=AFTER_LEAVING)
    assert summary(done) == "8 passed, 6 errors"
    for node_id, problem in (
        ("worker 0", "the coroutine 'never_awaited' was never awaited, and something has kept it"),
        ("worker 0", "a function that was registered with `atexit` has failed: OSError('at the end')"),
        ("test_a.py::test_leaves_a_thread", "the thread 'forgotten', begun in this test, has not ended"),
        ("test_a.py::test_changes_the_folder", "after this test the current folder is /: use `monkeypatch`"),
        ("test_a.py::test_sets_a_variable", "the variable LEFT of the environment is another: use `monkeypatch`"),
        ("test_a.py::test_takes_one_away", "the variable HOME of the environment is another: use `monkeypatch`"),
    ):
        assert f"ERROR {node_id}" in done.stdout
        assert problem in done.stdout
    assert "left running: 1, to be ended by the tests that began them" in done.stdout
    assert "the thread 'harmless', begun in test_a.py::test_leaves_a_thread" in done.stdout


@pytest.mark.long
def test_a_fixture_of_a_file_may_change_the_environment_until_its_end(tmp_path: Path) -> None:
    text = """
import os, pytest
@pytest.fixture(scope="module", autouse=True)
def variable():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SET", "1")
        yield
def test_one(): assert os.environ["SET"] == "1"
def test_two(): assert os.environ["SET"] == "1"
"""
    assert summary(ran(tmp_path, "--workers=1", test_a=text)) == "2 passed"


@pytest.mark.long
def test_a_fixture_of_the_session_that_ends_the_process_at_its_end_fails_the_run(tmp_path: Path) -> None:
    text = """
import os, pytest
@pytest.fixture(scope="session", autouse=True)
def ends():
    yield
    os._exit(0)
def test_it(): pass
"""
    done = ran(tmp_path, "--workers=1", test_a=text)
    assert (done.returncode, summary(done)) == (pytest.ExitCode.TESTS_FAILED, "1 failed, 1 passed")
    assert "worker 0 ended with status 0 while the fixtures of the session ended" in done.stdout


@pytest.mark.long
def test_where_nobody_sees_dots_a_line_says_how_far_the_tests_are(tmp_path: Path) -> None:
    text = "import time\ndef test_a(): pass\ndef test_b(): time.sleep(1.5)\n"
    conftest = "import tests.runner.progress as progress\nprogress.EVERY = 0.2\n"
    done = ran(tmp_path, "--workers=1", conftest=conftest, test_a=text, test_b=PASSING)
    assert " of 4 tests after 1 s\n" in done.stdout
