"""The distribution has a name that is not the package's: `agentrail` at PyPI is somebody else's."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement

from agentrail.distribution import DISTRIBUTION, STRANGER, install_words, requirement

ROOT: Final = Path(__file__).parents[1]

PARTS: Final = ("agentrail", "docs", "tests", "property_tests", ".ci", ".devcontainer", ".github")

INSTALLERS: Final = r"(?:pip3? install|uv add|uv pip install|uvx|uv tool install|pipx install|pipx run|poetry add)"

NAME: Final = rf"(?<![\w./@-]){STRANGER}(?![\w./@-])"

FETCHES_THE_STRANGER: Final = re.compile(
    rf"{NAME}\[[a-z]+[],]"
    rf"|{INSTALLERS} (?:[^\n`#]*[\s'\"])?{NAME}"
    rf"|['\"]{NAME}\s*(?:[<>=~!]=|[<>]|@ )"
    rf"|(?:dependencies|requires|test) = \[[^\]]*['\"]{NAME}"
)
"""A command or a requirement that names the distribution of others."""

CLONE: Final = '{"url": "file:///home/ada/a%20clone", "dir_info": {"editable": true}}'
FOLDER: Final = '{"url": "file:///home/ada/a%20clone", "dir_info": {}}'
GIT: Final = '{"url": "https://git.example/a.git", "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}}'
TAG: Final = (
    '{"url": "ssh://git@git.example/a.git", '
    '"vcs_info": {"vcs": "git", "commit_id": "c0ffee", "requested_revision": "v0.1"}, "subdirectory": "python"}'
)
ARCHIVE: Final = (
    '{"url": "https://files.example/a.tar.gz", "archive_info": {"hashes": {"sha256": "abc"}}, "subdirectory": "python"}'
)
WHEEL: Final = '{"url": "file:///tmp/agentrail_otp-0.1.0-py3-none-any.whl", "archive_info": {}}'


def texts() -> Iterator[tuple[str, str]]:
    """Yield each text of the repository, with its path."""
    files = [path for part in PARTS for path in (ROOT / part).rglob("*")]
    for path in (*files, *ROOT.glob("*.*"), ROOT / "Makefile"):
        inside = path.relative_to(ROOT)
        if path.is_file() and not {"node_modules", "static", "__pycache__"} & {*inside.parts}:
            try:
                yield str(inside), path.read_text("utf-8")
            except UnicodeDecodeError:  # a picture, or what a test reads as bytes
                continue


@pytest.mark.long
def test_nothing_in_the_repository_installs_the_package_of_others() -> None:
    found = [(path, match[0]) for path, text in texts() for match in FETCHES_THE_STRANGER.finditer(text)]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "pip install {}",
        "pip install '{}[mcp]'",
        "RUN pip install -U {}==0.1",
        "uv add {}",
        'dependencies = ["trio", "{}"]',
        '"{}>=0.1"',
        "it needs `{}[testing]`",
    ],
)
def test_the_search_finds(text: str) -> None:
    assert FETCHES_THE_STRANGER.search(text.format(STRANGER))
    assert not FETCHES_THE_STRANGER.search(text.format(DISTRIBUTION))


def test_the_project_has_the_name() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["name"] == DISTRIBUTION


@pytest.mark.parametrize(
    ("origin", "told"),
    [
        (None, "agentrail-otp[mcp,cli]"),
        (CLONE, "agentrail-otp[mcp,cli] @ file:///home/ada/a%20clone"),
        (FOLDER, "agentrail-otp[mcp,cli] @ file:///home/ada/a%20clone"),
        (GIT, "agentrail-otp[mcp,cli] @ git+https://git.example/a.git@c0ffee"),
        (TAG, "agentrail-otp[mcp,cli] @ git+ssh://git@git.example/a.git@c0ffee#subdirectory=python"),
        (ARCHIVE, "agentrail-otp[mcp,cli] @ https://files.example/a.tar.gz#subdirectory=python"),
        (WHEEL, "agentrail-otp[mcp,cli] @ file:///tmp/agentrail_otp-0.1.0-py3-none-any.whl"),
    ],
    ids=["index", "clone", "folder", "git", "folder of a tag", "folder of an archive", "wheel"],
)
def test_a_requirement_names_where_this_installation_came_from(origin: str | None, told: str) -> None:
    assert requirement(origin, "mcp", "cli") == told
    assert requirement(origin) == told.replace("[mcp,cli]", "")
    assert Requirement(told).extras == {"mcp", "cli"}


@pytest.mark.parametrize(
    ("origin", "words"),
    [
        (None, ["agentrail-otp[mcp]"]),
        (CLONE, ["-e", "/home/ada/a clone[mcp]"]),
        (FOLDER, ["agentrail-otp[mcp] @ file:///home/ada/a%20clone"]),
    ],
    ids=["index", "clone", "folder"],
)
def test_an_extra_is_added_to_what_is_installed_by_a_command_that_any_shell_takes(
    origin: str | None, words: list[str]
) -> None:
    told = install_words(origin, "mcp")
    assert shlex.split(told) == words
    last = told.removeprefix("-e ")
    assert last[0] == last[-1] == "'", "unquoted brackets are a pattern for some shells"
