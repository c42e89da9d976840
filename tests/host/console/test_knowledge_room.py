"""The room Knowledge: documents come and go, passages are found and opened in their documents, citations are listed."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pytest

from tests.host.console.test_looks import AXE, RUN, WIDE
from tests.host.console.visiting import Visitor, needs_browser, until, visiting

pytestmark = [
    needs_browser,
    pytest.mark.skipif(not AXE.exists(), reason="NOT PROVED: axe is not installed: run `make console-tools` first"),
    pytest.mark.long,
]

MARKUP: Final = "<img src=x onerror=owned=1>"
GUIDE: Final = (
    "# Holidays 😀\n\nEach clerk has 30 days.\n\n## Carry over\n\nFive days may be carried over to March 😀.\n"
)
HOSTILE: Final = f"# {MARKUP}\n\n<script>owned=1</script> [a](javascript:owned=1) \u202egnp.exe\n"
LONG: Final = "".join(
    f"## Rule {number}\n\nRule {number} says what rule {number + 1} does not.\n\n" for number in range(900)
)
DOCUMENTS: Final = {
    "rules/holidays.md": GUIDE,
    f"{MARKUP}.md": HOSTILE,
    "long.md": LONG,
    "חופשה.md": "חופשה",
    **{f"many/{number:03}.md": f"Document {number}." for number in range(150)},
}


@pytest.fixture(scope="module")
def clerk(tmp_path_factory: pytest.TempPathFactory) -> Generator[Visitor]:
    """A host of an agent that cites what it is told."""
    folder = tmp_path_factory.mktemp("knowledge")
    with visiting(folder, str(Path(__file__).with_name("knowledge_scenes.py"))) as opened:
        with opened.page("/knowledge") as page:
            page.wait_for_selector("text=No document yet")
            page.wait_for_selector("code >> text=curl -T start.md")
        for name, text in DOCUMENTS.items():
            put(opened, name, text)
        words = f"It is 30 [[rules/holidays.md#0]], see [[gone.md#2]] and [[{MARKUP}.md#0]]."
        opened.post("/v1/chat", {"session": "asked", "message": words})
        yield opened


def put(visitor: Visitor, name: str, text: str, store: str = "handbook") -> None:
    answer = visitor.calls.put(f"/v1/knowledge/{store}/documents/{quote(name, safe='')}", content=text.encode())
    assert answer.is_success, answer.text


def test_documents_are_listed_opened_and_removed_with_a_question(clerk: Visitor) -> None:
    put(clerk, "aaa old.md", "Old.")
    with clerk.page("/knowledge") as page:
        page.wait_for_selector(f"[aria-pressed=true] >> text={len(DOCUMENTS) + 1}")
        assert page.locator("main :is(img, script, iframe)").count() == 0
        row = page.locator("[role=row]", has_text="aaa old.md")
        assert "4" in row.inner_text()
        row.locator("role=button[name='More about aaa old.md']").click()
        page.click("role=menuitem[name='Remove…']")
        page.wait_for_selector("dialog >> text=aaa old.md cannot be found any more")
        assert page.evaluate("document.activeElement.innerText") == "No"
        page.keyboard.press("Enter")
        page.wait_for_selector("dialog", state="hidden")
        assert row.count() == 1
        row.locator("role=button[name='More about aaa old.md']").click()
        page.click("role=menuitem[name='Remove…']")
        page.click("role=button[name='Remove it']")
        page.wait_for_selector("text=Removed")
        until(page, lambda: row.count() == 0)
        page.wait_for_selector(f"[aria-pressed=true] >> text={len(DOCUMENTS)}")
        page.focus("role=grid")
        last = page.locator("[role=row]", has_text="חופשה.md")

        def is_there() -> bool:
            page.keyboard.press("End")
            return last.count() == 1

        until(page, is_there)
        page.keyboard.press("Home")
        page.keyboard.press("Enter")
        page.wait_for_url("**/#/knowledge/handbook/*img*")
        page.wait_for_selector("pre >> text=<script>owned=1</script>")
        assert page.locator(".hidden-mark").inner_text() == "U+202E"
        assert page.locator("main :is(img, script, iframe)").count() == 0
    answer = clerk.calls.get("/v1/knowledge/handbook/documents/aaa%20old.md")
    assert answer.status_code == 404


def test_files_are_added_and_what_is_refused_is_told(clerk: Visitor) -> None:
    refused = pytest.raises(AssertionError, match=r"Failed to load resource: .* 422")  # the browser logs each refusal
    with refused, clerk.page("/knowledge/notes") as page:
        page.wait_for_selector("text=there is no store `notes`")
        files = page.locator("input[type=file]")
        files.set_input_files({"name": "new.md", "mimeType": "text/markdown", "buffer": b"# New\n\nWords."})
        page.wait_for_selector("[role=row] >> text=new.md")
        files.set_input_files({"name": "new.pdf", "mimeType": "application/pdf", "buffer": b"%PDF-1.7\xff"})
        page.wait_for_selector(".told [role=alert] >> text=new.pdf")
        assert page.locator("[role=row][data-id]").count() == 1
    assert clerk.calls.delete("/v1/knowledge/notes").is_success


def test_what_is_found_leads_to_its_place_in_the_document(clerk: Visitor) -> None:
    with clerk.page("/knowledge") as page:
        page.wait_for_selector("role=grid")
        page.keyboard.press("/")
        page.keyboard.type("carried over to march")
        assert page.locator(".passages").count() == 0, "nothing is looked for while somebody writes"
        page.keyboard.press("Enter")
        first = page.locator(".passages > li").first
        first.wait_for()
        assert "Holidays 😀 > Carry over" in first.inner_text()
        assert "query=carried" in page.url
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        page.wait_for_url("**/#/knowledge/handbook/rules%2Fholidays.md?start=*")
        assert page.locator("mark").inner_text().strip() == GUIDE[GUIDE.index("## Carry") :].strip()
        page.go_back()
        page.wait_for_selector(".passages > li")
        assert page.input_value("input[type=search]") == "carried over to march"
    with clerk.page("/knowledge/handbook?query=xyzzy") as page:
        page.wait_for_selector("text=Nothing was found")


def test_a_passage_far_down_is_in_sight_and_there_is_more_around_it(clerk: Visitor) -> None:
    found = clerk.calls.get("/v1/knowledge/handbook/search", params={"query": "rule 700"}).json()["items"]
    passage = next(item for item in found if item["document"] == "long.md")
    where = f"start={passage['start']}&end={passage['end']}"
    with clerk.page(f"/knowledge/handbook/long.md?{where}") as page:
        mark = page.locator("mark")
        assert mark.inner_text().strip() == passage["text"].strip()
        box = mark.bounding_box()
        assert box is not None
        assert 0 < box["y"] < 900
        page.click("role=button[name='Later']")
        until(page, lambda: mark.count() == 0)
        page.click("role=button[name='Earlier']")
        page.wait_for_selector("mark")
    for odd in ("start=x&end=-1", "start=999999999999999&end=999999999999999", "start=5&end=2"):
        with clerk.page(f"/knowledge/handbook/rules%2Fholidays.md?{odd}") as page:
            page.wait_for_selector(f"text=of {len(GUIDE)}")
            assert page.locator("mark").count() == 0


def test_the_citations_of_a_session_are_listed(clerk: Visitor) -> None:
    with clerk.page("/knowledge") as page:
        page.click("role=button[name='Cited']")
        page.click("text=Choose a session")
        page.click("role=menuitemradio[name='you.asked']")
        rows = page.locator(".passages > li")
        until(page, lambda: rows.count() == 3)
        assert page.locator(".passages >> text=not in the store").count() == 1
        assert "session=you.asked" in page.url
        rows.first.locator("a").click()
        page.wait_for_selector("mark >> text=Each clerk has 30 days")


@pytest.mark.parametrize(("width", "dark"), [(320, True), (1600, False)])
def test_it_is_for_everybody(clerk: Visitor, width: int, *, dark: bool) -> None:
    waited = {
        "/knowledge": "[role=row][data-id]",
        "/knowledge/handbook?query=clerk": ".passages > li",
        "/knowledge/handbook?session=you.asked": ".passages > li",
        "/knowledge/handbook/rules%2Fholidays.md?start=2&end=9": "mark",
        "/knowledge/nothing": "main [role=alert]",
    }
    for path, selector in waited.items():
        with clerk.page(path, width=width, dark=dark) as page:
            page.wait_for_selector(selector)
            page.evaluate(AXE.read_text("utf-8"))
            assert page.evaluate(RUN) == [], path
            until(page, lambda page=page: page.evaluate(WIDE) == [])  # type: ignore[misc]
