"""The site: every page has its place, and programs get the same pages as readers."""

import posixpath
import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from docs.printing import whole_site
from tests.docs.sources import ROOT

DOCS: Final = ROOT / "docs"
CONFIGURATION: Final = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
LINK: Final = re.compile(r"\]\(([^)\s]+)\)")


@cache
def _files() -> dict[str, str]:
    return whole_site.files()


def test_every_page_is_in_the_navigation_once() -> None:
    listed = [page.path for page in whole_site.pages(CONFIGURATION)]
    assert sorted(listed) == sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))


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


def test_pages_for_programs_have_no_remarks_of_ours_and_what_they_include() -> None:
    texts = _files()
    assert [path for path, text in texts.items() if re.search(r"^<!--|^--8<--", text, re.MULTILINE)] == []
    assert "\n## 0.1.0" in texts["changes.md"]


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


def test_the_files_are_written_beside_the_pages(tmp_path: Path) -> None:
    whole_site.main(tmp_path)
    written = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert written == set(_files())
    assert posixpath.join("guide", "plugins.md") in written
