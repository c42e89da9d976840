"""The site: every page has its place, and programs get the same pages as readers."""

import posixpath
import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from agentrail import SessionHandle, Supervisor
from agentrail.events import EVENTS
from docs.printing import whole_site
from tests.docs.sources import ROOT

DOCS: Final = ROOT / "docs"
CONFIGURATION: Final = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
MOST_WORDS: Final = 120_000
"""The most words of the site, counted as `wc -w` does, with all that is printed from the code."""
GROUPS: Final = ["Start", "Build", "Test", "Run", "Integrate", "Extend", "Reference"]
LINK: Final = re.compile(r"\]\(([^)\s]+)\)")


@cache
def _files() -> dict[str, str]:
    return whole_site.files()


def test_every_page_for_users_is_in_the_navigation_once() -> None:
    listed = [page.path for page in whole_site.pages(CONFIGURATION)]
    written = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    beside = {path for path in written if path == "contributing.md" or path.startswith("design/")}
    assert sorted(listed) == sorted(written - beside)
    assert re.findall(r"^  /(design/|contributing\.md)$", CONFIGURATION, re.MULTILINE) == ["contributing.md", "design/"]


def test_no_page_of_the_site_leads_to_what_stands_beside_the_code() -> None:
    listed = {page.path for page in whole_site.pages(CONFIGURATION)}
    targets = {
        (page, target.partition("#")[0])
        for page, text in whole_site.texts().items()
        for target in LINK.findall(whole_site.with_links_from_root(text, page))
    }
    assert [link for link in targets if link[1].endswith(".md") and link[1] not in listed] == []


def test_the_site_is_short_enough_to_be_read() -> None:
    assert whole_site.words() <= MOST_WORDS


def test_guides_are_grouped_by_what_a_reader_does_and_the_first_pages_come_first() -> None:
    listed = whole_site.pages(CONFIGURATION)
    assert [*dict.fromkeys(page.section for page in listed)] == GROUPS
    guides = [page.path for page in listed if page.path.startswith("guide/")]
    assert guides[:2] == ["guide/twelve-methods.md", "guide/eight-events.md"]
    headings = re.findall(r"^## (.+)$", (DOCS / "guide" / "index.md").read_text("utf-8"), re.MULTILINE)
    assert headings == [group for group in GROUPS if group != "Reference"]


def test_the_site_needs_no_plugin_no_other_theme_and_no_other_host() -> None:
    settings, _, _ = CONFIGURATION.partition("\nnav:\n")
    assert re.findall(r"^plugins:|custom_dir|hooks:|https?://", settings, re.MULTILINE) == []
    assert "\n  font: false\n" in settings


def test_every_link_between_pages_leads_to_a_page_of_the_whole_file() -> None:
    whole = _files()[whole_site.WHOLE]
    named = set(re.findall(r"^Page: (\S+)$", whole, re.MULTILINE))
    assert named == {page.path for page in whole_site.pages(CONFIGURATION)}
    prose = re.sub(r"^```.*?^```$", "", whole, flags=re.MULTILINE | re.DOTALL)
    for target in LINK.findall(prose):
        path = target.partition("#")[0]
        assert "://" in target or path in named or (DOCS / path).exists(), target


def test_the_list_for_programs_says_of_each_page_what_it_has() -> None:
    title, blank, summary, *rest = _files()["llms.txt"].splitlines()
    assert title == "# agentrail"
    assert not blank
    assert summary.startswith("> ")
    rows = [row for line in rest if (row := re.fullmatch(r"- \[[^\]]+\]\((\S+\.md)\): (.+)", line))]
    assert [row[1] for row in rows] == [page.path for page in whole_site.pages(CONFIGURATION)]
    assert all(len(row[2]) > 10 for row in rows)


def test_pages_for_programs_have_no_remarks_of_ours() -> None:
    assert [path for path, text in _files().items() if re.search(r"^<!--", text, re.MULTILINE)] == []


@pytest.mark.parametrize(
    ("path", "link", "expected"),
    [
        ("guide/tools.md", "[a](plugins.md#guards)", "[a](guide/plugins.md#guards)"),
        ("guide/tools.md", "[a](../index.md)", "[a](index.md)"),
        ("guide/tools.md", "[a](#many-tools)", "[a](guide/tools.md#many-tools)"),
        ("guide/tools.md", "[a](https://example.com/b)", "[a](https://example.com/b)"),
        ("index.md", "```python\nx = y[a](b)\n```", "```python\nx = y[a](b)\n```"),
    ],
)
def test_links_are_paths_from_the_root(path: str, link: str, expected: str) -> None:
    assert whole_site.with_links_from_root(f"{link}\n", path) == f"{expected}\n"


@pytest.mark.long
def test_the_files_are_written_beside_the_pages(tmp_path: Path) -> None:
    whole_site.main(tmp_path)
    written = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert written == {*_files(), whole_site.DOCUMENT}
    assert posixpath.join("guide", "plugins.md") in written


def _first_cells(page: str) -> list[str]:
    text = (DOCS / "guide" / page).read_text("utf-8")
    return re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)


def test_there_are_twelve_methods_and_eight_events_to_begin_with() -> None:
    methods = [re.fullmatch(r"(supervisor|session)\.(\w+)\(.*\)", cell) for cell in _first_cells("twelve-methods.md")]
    owners = {"supervisor": Supervisor, "session": SessionHandle}
    assert [match is not None and hasattr(owners[match[1]], match[2]) for match in methods] == [True] * 12
    assert {*_first_cells("eight-events.md")} <= {event.__name__ for event in EVENTS}
    assert len(_first_cells("eight-events.md")) == 8


def test_the_readme_shows_what_it_is_three_examples_and_links() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(re.findall(r"^```python$", text, re.MULTILINE)) == 3
    assert re.findall(r"^\|", text, re.MULTILINE) == []
    assert len(re.findall(r"^```sh\n(?:make .+\n){2}```$", text, re.MULTILINE)) == 1
    assert len(text.split()) <= 1_000
