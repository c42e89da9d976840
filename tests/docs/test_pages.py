"""Pages: every link leads somewhere, every page can be found, and the public names are those on the page of names."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import cast

from tests.docs.pages import PAGES, blocks_of, programs_of
from tests.docs.sources import ROOT
from tests.each_case import each_case
from tests.plugins.shell_lines import FORBIDDEN, HARMLESS, read

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$")
_BEGINS = re.compile(r"\||[-*] |\d+\. ")
_GOES_ON = re.compile(r"\||[-*] |\d+\. |  ")
_NAME = re.compile(r"^\| `(\w+)` \|")

PACKAGES = (
    *("agentrail", "agentrail.aio", "agentrail.host", "agentrail.journals", "agentrail.mcp", "agentrail.models"),
    *("agentrail.plugins", "agentrail.sandboxes", "agentrail.sync", "agentrail.testing", "agentrail.tools"),
)


MOST_WORDS = 2_500
"""The most words of a guide, without its code: who reads more than that at once has not found the right page."""


def _prose(page: Path) -> list[str]:
    """Return the lines of *page* that are not in a block of code."""
    inside = {
        number for block in blocks_of(page) for number in range(block.line - 1, block.line + block.text.count("\n") + 1)
    }
    lines = page.read_text(encoding="utf-8").splitlines()
    return [line for number, line in enumerate(lines, 1) if number not in inside]


@cache
def _anchors(page: Path) -> set[str]:
    headings = [found[1] for line in _prose(page) if (found := _HEADING.match(line))]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each_case(PAGES)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in _LINK.findall("\n".join(_prose(page))):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        found = (page.parent / name).resolve() if name else page
        assert found.exists(), target
        assert not anchor or anchor in _anchors(found), target


def _linked(page: Path) -> set[Path]:
    return {(page.parent / target.partition("#")[0]).resolve() for target in _LINK.findall(page.read_text())}


def test_every_page_can_be_reached_from_the_index_or_from_that_of_its_folder() -> None:
    index = ROOT / "docs" / "index.md"
    linked = {
        index,
        *_linked(index),
        *(page for of_folder in ROOT.glob("docs/*/index.md") for page in _linked(of_folder)),
    }
    assert [page for page in PAGES if page.is_relative_to(index.parent) and page not in linked] == []


def test_every_block_is_python_with_its_output_or_for_a_reader() -> None:
    languages = {block.language for page in PAGES for block in blocks_of(page)}
    assert languages <= {"console", "python", "text", "sh", "toml", "json", "js", "typescript"}


@each_case(PAGES)
def test_a_page_needs_no_knowledge_of_what_agentrail_was_made_after(page: Path) -> None:
    assert re.findall(r"\b(?:names of|in|than) the seed\b|\bthe seed's\b", page.read_text("utf-8"), re.IGNORECASE) == []


@each_case(PAGES)
def test_tables_and_lists_begin_after_a_blank_line(page: Path) -> None:
    """Else they are text on the site."""
    pairs = pairwise(["", *_prose(page)])
    begun = [line for above, line in pairs if _BEGINS.match(line) and above and not _GOES_ON.match(above)]
    assert begun == []


def test_the_third_example_of_the_readme_is_short() -> None:
    property_test = programs_of(ROOT / "README.md")[2].parts[0][0].text
    assert len([line for line in property_test.splitlines() if line.strip()]) <= 15


@each_case(PACKAGES)
def test_the_page_of_public_names_has_those_that_there_are(name: str) -> None:
    page = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    _, _, behind = page.partition(f"## `{name}`\n")
    section, _, _ = behind.partition("\n## ")
    listed = [found[1] for line in section.splitlines() if (found := _NAME.match(line))]
    assert listed == sorted(cast("list[str]", import_module(name).__all__)), "run `make docs`"


def test_the_table_of_shell_lines_shows_a_line_of_each_class() -> None:
    page = (ROOT / "docs" / "reference" / "plugins.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\| (?:must not pass|harmless) \| ([^|]+) \| `", page, re.MULTILINE)
    assert set(shown) == {line.kind for line in read(*FORBIDDEN, *HARMLESS)}


def test_no_guide_is_too_long_to_be_read() -> None:
    words = {
        page.name: sum(len(line.split()) for line in _prose(page)) for page in PAGES if page.parent.name == "guide"
    }
    assert {name: count for name, count in words.items() if count > MOST_WORDS} == {}
