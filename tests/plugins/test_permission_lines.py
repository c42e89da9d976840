"""`PermissionPolicy` and the corpus of `SecurityGuard`: no forbidden line passes rules of everyday work."""

from __future__ import annotations

import pytest

from agentrail import BlockTool, Context, Continue, HoldTool
from agentrail.plugins import BeforeTool, PermissionPolicy
from tests.plugins.shell_lines import FORBIDDEN, HARMLESS, read

MUST_NOT_PASS = tuple(dict.fromkeys(line.text for line in read(*FORBIDDEN)))
HARMLESS_LINES = tuple(dict.fromkeys(line.text for line in read(*HARMLESS)))
WORKING = Context(working_dir="/home/someone/work")
VERDICTS = {BlockTool: "blocked", HoldTool: "held", Continue: "passed"}

EVERYDAY = PermissionPolicy(
    mode="strict",
    allow=[
        *("shell(ls *)", "shell(pwd)", "shell(git status *)", "shell(git add *)", "shell(git commit *)"),
        *("shell(git push *)", "shell(pytest *)", "shell(python -m pytest *)", "shell(npm *)", "shell(make *)"),
        *("shell(cat src/*)", "shell(cat README.md)", "shell(wc -l src/*)", "shell(mkdir -p *)", "shell(cd src)"),
        *("shell(cargo *)", "shell(docker *)", "shell(echo *)", "shell(df *)", "shell(du *)", "shell(uv *)"),
        *("shell(go *)", "shell(sleep *)", "shell(date)", "shell(which *)", "shell(pip *)", "shell(touch *)"),
    ],
)
NO_CAT = PermissionPolicy(deny=["shell(cat *)"])
NO_REMOVING = PermissionPolicy(deny=["shell(rm *)"], mode="bypass")
STATUS = PermissionPolicy(mode="strict", allow=["shell(git status *)"])

RUN_NO_CAT = {
    "gzip -c .env | zcat",
    "gzip -k .env && zcat .env.gz",
    "zcat -f .env",
    "xzcat -f .env",
    "truncate -s 0 ~/.bashrc",
    "git cat-file -p HEAD:.env",
    "tar cz . | zcat",
    "git cat-file blob HEAD:sub/.env",
}
"""Lines of the corpus with the letters `cat` that run no program of that name."""


def verdict(policy: PermissionPolicy, line: str) -> str:
    return VERDICTS[type(policy.before_tool(BeforeTool("shell", {"command": line}, "c1"), None, WORKING))]


@pytest.mark.long
def test_no_forbidden_line_is_allowed_by_rules_of_everyday_work() -> None:
    assert [line for line in MUST_NOT_PASS if verdict(EVERYDAY, line) != "blocked"] == []


@pytest.mark.long
def test_lines_of_everyday_work_are_allowed_by_such_rules() -> None:
    passed = [line for line in HARMLESS_LINES if verdict(EVERYDAY, line) == "passed"]
    assert len(passed) >= 60
    assert {"ls -la src tests", "cat src/app.py", "git status", "npm test"} <= set(passed)


def test_a_denied_program_runs_in_no_line_of_the_corpus_however_it_is_hidden() -> None:
    passed = {line for line in MUST_NOT_PASS if "cat" in line and verdict(NO_CAT, line) == "passed"}
    assert passed == RUN_NO_CAT


@pytest.mark.parametrize("rule", ["rm *", "git push *"])
def test_a_rule_that_denies_holds_hardly_a_harmless_line(rule: str) -> None:
    policy = PermissionPolicy(deny=[f"shell({rule})"])
    held = [line for line in HARMLESS_LINES if verdict(policy, line) == "held"]
    assert len(held) <= 0.05 * len(HARMLESS_LINES), held


FORMS = (
    "{}; rm -rf x",
    "{}\nrm x",
    "rm x && {}",
    "{} | rm x",
    "{} $(rm x)",
    "echo `rm x`; {}",
    "(rm x); {}",
    "{} & rm x",
)


@pytest.mark.long
def test_a_denied_command_beside_any_line_of_the_corpus_does_not_pass() -> None:
    passed = [
        form.format(line)
        for number, line in enumerate((*MUST_NOT_PASS, *HARMLESS_LINES))
        if verdict(NO_REMOVING, (form := FORMS[number % len(FORMS)]).format(line)) == "passed"
    ]
    assert passed == []


AROUND = (
    "git status; {}",
    "git status && {}",
    "git status | {}",
    "{}; git status",
    "git status $({})",
    "git status\n{}",
)


@pytest.mark.long
def test_an_allowed_command_takes_no_line_of_the_corpus_along() -> None:
    others = [line for line in (*MUST_NOT_PASS, *HARMLESS_LINES) if not line.startswith("git status")]
    passed = [
        AROUND[number % len(AROUND)].format(line)
        for number, line in enumerate(others)
        if verdict(STATUS, AROUND[number % len(AROUND)].format(line)) == "passed"
    ]
    assert passed == []
