import io
import re
import subprocess
import sys
from inspect import signature
from pathlib import Path

import pytest

from agentrail.cli.command import main
from agentrail.cli.output.progress_bar import TELL_EVERY, ProgressBar
from agentrail.cli.subcommands import PROGRAM
from agentrail.testing import find_conflict

TRAPPED = """
from tests.testing.candidates import Redirect, RiskCheck, what_was_approved_is_safe as safe
from agentrail.testing import Trace

plugins = [RiskCheck(), Redirect()]


def nobody_pays_a_stranger(trace: Trace) -> None:
    safe(trace)
"""

ORDERED = """
from tests.testing.candidates import Redirect, RiskCheck

plugins = [RiskCheck(), Redirect()]
"""

CLEAN = '''
from agentrail import Continue, Plugin


class Turns(Plugin[int]):
    """Count turns."""

    def init(self, ctx):
        return 0

    def after_turn(self, hook, state, ctx):
        return Continue(state + 1)


class Needy(Plugin[None]):
    """Needs an option."""

    def __init__(self, option):
        self.option = option
'''


LOUD = """
from pathlib import Path

from agentrail import Continue, Plugin


class Loud(Plugin[None]):
    def before_prompt(self, hook, state, ctx):
        try:
            print("hello")
        except OSError:
            pass
        return Continue()


class Late(Plugin[int]):
    # writes at the ninth hook, which the laws alone never come to

    def init(self, ctx):
        return 0

    def before_request(self, hook, state, ctx):
        return self.count(state)

    def after_response(self, hook, state, ctx):
        return self.count(state)

    def count(self, state):
        if state >= 8:
            Path("written").write_text("x")
        return Continue(min(8, state + 1))
"""

METHOD = "def tools_named(self): return ('rm',)"
LETTERS = "tools_named = property(lambda self: 'rm')"


def check(tmp_path: Path, name: str, text: str, *options: str) -> int:
    file = tmp_path / f"{name}.py"
    file.write_text(text)
    return main(["check", str(file), *options])


@pytest.mark.long
def test_a_conflict_is_printed_and_the_exit_code_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path, "trapped_plugins", TRAPPED, "--examples", "300", "--seed", "1") == 1
    out = capsys.readouterr().out
    assert "RiskCheck() and Redirect() together break `nobody_pays_a_stranger`: a stranger was paid" in out
    assert "from trapped_plugins import nobody_pays_a_stranger" in out
    assert "✗ nobody_pays_a_stranger                      broken by RiskCheck and Redirect" in out
    assert "✓ laws: Redirect                              all 10 hold" in out
    assert "✗ order                                       matters for RiskCheck and Redirect at before_tool" in out
    assert "2 of 11 checks found something\n" in out


@pytest.mark.long
def test_a_clean_file_is_clean(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path, "clean_plugins", CLEAN, "--examples", "20", "--time", "60") == 0
    captured = capsys.readouterr()
    message = r"nothing was found\n20 examples of plugins together, [\d,]+ a second\nnote: `Needy` was not checked: "
    assert re.search(message, captured.out)
    assert "holds in 20 examples" in captured.out
    assert "\x1b" not in captured.err, "no progress bar where nobody sees it"


@pytest.mark.campaign
@pytest.mark.long
def test_a_pipe_is_told_at_the_start_how_long_it_is_tried_and_each_phase(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(tmp_path, "told_plugins", ORDERED, "--time", "0") == 0
    captured = capsys.readouterr()
    first, *phases = captured.err.splitlines()
    assert first == (
        "Checking 2 plugins: the laws of each, 10,000 examples of them together, 1 pair in either order; "
        "after 0 seconds (--time) nothing but the laws is tried."
    )
    assert [line.partition("%  ")[2] for line in phases] == [
        *("laws: RiskCheck", "laws: Redirect", "together", "order"),
    ]
    assert "matters for no two plugins, in 0 of 1 pairs that were tried" in captured.out


@pytest.mark.campaign
@pytest.mark.long
def test_the_program_says_nothing_but_what_it_does(tmp_path: Path) -> None:
    """As a process of its own: whoever calls `main` has Hypothesis imported already."""
    file = tmp_path / "clean_plugins.py"
    file.write_text(CLEAN)
    words = [sys.executable, "-I", "-m", "agentrail", "check", str(file), "--time", "0"]
    ran = subprocess.run(words, capture_output=True, text=True, check=True)  # noqa: S603 - our own program
    assert [line[:5] for line in ran.stderr.splitlines()] == ["Check", "  0% ", " 11% ", " 89% "]
    assert "holds in 0 examples" in ran.stdout, "no time is no example"


@pytest.mark.long
def test_an_impure_hook_is_found_alone_and_beside_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert check(tmp_path, "loud_plugins", LOUD, "--examples", "300", "--time", "60") == 1
    out = capsys.readouterr().out
    file = tmp_path / "loud_plugins.py"
    assert f"Loud breaks a law at `before_prompt`: it printed in {file}, line 10\n" in out
    assert f"A hook breaks a law beside other plugins: it opened 'written' for writing in {file}, line 30\n" in out
    assert "✗ laws: together                              broken: a pure hook" in out
    assert "hello" not in out.splitlines()
    assert not (tmp_path / "written").exists()


def test_a_pipe_is_told_of_a_long_phase_every_ten_seconds() -> None:
    now = 0.0
    out = io.StringIO()
    progress = ProgressBar(out, lambda: now)
    for step in range(100):
        progress.show(step / 100, "together", f": {step} of 100")
        now += TELL_EVERY / 4
    assert out.getvalue().splitlines() == [f"{step:3}%  together: {step} of 100" for step in range(0, 100, 4)]


@pytest.mark.parametrize("written", ["nan", "inf", "-1", "soon", "1e400"])
def test_a_time_that_never_ends_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], written: str
) -> None:
    assert check(tmp_path, "timed_plugins", CLEAN, f"--time={written}") == 2
    assert f"agentrail: --time: '{written}' is no number from 0 on\n" in capsys.readouterr().err


@pytest.mark.parametrize("written", ["0", "-1", "1.5", "many", "9" * 5000])
def test_a_count_that_is_none_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str], written: str) -> None:
    assert check(tmp_path, "counted_plugins", CLEAN, f"--examples={written}") == 2
    beginning, end = f"agentrail: --examples: '{written}"[:1000], "' is no whole number from 1 on\n"
    error = capsys.readouterr().err
    assert error.startswith(beginning)
    assert end in error  # of a long one, the middle is left out


@pytest.mark.campaign
@pytest.mark.long
def test_that_an_order_matters_is_no_finding_if_orders_may_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(tmp_path, "ordered_plugins", ORDERED, "--examples", "20", "--orders-may-differ") == 0
    out = capsys.readouterr().out
    assert "✓ order                                       matters for RiskCheck and Redirect at before_tool" in out
    assert "Redirect first:" in out, "it is still told"


@pytest.mark.campaign
@pytest.mark.long
def test_an_order_that_priorities_settle_is_told_and_is_no_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = "class First(RiskCheck):\n    priority = 10\n"
    settled = ORDERED.replace("plugins = [RiskCheck(), ", f"{first}\nplugins = [First(), ")
    assert check(tmp_path, "settled_plugins", settled, "--examples", "20") == 0
    out = capsys.readouterr().out
    assert "matters for First and Redirect at before_tool (settled)" in out
    assert "their priorities settle it" in out


def test_the_command_tries_as_many_examples_as_the_function() -> None:
    default = PROGRAM.commands["check"].make_context("check", [__file__]).params["examples"]
    assert default == signature(find_conflict).parameters["examples"].default == 10_000


@pytest.mark.parametrize(
    ("text", "why"),
    [("x = 1", "there is no plugin in it"), ("1 / 0", "it raised ZeroDivisionError: division by zero (line 1)")],
)
def test_a_file_that_cannot_be_checked_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, why: str
) -> None:
    assert check(tmp_path, "odd_plugins", text) == 2
    assert capsys.readouterr().err == f"agentrail: cannot check {tmp_path / 'odd_plugins.py'}: {why}\n"


def test_a_file_that_is_not_there_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "nowhere.py"]) == 2
    assert "there is no file 'nowhere.py'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("base", "body", "problem"),
    [
        ("Plugin", METHOD, "its `tools_named` is a method"),
        ("Plugin", LETTERS, "its `tools_named` is 'rm', which is not valid"),
        ("Plugin[int]", "limit = 1", "it has no `init`"),
    ],
)
def test_a_plugin_that_no_session_would_take_is_told_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], base: str, body: str, problem: str
) -> None:
    assert check(tmp_path, "refused", f"from agentrail import Plugin\nclass Refused({base}):\n    {body}\n") == 2
    assert problem in capsys.readouterr().err
