"""The search of the site finds a page by the words that other libraries use, in the browser's own engine."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Final, cast

import msgspec
import pytest

from docs.printing import whole_site
from tests.docs.sources import ROOT
from tests.host.browser.browsing import CHROMIUM, FLAGS, static_site

SITE: Final = ROOT / "build" / "site" / "html"

FIRST: Final = 4
"""How many pages of an answer a reader looks at."""

MISSED: Final = 5
"""The most queries that may not find their page."""

QUERIES: Final = (
    ("install", "install"),
    ("pip install", "install"),
    ("api key", "guide/models install"),
    ("quickstart", "tutorial"),
    ("structured output", "guide/answers"),
    ("output type", "guide/answers"),
    ("pydantic", "guide/answers coming-from/pydantic-ai"),
    ("json schema", "guide/answers"),
    ("dependency injection", "guide/tools"),
    ("deps", "guide/tools"),
    ("jupyter", "guide/asyncio"),
    ("notebook", "guide/asyncio"),
    ("asyncio", "guide/asyncio"),
    ("fastapi", "guide/asyncio guide/asgi"),
    ("azure", "guide/models"),
    ("ollama", "guide/models"),
    ("fallback model", "guide/models plugins/recovery"),
    ("cost", "guide/models plugins/budget-guard guide/limits"),
    ("token count", "guide/models guide/limits"),
    ("pytest", "guide/testing"),
    ("mock model", "guide/testing"),
    ("unit test", "guide/testing"),
    ("human in the loop", "guide/approvals"),
    ("approve tool call", "guide/approvals"),
    ("blocking tool", "guide/tools"),
    ("thread", "guide/tools guide/asyncio"),
    ("function calling", "guide/tools"),
    ("mcp", "guide/mcp"),
    ("rate limit", "guide/limits guide/models"),
    ("timeout", "guide/limits"),
    ("max iterations", "guide/limits"),
    ("budget", "plugins/budget-guard guide/limits"),
    ("sandbox", "guide/built-in-tools"),
    ("remote", "guide/remote"),
    ("streaming", "guide/events"),
    ("multi agent", "guide/agents guide/orchestrating"),
    ("subagent", "guide/agents guide/orchestrating"),
    ("handoff", "guide/agents"),
    ("cancel", "guide/steering"),
    ("interrupt", "guide/steering guide/approvals guide/ag-ui"),
    ("checkpoint", "guide/journal"),
    ("persistence", "guide/journal"),
    ("sqlite", "guide/journal"),
    ("postgres", "guide/postgres"),
    ("resume", "guide/journal guide/supervision"),
    ("retry", "plugins/recovery guide/supervision guide/models"),
    ("system prompt", "guide/system-prompt"),
    ("conversation history", "guide/journal guide/seen guide/limits"),
    ("memory", "guide/memory"),
    ("context window", "guide/limits"),
    ("guardrails", "guide/plugins plugins/security-guard plugins/content-policy"),
    ("middleware", "guide/plugins"),
    ("callbacks", "guide/plugins guide/events"),
    ("opentelemetry", "guide/tracing"),
    ("langsmith", "guide/tracing coming-from/langgraph"),
    ("docker", "guide/deploying guide/containers"),
    ("kubernetes", "guide/containers"),
    ("authentication", "guide/serving"),
    ("web ui", "guide/console"),
    ("websocket", "guide/serving guide/remote reference/http"),
    ("time travel", "guide/seen"),
    ("images", "guide/files guide/models"),
    ("vscode", "guide/editors"),
    ("windows", "guide/platforms"),
    ("logging", "plugins/event-logger guide/request-log guide/production"),
    ("workflow graph", "guide/orchestrating coming-from/langgraph"),
    ("redact", "guide/screening"),
    ("prompt caching", "plugins/prompt-cache"),
)
"""What a newcomer types, and the pages that would help, without `.md`."""

SEARCH: Final = """async queries => {
  const settings = JSON.parse(document.getElementById("__config").textContent);
  const worker = new Worker(new URL(settings.search, location));
  const ask = message => new Promise(answer => {
    worker.onmessage = ({ data }) => answer(data);
    worker.postMessage(message);
  });
  const index = await (await fetch(new URL("search/search_index.json", location))).json();
  await ask({ type: 0, data: { ...index, options: { suggest: false } } });
  const found = [];
  for (const query of queries) {
    const { data } = await ask({ type: 2, data: query });
    found.push(data.items.map(parts => parts[0].location));
  }
  return found;
}"""
"""Asks the worker of the theme, as its field for queries does: 0 is the index, 2 a query."""


def searched(queries: list[str]) -> list[list[str]]:
    """Return the addresses below the site that each query finds, the best first."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - it need not be installed

    with static_site(SITE) as origin, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page()
        page.goto(f"{origin}/")
        addresses = cast("list[list[str]]", page.evaluate(SEARCH, queries))
        browser.close()
        return addresses


@pytest.mark.long
@pytest.mark.skipif(
    not CHROMIUM.exists() or find_spec("playwright") is None or not (SITE / whole_site.SEARCH).exists(),
    reason="NOT PROVED: the search of the site is not tried: run `make browser-tools site` first",
)
def test_newcomers_find_pages_by_the_words_of_other_libraries() -> None:
    answers = searched([query for query, _ in QUERIES])
    missed = [
        f"{query}: {', '.join(addresses[:FIRST])}"
        for (query, pages), addresses in zip(QUERIES, answers, strict=True)
        if not any(address.partition("#")[0].rstrip("/") in pages.split() for address in addresses[:FIRST])
    ]
    assert len(missed) <= MISSED, "\n".join(missed)


def test_each_guide_says_what_others_call_its_subject() -> None:
    guides = [path for path in (ROOT / "docs" / "guide").glob("*.md") if path.name != "index.md"]
    assert [path.name for path in guides if not whole_site.words_of(path.read_text("utf-8"))] == []


def _score(query: str, page: str, text: str) -> float:
    """Return how well a page fits a query: by its name, its title and headings, its first sentences, its words."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL).lower()
    first = " ".join(prose.split("\n## ")[0].splitlines()[:6])
    headings = " ".join(re.findall(r"^#+ (.+)$", prose, re.MULTILINE))
    others = [word.lower() for word in whole_site.words_of(text)]
    places = ((page.replace("-", " "), 3.0), (prose.splitlines()[0], 3.0), (first, 2.0), (headings, 1.0))
    stems = [word[: max(3, len(word) - 2)] for word in query.lower().split()]
    return sum(
        sum(weight for place, weight in places if stem in place) + sum(2.0 for word in others if stem in word)
        for stem in stems
    ) + 10.0 * (query.lower() in others)


@pytest.mark.long
def test_pages_are_found_by_titles_headings_first_sentences_and_words() -> None:
    texts = {path.removesuffix(".md"): text for path, text in whole_site.texts().items()}
    missed = []
    for query, pages in QUERIES:
        ranked = sorted(texts, key=lambda page: -_score(query, page, texts[page]))[:FIRST]
        if not {*ranked} & {*pages.split()}:
            missed.append(f"{query}: {', '.join(ranked)}")
    assert len(QUERIES) >= 60
    assert len(missed) <= MISSED, "\n".join(missed)


def test_the_pages_that_help_are_on_the_site() -> None:
    pages = {path.removesuffix(".md") for path in whole_site.texts()}
    assert {page for _, wanted in QUERIES for page in wanted.split()} - pages == set()


NAME: Final = re.compile(r"[\w.]*[A-Z][\w.]*")
"""The name of a product, or an abbreviation."""


def test_a_page_to_which_a_name_leads_has_a_sentence_with_it() -> None:
    only_named = [
        f"{path}: {word}"
        for path, text in whole_site.texts().items()
        for word in whole_site.words_of(text)
        for name in NAME.findall(word)
        if name.lower() not in re.sub(r"^Others call it: .+$", "", text, flags=re.MULTILINE).lower()
    ]
    assert only_named == []


def test_the_words_are_tags_of_the_page() -> None:
    built = {
        "config": {"lang": ["en"]},
        "docs": [
            {"location": "guide/tools/", "title": "Write a tool"},
            {"location": "guide/tools/#from-a-function", "title": "From a function"},
            {"location": "", "title": "agentrail"},
        ],
    }
    texts = {"guide/tools.md": "# Write a tool\n\nOthers call it: deps, thread.\n", "index.md": "# agentrail\n"}
    index = whole_site.index_for_readers(msgspec.json.encode(built), texts)
    assert msgspec.json.decode(index) == {
        "config": {"lang": ["en"]},
        "docs": [
            {"location": "guide/tools/", "title": "Write a tool", "tags": ["deps", "thread"]},
            {"location": "guide/tools/#from-a-function", "title": "From a function"},
            {"location": "", "title": "agentrail"},
        ],
    }
