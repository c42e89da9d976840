"""Pages: every link leads somewhere, and what is written is shown as it is meant."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from pathlib import Path

from tests.docs.pages import PAGES, blocks_of, programs_of
from tests.docs.sources import ROOT
from tests.each_case import each_case

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$")
_BEGINS = re.compile(r"\||[-*] |\d+\. ")
_GOES_ON = re.compile(r"\||[-*] |\d+\. |  ")
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


def test_every_block_is_python_with_its_output_or_for_a_reader() -> None:
    blocks = [(page.name, block.language) for page in PAGES for block in blocks_of(page)]
    languages = {language for name, language in blocks if (name, language) != ("contributing.md", "py")}
    # `py` on that page uses the kits of our tests, which `test_kits` runs
    assert languages <= {"console", "python", "text", "sh", "toml", "json", "js", "typescript"}


@each_case(PAGES)
def test_tables_and_lists_begin_after_a_blank_line(page: Path) -> None:
    """Else they are text on the site."""
    pairs = pairwise(["", *_prose(page)])
    begun = [line for above, line in pairs if _BEGINS.match(line) and above and not _GOES_ON.match(above)]
    assert begun == []


def test_the_third_example_of_the_readme_is_short() -> None:
    property_test = programs_of(ROOT / "README.md")[2].parts[0][0].text
    assert len([line for line in property_test.splitlines() if line.strip()]) <= 15


def test_no_guide_is_too_long_to_be_read() -> None:
    words = {
        page.name: sum(len(line.split()) for line in _prose(page)) for page in PAGES if page.parent.name == "guide"
    }
    assert {name: count for name, count in words.items() if count > MOST_WORDS} == {}
