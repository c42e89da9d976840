import shutil
import subprocess
from pathlib import Path

import pytest

from agentrail.adapters.sandboxes.globs import Glob, GlobPattern, Ignored
from agentrail.adapters.sandboxes.searching import unlimited_meter
from agentrail.errors import BadPattern, PathRefused
from tests.each_case import each_case
from tests.opcodes import counted_opcodes

MOST_OPCODES = 3_000_000
"""About twice what the dearest pattern takes with a path of 2,000 parts."""

RULES = [
    "*.log",
    "/top",
    "folder/",
    "a/b",
    "/a/*.txt",
    "**/deep/x",
    "a/**",
    "a/**/z",
    "!keep.log",
    "# no rule",
    "\\#name",
    "\\!name",
    "trailing   ",
    "?[0-9].c",
    "[!a]z",
    "[^a]z",
    "[[:alpha:]]z",
    "[^[:digit:]]1.c",
    "",
    "/",
    "star*star*s",
    "**/foo/**",
    "a/**/**/b/c",
]
NAMES = ["a", "b", "top", "folder", "deep", "x", "z", "keep.log", "x.log", "#name", "!name", "trailing", "a1.c", "bz"]
PATHS = [
    *NAMES,
    *(f"a/{name}" for name in NAMES),
    *(f"q/{name}" for name in NAMES),
    "a/b/c",
    "a/q/b/c",
    "q/deep/x",
    "a/n.txt",
    "a/b/n.txt",
    "starxstarys",
    "q/foo/r",
    "foo",
    "a/k/l/z",
]


@pytest.mark.long
@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git to compare with")
@pytest.mark.parametrize("rules", [[rule] for rule in RULES] + [RULES[:9], ["*", "!a", "!*.log"]], ids=str)
def test_rules_mean_what_git_means(tmp_path: Path, rules: list[str]) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)  # noqa: S603, S607 - whichever git there is
    (tmp_path / ".gitignore").write_text("".join(f"{rule}\n" for rule in rules), encoding="ascii")
    asked = "\n".join(PATHS)
    command = ["git", "-C", str(tmp_path), "check-ignore", "--stdin", "--no-index"]
    said = subprocess.run(command, input=asked, capture_output=True, text=True, check=False)  # noqa: S603 - as above
    read = Ignored()
    for _ in read.reading(rules, unlimited_meter()):
        pass
    ours = [path for path in PATHS if is_ignored(read, path)]
    assert ours == said.stdout.splitlines()


def is_ignored(rules: Ignored, path: str) -> bool:
    """Ask as a walk does: first about the folders, from above."""
    parts = tuple(path.split("/"))
    above = (parts[:depth] for depth in range(1, len(parts)))
    return any(rules.names(folder, unlimited_meter(), folder=True) for folder in above) or rules.names(
        parts, unlimited_meter(), folder=False
    )


@each_case(
    [
        ("*.py", "a/b.py", True),
        ("a/*.py", "a/b.py", True),
        ("a/*.py", "a/c/b.py", False),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("**", "a/b", True),
        ("a/**", "a", False),
        ("**/a", "a", True),
        ("{a,b}/{c,d}.py", "b/c.py", True),
        ("{a,b}/{c,d}.py", "b/e.py", False),
        ("[ab].c", "b.c", True),
        ("\\*", "*", True),
        ("\\*", "a", False),
    ]
)
def test_a_glob_means(pattern: str, path: str, is_match: bool) -> None:
    assert Glob(pattern).matches(tuple(path.split("/")), unlimited_meter()) == is_match


def test_a_glob_cannot_stand_for_too_many() -> None:
    with pytest.raises(BadPattern):
        Glob("{a,b}" * 20)


@pytest.mark.parametrize("pattern", ["../*", "/etc/*", "~/*", "a/../../*", "a\0"])
def test_a_glob_does_not_lead_out(pattern: str) -> None:
    with pytest.raises(PathRefused):
        Glob(pattern)


@pytest.mark.long
@pytest.mark.parametrize("pattern", ["*a" * 60 + "b", "/".join(["**"] * 40) + "/b", "**/a/" * 30 + "b"])
def test_no_pattern_takes_long(pattern: str) -> None:
    """The regular expression of a part has no opcodes: one that goes back would not end for the first pattern."""
    with counted_opcodes() as counted:
        GlobPattern(pattern).matches(("a" * 250,) * 60, unlimited_meter())
        GlobPattern(pattern).matches(("a",) * 2000, unlimited_meter())
    assert counted[0] < MOST_OPCODES
