"""The site for programs: `llms.txt`, each page as Markdown, all of them as one Markdown file, and the OpenAPI document.

`python -m docs.printing.whole_site build/site/html` writes them beside the pages that were built there, and gives the
index of the search the words that other libraries use.
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec
from attrs import frozen

from docs.printing import http_page
from docs.printing.source_text import Source

ROOT: Final = Path(__file__).parents[2]
WHOLE: Final = "agentrail.md"

SEARCH: Final = "search/search_index.json"
"""The index of the search that mkdocs-material builds; zensical has one of another kind, which is left as it is."""

DOCUMENT: Final = "reference/openapi.json"
"""Where the site has the OpenAPI document, with a sentence for each field."""

_SECTION: Final = re.compile(r"^  - (?P<title>[^:]+):$")
_ENTRY: Final = re.compile(r"^ +- (?P<title>[^:]+): (?P<path>\S+)$")
_SETTING: Final = re.compile(r"^(site_\w+): (.+)$", re.MULTILINE)
_NOTE: Final = re.compile(r"^- \[[^\]]+\]\((?P<path>[^)]+)\): (?P<note>.+)$", re.MULTILINE)
_COMMENT: Final = re.compile(r"^<!--.*?-->\n?", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"(\]\()([^)\s]+)(\))")
_ELSEWHERE: Final = re.compile(r"^Others call it: (?P<words>.+)\.$", re.MULTILINE)
_FENCED: Final = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


@frozen
class Page:
    """A page of the site, at its place in the navigation."""

    section: str
    """Title of the part of the navigation that the page is in."""
    title: str
    """Title of the page in the navigation."""
    path: str
    """Path below `docs/`."""


def pages(configuration: str) -> list[Page]:
    """Return the pages in the order of the navigation of *configuration*, the text of `mkdocs.yml`."""
    _, _, navigation = configuration.partition("\nnav:\n")
    listed: list[Page] = []
    section = ""
    for line in navigation.splitlines():
        if heading := _SECTION.match(line):
            section = heading["title"]
        elif entry := _ENTRY.match(line):
            listed.append(Page(section, entry["title"], entry["path"]))
    return listed


def for_programs(text: str) -> str:
    """Return the *text* of a page without comments."""
    return re.sub(r"\n{3,}", "\n\n", _COMMENT.sub("", text)).strip("\n") + "\n"


def with_links_from_root(text: str, path: str) -> str:
    """Return the *text* of the page *path* with links to other pages as paths below `docs/`."""

    def link(match: re.Match[str]) -> str:
        target = match[2]
        if "://" in target:
            return match[0]
        name, mark, anchor = target.partition("#")
        whole_path = posixpath.normpath(posixpath.join(posixpath.dirname(path), name)) if name else path
        return f"{match[1]}{whole_path}{mark}{anchor}{match[3]}"

    parts = _FENCED.split(text)
    return "".join(part if part.startswith("```") else _LINK.sub(link, part) for part in parts)


def whole(texts: Mapping[str, str], order: Iterable[Page]) -> str:
    """Return all pages as one text; each begins with its path, by which links name it."""
    parts = [f"Page: {page.path}\n\n{with_links_from_root(texts[page.path], page.path)}" for page in order]
    return "\n---\n\n".join(parts)


def index_for_programs(configuration: str, order: Iterable[Page], notes: Mapping[str, str]) -> str:
    """Return `llms.txt`: what the site is, and each page with what it has, as *notes* say."""
    settings = dict(_SETTING.findall(configuration))
    lines = [f"# {settings['site_name']}", "", f"> {settings['site_description']}", ""]
    lines.append(f"All pages as one file: [{WHOLE}]({WHOLE}).")
    section = ""
    for page in order:
        if page.section != section:
            section = page.section
            lines += ["", f"## {section}", ""]
        lines.append(f"- [{page.title}]({page.path}): {notes[page.path]}")
    return "\n".join([*lines, ""])


def notes_of(index: str) -> dict[str, str]:
    """Return what the front page says of other pages, by their paths."""
    return {match["path"]: match["note"] for match in _NOTE.finditer(index)}


def first_line(text: str) -> str:
    """Return the first line below the title of a page."""
    return next((line for line in text.splitlines()[1:] if line.strip()), "")


def texts() -> dict[str, str]:
    """Return the pages that the site has, as programs get them, by their paths below `docs/`."""
    order = pages((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    return {page.path: for_programs((ROOT / "docs" / page.path).read_text(encoding="utf-8")) for page in order}


def words() -> int:
    """Return how many words the site has, those that are printed from the code included."""
    return sum(len(text.split()) for text in texts().values())


def files() -> dict[str, str]:
    """Return the files for programs by their paths below the site."""
    configuration = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    order = pages(configuration)
    plain = texts()
    from_root = {path: with_links_from_root(text, path) for path, text in plain.items()}
    notes = {path: first_line(text) for path, text in from_root.items()}
    for path, text in from_root.items():
        if posixpath.basename(path) == "index.md":
            notes |= notes_of(text)
    index = index_for_programs(configuration, order, notes)
    return {**plain, WHOLE: whole(plain, order), "llms.txt": index}


def document() -> bytes:
    """Return the OpenAPI document with a sentence for each field, for those who read it without a host."""
    sources = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path.read_text("utf-8")
        for path in (ROOT / "agentrail").rglob("*.py")
    }
    return msgspec.json.format(msgspec.json.encode(http_page.described_document(Source(sources))), indent=2)


def words_of(text: str) -> list[str]:
    """Return what other libraries call the subject of a page, as its *text* says."""
    line = _ELSEWHERE.search(text)
    return line["words"].split(", ") if line else []


def index_for_readers(index: bytes, texts: Mapping[str, str]) -> bytes:
    """Return the *index* of the search with the words of each page in *texts*."""
    built = msgspec.json.decode(index, type=dict[str, object])
    entries = msgspec.convert(built["docs"], list[dict[str, object]])
    tags_by_location = {_location(path): words_of(text) for path, text in texts.items()}
    for entry in entries:
        if tags := tags_by_location.get(str(entry["location"])):
            entry["tags"] = tags  # a word there weighs more than one in a title
    return msgspec.json.encode({**built, "docs": entries})


def _location(path: str) -> str:
    """Return where the site has the page *path*."""
    return path.removesuffix(".md").removesuffix("index").rstrip("/") + "/"


def main(site: Path) -> None:
    """Write the files for programs into the folder *site*, and the words of other libraries into its search."""
    written = files()
    for path, text in written.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text, encoding="utf-8")
    (site / DOCUMENT).write_bytes(document())
    search = site / SEARCH
    if search.exists():
        search.write_bytes(index_for_readers(search.read_bytes(), written))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
