"""The inbox: what waits for a person, over all sessions, and each decision, with the keyboard alone too."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest

from tests.host.console.scenes import TRANSFER
from tests.host.console.visiting import Visitor, needs_browser, until, wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page

pytestmark = [needs_browser, pytest.mark.long]


def results(visitor: Visitor, session: str) -> list[str]:
    """Return the results of the calls in a session, as the model gets them."""
    messages = visitor.calls.get(f"/v1/sessions/{session}/messages").json()["items"]
    return ["".join(part["text"] for part in message["parts"]) for message in messages if message["$"] == "ToolMessage"]


def result(visitor: Visitor, session: str) -> str:
    """Return the result of the one call in a session, as soon as it is there."""
    wait_for(lambda: results(visitor, session) != [])
    (only,) = results(visitor, session)
    return only


APPROVE: Final = "role=button[name='Approve']"


def arguments_as_json(page: Page) -> str:
    page.click(".held summary:has-text('As JSON')")
    return page.locator("pre[aria-label=arguments]").inner_text()


def focused(page: Page) -> str:
    """Return the words of the element with the focus, without the key that stands in it."""
    return str(page.evaluate("document.activeElement.firstChild?.parentElement.innerText.split(/\\s{1,}(?=.$)/)[0]"))


def reject(page: Page, reason: str) -> None:
    page.click("role=button[name='Reject…']")
    page.fill("text=What should it do instead?", reason)
    page.click("role=button[name='Reject']")


def names(page: Page) -> list[str]:
    """Return the sessions of the list."""
    return page.locator(".inbox [role=row] .held-session").all_inner_texts()


def chosen_name(page: Page) -> str:
    """Return the session of the row that is chosen."""
    return page.locator("[aria-selected=true] .held-session").inner_text()


def in_list(page: Page) -> bool:
    """Whether the list has the focus, as after each decision that the host has taken."""
    return bool(page.evaluate("document.activeElement.role === 'grid'"))


def test_a_call_is_shown_with_its_exact_arguments_and_approved_once(visitor: Visitor) -> None:
    visitor.open("once", "pay")
    with visitor.page("/inbox") as page:
        assert page.inner_text(".held h2") == "Transfer BobU+202EecilAU+200B 9007199254740993"
        rows = dict(
            zip(
                page.locator(".arguments th").all_inner_texts(),
                page.locator(".arguments td").all_inner_texts(),
                strict=True,
            )
        )
        assert (rows["to"], rows["amount"], rows["rate"]) == ("BobU+202EecilAU+200B", "9007199254740993", "1.0")
        assert json.loads(rows["notes"]) == TRANSFER["notes"]
        arguments = arguments_as_json(page)
        assert "\\u202e" in arguments
        assert "\\u200b" in arguments
        assert "9007199254740993" in arguments
        assert '"rate": 1.0' in arguments
        assert list(json.loads(arguments)) == list(TRANSFER)
        assert json.loads(arguments) == json.loads(json.dumps(TRANSFER))
        assert page.locator(".held b").count() == 0
        page.click(APPROVE)
        page.wait_for_selector("text=Nobody waits for you")
        until(page, lambda: page.inner_text(".told") == "Approved: transfer")
    assert result(visitor, "once").startswith("sent 9007199254740993 to Bob\u202eecilA\u200b, 1.0")


def test_an_approval_for_always_lets_the_next_call_pass(visitor: Visitor) -> None:
    visitor.open("always", "pay")
    with visitor.page("/inbox") as page:
        page.click("role=button[name='Always…']")
        page.wait_for_selector(".held >> text=From now on this passes in this session, and nobody is asked: transfer")
        page.click("role=button[name='Approve always']")
        page.wait_for_selector("text=Nobody waits for you")
        visitor.post("/v1/sessions/always/prompt", {"message": "pay"})
        until(page, lambda: len(results(visitor, "always")) == 2)
        page.wait_for_selector("text=Nobody waits for you")


@pytest.mark.campaign
def test_a_call_is_approved_with_other_arguments(visitor: Visitor) -> None:
    visitor.open("edited", "pay")
    with visitor.page("/inbox") as page:
        page.click("role=button[name='Edit']")
        field = page.get_by_label("The arguments, as they are to run")
        edited = field.input_value()
        assert "9007199254740993" in edited
        field.fill("{")
        until(page, lambda: page.locator("text=Approve as edited").is_disabled())
        field.fill(edited.replace("9007199254740993", "18014398509481987").replace("\\u202e", "+"))
        page.click("text=Approve as edited")
        page.wait_for_selector("text=Nobody waits for you")
    assert result(visitor, "edited").startswith("sent 18014398509481987 to Bob+ecilA\u200b, 1.0")


def test_a_call_is_rejected_with_a_reason(visitor: Visitor) -> None:
    visitor.open("rejected", "pay")
    with visitor.page("/inbox") as page:
        reject(page, "Not to Bob.")
        page.wait_for_selector("text=Nobody waits for you")
    assert "Not to Bob." in result(visitor, "rejected")


def test_questions_are_answered_by_a_choice_or_in_words(visitor: Visitor) -> None:
    visitor.open("choice", "ask options")
    visitor.held("choice")  # it is the first
    visitor.open("words", "ask")
    with visitor.page("/inbox") as page:
        page.click("text=blue")
        until(page, lambda: names(page) == ["you.words"])
        page.fill("text=Your answer", "green")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=Nobody waits for you")
    assert result(visitor, "choice") == "blue"
    assert result(visitor, "words") == "green"


def test_what_waits_longest_is_first_and_what_a_sub_agent_asks_is_there(visitor: Visitor) -> None:
    for name in ("first", "second", "third"):
        visitor.open(name, "delegate pay" if name == "second" else "pay")
        visitor.held(name)
    with visitor.page("/inbox") as page:
        until(page, lambda: len(names(page)) == 3)
        assert [name.split(".")[1] for name in names(page)] == ["first", "second", "third"]
        page.locator("[role=row]", has_text="you.second").click()
        page.wait_for_selector(".held >> text=It is of a sub-agent: you.second")
        assert page.url.partition("#")[2].startswith("/inbox/you.second")
        page.reload()
        page.wait_for_selector(".held >> text=It is of a sub-agent: you.second")
        page.click(APPROVE)
        until(page, lambda: len(names(page)) == 2)
    visitor.end("first", "second", "third")


CAN_BE_DECIDED = ".held button:enabled[aria-keyshortcuts=a]"
"""What is there once the call that is shown could be read."""

PAUSE = 700
"""Milliseconds after which nobody types on."""

REPEATS = """() => {
  const key = { key: "a", repeat: true, bubbles: true };
  document.querySelector(".inbox [role=grid]").dispatchEvent(new KeyboardEvent("keydown", key));
}"""
"""Repeats a key, as one that is held does."""

DEAD_KEY = """() => {
  const key = { key: "Dead", bubbles: true };
  document.querySelector(".inbox [role=grid]").dispatchEvent(new KeyboardEvent("keydown", key));
}"""
"""Presses a key that only the next one completes, such as an accent."""

TYPES_AT_ONCE = """text => {
  const type = () => {
    if (window.early || !document.querySelector(".held button:disabled[aria-keyshortcuts=a]")) return;
    window.early = true;
    for (const key of text) {
      const target = document.activeElement === document.body ? window.list() : document.activeElement;
      target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
    }
  };
  window.list = () => document.querySelector(".inbox [role=grid]");
  new MutationObserver(type).observe(document.body, { attributes: true, childList: true, subtree: true });
}"""
"""Types a text as soon as a call has taken the place of another: half a second later it could be decided, and nobody
outside of the page can hit that for certain."""


def start(visitor: Visitor, page: Page, *sessions: str) -> None:
    """Have a call of each of *sessions* wait, and go to the list."""
    for name in sessions:
        visitor.open(name, "pay")
        visitor.held(name)
    until(page, lambda: len(names(page)) == len(sessions))
    page.focus(".inbox [role=grid]")
    page.wait_for_timeout(PAUSE)  # a card that nobody can have read is not decided by a letter


def test_a_key_that_is_held_and_a_second_click_decide_nothing_that_was_not_read(visitor: Visitor) -> None:
    with visitor.page("/inbox") as page:
        start(visitor, page, "d1", "d2", "d3")
        page.evaluate(TYPES_AT_ONCE, "aaaa")
        page.dblclick(APPROVE)
        until(page, lambda: len(names(page)) == 2)
        until(page, lambda: in_list(page))
        until(page, lambda: page.evaluate("window.early === true"))
        page.wait_for_selector(CAN_BE_DECIDED)
        page.evaluate(REPEATS)
        page.wait_for_timeout(PAUSE)
        assert len(names(page)) == 2
        page.keyboard.press("a")
        until(page, lambda: len(names(page)) == 1)
    visitor.end("d3")


@pytest.mark.parametrize("decide", ["a", "click"])
def test_a_rejection_that_is_typed_at_once_rejects(visitor: Visitor, decide: str) -> None:
    """The reason has each letter that is a shortcut elsewhere."""
    first, second, third = (f"{decide}{number}" for number in (1, 2, 3))
    with visitor.page("/inbox") as page:
        start(visitor, page, first, second, third)
        if decide == "a":
            page.keyboard.press("a")
        else:
            page.click(APPROVE)
        until(page, lambda: in_list(page) and len(names(page)) == 2)
        page.keyboard.press("r")
        page.keyboard.type("not all, real easy")
        page.keyboard.press("Enter")
        until(page, lambda: len(names(page)) == 1)
        assert "not all, real easy" in result(visitor, second)
        assert result(visitor, first).startswith("sent ")
    visitor.end(third)


def test_a_sentence_approves_nothing_whatever_it_begins_with(visitor: Visitor) -> None:
    sentences = ("also all of it", "look again later", "all\n", "edit all this\n", "ll", "l a", "not all\n", "reals\n")
    with visitor.page("/inbox") as page:
        for number, sentence in enumerate(sentences):
            first, second = f"s{number}", f"t{number}"
            start(visitor, page, first, second)
            page.keyboard.type(sentence)
            page.wait_for_timeout(PAUSE)
            page.keyboard.type(sentence)
            page.wait_for_timeout(PAUSE)
            assert not any("sent" in text for name in (first, second) for text in results(visitor, name)), sentence
            visitor.end(first, second)
            page.reload()
            page.wait_for_selector("text=Nobody waits for you")


def test_a_sentence_that_goes_on_where_a_button_is_decides_nothing(visitor: Visitor) -> None:
    with visitor.page("/inbox") as page:
        start(visitor, page, "b1", "b2")
        page.keyboard.press("Enter")
        until(page, lambda: focused(page) == "Approve")
        page.keyboard.type("yes but look first")
        page.keyboard.press("Enter")
        page.wait_for_timeout(PAUSE)
        assert len(names(page)) == 2
    visitor.end("b1", "b2")


def test_a_letter_that_mends_a_sentence_approves_nothing(visitor: Visitor) -> None:
    with visitor.page("/inbox") as page:
        start(visitor, page, "m1")
        for press in (lambda: page.keyboard.press("Backspace"), lambda: page.evaluate(DEAD_KEY)):
            page.keyboard.type("jav")
            press()
            page.keyboard.press("a")
            page.wait_for_timeout(PAUSE)
            assert names(page) == ["you.m1"]
    visitor.end("m1")


def test_a_letter_before_the_window_is_left_approves_nothing(visitor: Visitor) -> None:
    with visitor.page("/inbox") as page:
        start(visitor, page, "w1")
        page.keyboard.press("a")
        page.evaluate("dispatchEvent(new Event('blur'))")
        page.wait_for_timeout(PAUSE)
        assert names(page) == ["you.w1"]
    visitor.end("w1")


def test_enter_that_is_pressed_twice_approves_nothing(visitor: Visitor) -> None:
    with visitor.page("/inbox") as page:
        start(visitor, page, "e1")
        page.keyboard.press("Enter")
        page.keyboard.press("Enter")
        page.wait_for_timeout(PAUSE)
        assert focused(page) == "Approve"
        assert names(page) == ["you.e1"]
    visitor.end("e1")


def test_enter_that_is_held_approves_nothing(visitor: Visitor) -> None:
    with visitor.page("/inbox") as page:
        start(visitor, page, "h1", "h2")
        for _ in range(5):
            page.keyboard.down("Enter")  # from the second time on, it repeats
        page.keyboard.up("Enter")
        page.wait_for_timeout(PAUSE)
        assert len(names(page)) == 2
    visitor.end("h1", "h2")


def test_an_approval_for_always_by_the_keyboard_wants_enter(visitor: Visitor) -> None:
    with visitor.page("/inbox") as page:
        start(visitor, page, "l1")
        page.keyboard.press("l")
        until(page, lambda: focused(page) == "Approve always")
        page.keyboard.press("Escape")
        until(page, lambda: in_list(page))
        page.keyboard.press("l")
        until(page, lambda: focused(page) == "Approve always")
        page.wait_for_timeout(PAUSE)
        assert len(names(page)) == 1
        page.keyboard.press("Enter")
        page.wait_for_selector("text=Nobody waits for you")
        visitor.post("/v1/sessions/l1/prompt", {"message": "pay"})
        until(page, lambda: len(results(visitor, "l1")) == 2)


def test_what_is_folded_is_not_approved_by_one_key(visitor: Visitor) -> None:
    with visitor.page("/inbox") as page:
        visitor.open("f1", "pay much")
        visitor.held("f1")
        until(page, lambda: len(names(page)) == 1)
        page.focus(".inbox [role=grid]")
        page.wait_for_timeout(PAUSE)
        page.keyboard.press("a")
        until(page, lambda: focused(page) == "Approve")
        page.wait_for_timeout(PAUSE)
        assert len(names(page)) == 1
        page.keyboard.press("Enter")
        page.wait_for_selector("text=Nobody waits for you")


def test_it_is_done_with_the_keyboard_alone(visitor: Visitor) -> None:
    for name in ("k1", "k2", "k3", "k4"):
        visitor.open(name, "pay")
        visitor.held(name)  # so that none comes between the others later
    with visitor.page("/inbox") as page:
        until(page, lambda: len(names(page)) == 4)
        for _ in range(12):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.role") == "grid":
                break
        page.wait_for_timeout(PAUSE)
        page.keyboard.press("a")
        until(page, lambda: len(names(page)) == 3)
        until(page, lambda: in_list(page))
        first, chosen, *_ = names(page)
        until(page, lambda: chosen_name(page) == first)
        page.keyboard.press("ArrowDown")
        until(page, lambda: chosen_name(page) == chosen)
        page.keyboard.press("r")
        page.keyboard.type("No a e l.")
        page.keyboard.press("Enter")
        until(page, lambda: chosen not in names(page))
        until(page, lambda: in_list(page))
        page.keyboard.press("e")
        until(page, lambda: page.evaluate("document.activeElement.localName") == "textarea")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        until(page, lambda: len(names(page)) == 1)
        until(page, lambda: in_list(page))
        page.wait_for_selector(CAN_BE_DECIDED)
        page.keyboard.press("Enter")
        until(page, lambda: focused(page) == "Approve")
        page.wait_for_timeout(PAUSE)
        page.keyboard.press("Enter")
        page.wait_for_selector("text=Nobody waits for you")


@pytest.mark.campaign
def test_what_another_person_has_decided_leaves_the_list_and_a_late_decision_is_told(visitor: Visitor) -> None:
    visitor.open("both", "pay")
    with visitor.page("/inbox") as page, visitor.page("/inbox") as other:
        for tab in (page, other):
            tab.wait_for_selector(APPROVE)
        visitor.wire.cut()
        page.wait_for_selector("[data-state=lost]")
        page.click(APPROVE)  # it is sent when there is a connection
        visitor.post("/v1/sessions/both/reject", {"approval": visitor.held("both")})
        visitor.wire.mend()
        other.wait_for_selector("text=Nobody waits for you")
        until(page, lambda: "not" in page.inner_text(".told.bad"))
    visitor.end("both")


def test_the_navigation_and_the_tab_say_how_many_decisions_wait(visitor: Visitor) -> None:
    with visitor.page("/figures") as page:
        page.wait_for_selector("h1:text-is('Figures')")
        until(page, lambda: page.title() == "Figures · agentrail")
        visitor.open("counted", "pay")
        page.wait_for_selector("nav[aria-label=Rooms] .count")
        until(page, lambda: page.title().startswith("("))
        visitor.post("/v1/sessions/counted/label", {"title": "The rent"})
        page.evaluate("location.hash = '#/s/you.counted'")
        page.wait_for_selector("h1:has-text('The rent')")
        until(page, lambda: "The rent\u2069 · Conversation · agentrail" in page.title())
        page.wait_for_selector("nav[aria-label='Rooms of the session'] [aria-current]:text-is('Conversation')")
        page.evaluate("location.hash = '#/inbox'")
        page.wait_for_selector("[role=gridcell] >> text=The rent")
    visitor.end("counted")


def test_a_file_is_replaced_only_as_it_was_shown(visitor: Visitor, folder: Path) -> None:
    file = folder / "note.txt"
    file.write_text("one\ntwo\n")
    visitor.open("file", "write three")
    visitor.held("file")
    with visitor.page("/inbox") as page:
        change = page.locator("pre[aria-label=change]")
        until(page, lambda: "- one" in change.inner_text())
        assert change.inner_text().split("\n")[:3] == ["1   - one", "2   - two", "  1 + three"]
        file.write_text("three 4\n")
        page.click(APPROVE)
        until(page, lambda: "has changed since it was shown" in page.inner_text(".told.bad"))
        until(page, lambda: "- three 4" in change.inner_text())
        assert page.locator("pre[aria-label=change] mark").all_inner_texts() == [" 4"]
        assert file.read_text() == "three 4\n"
        page.click(APPROVE)
        page.wait_for_selector("text=Nobody waits for you")
        wait_for(lambda: file.read_text() == "three\n")
        page.evaluate("location.hash = '#/s/you.file'")
        until(page, lambda: change.inner_text().split("\n")[:2] == ["1   - three 4", "  1 + three"])
