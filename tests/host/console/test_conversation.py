"""A session: its conversation as it streams, with all that belongs to it, and what one can do there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import pytest

from tests.host.console.scenes import picture
from tests.host.console.visiting import Visitor, items, needs_browser, until, words

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [needs_browser, pytest.mark.long]

IS_IN_SIGHT: Final = "it => { const at = it.getBoundingClientRect(); return at.top >= 0 && at.bottom <= innerHeight }"

APPLE: Final = "\u0430\u0440\u0440\u04cf\u0435"
"""Cyrillic letters that look like others."""

IS_AT_END: Final = """async () => {
  for (const _ of [1, 2]) await new Promise(requestAnimationFrame)
  const page = document.documentElement
  return page.scrollTop + page.clientHeight > page.scrollHeight - 40
}"""


def say(page: Page, text: str, way: str = "") -> None:
    """Write and send; *way* is when it is to count, while a turn is open."""
    page.fill("role=textbox[name='Message']", text)
    if way:
        page.click("role=button[name=/^When it counts/]")
        page.click(f"role=menuitemradio[name='{way}']")
    page.click("role=button[name='Send']")


STOP: Final = "role=button[name='Stop the turn']"


def is_at_end(page: Page) -> bool:
    """Return whether the end of the conversation is in sight, once all that was scrolled is drawn."""
    return cast("bool", page.evaluate(IS_AT_END))


def test_a_person_talks_and_the_answer_comes_as_markdown(visitor: Visitor) -> None:
    visitor.open("talk")
    with visitor.page("/s/talk") as page:
        say(page, "hello")
        until(page, lambda: items(page) == ["you hello", "You said: hello", "The turn is over."])
        assert page.locator(".answer").evaluate("it => getComputedStyle(it).fontWeight") == "400"
        page.fill("#say", "markdown")
        page.keyboard.press("Enter")
        until(page, lambda: page.locator(".note.end").count() == 2)
        assert page.text_content(".markdown h3") == "Heading"
        assert page.text_content(".markdown strong") == "bold"
        assert page.text_content(".markdown td >> nth=0") == "1"
        assert (page.text_content(".markdown pre") or "").strip() == 'print("hello")'
        links = page.locator(".markdown a")
        assert [link.get_attribute("href") for link in links.all()] == [
            "https://example.org/path",
            "https://example.org/x.png",
        ]
        assert "[example.org]" in words(page.locator(".markdown"))[-1]
        assert page.locator(".markdown img").count() == 0
        say(page, f"see https://{APPLE}.com/ and [apple](https://{APPLE}.com/)")
        until(page, lambda: page.locator(".answer a").count() == 4)
        assert words(page.locator(".markdown"))[-1].count("[xn--80ak6aa92e.com]") == 2, "it looks like no other host"
        assert page.locator(".answer a").nth(2).get_attribute("href") == "https://xn--80ak6aa92e.com/"
    visitor.end("talk")


def test_an_answer_is_shown_while_it_comes_is_steered_and_aborted(visitor: Visitor) -> None:
    visitor.open("stream", "wait")
    with visitor.page("/s/stream") as page:
        until(page, lambda: items(page) == ["you wait", "one two three"])
        until(page, lambda: page.inner_text(".live-line").strip() == "The model answers …")
        say(page, "a thing for later", "As a new turn")
        page.wait_for_selector(".queue >> text=a thing for later")
        page.click("role=button[name='Withdraw']")
        until(page, lambda: page.locator(".queue").count() == 0)
        say(page, "another thing", "Now, breaking off")
        until(page, lambda: any(item.startswith("you steers (applied)") for item in items(page)))
        until(page, lambda: items(page)[-2:] == ["You said: another thing", "The turn is over."])
        say(page, "wait")
        until(page, lambda: items(page)[-1:] == ["one two three"])
        page.press("#say", "Escape")
        until(page, lambda: items(page)[-1:] == ["The turn was aborted (user): stopped in the console"])
        until(page, lambda: page.inner_text(".live-line").strip() == "It waits for a prompt.")
    visitor.end("stream")


def test_what_is_written_while_a_call_waits_gives_it_up_only_after_a_question(visitor: Visitor) -> None:
    visitor.open("asks", "pay")
    held = visitor.held("asks")
    with visitor.page("/s/asks") as page:
        page.wait_for_selector(".held")
        page.fill("#say", "also check the tests")
        page.press("#say", "Enter")
        page.wait_for_selector("dialog >> text=What waits for a person is then not made.")
        page.keyboard.press("Enter")
        page.wait_for_selector("dialog", state="detached")  # the second Enter was a “No”
        assert visitor.held("asks") == held
        page.press("#say", "Enter")
        page.click("dialog >> role=button[name='Send']")
        page.wait_for_selector("text=You said: also check the tests")
    visitor.end("asks")


APPROVE: Final = "role=button[name='Approve']"

PRESSES_AT_ONCE: Final = """() => {
  new MutationObserver(() => {
    if (window.early || !document.querySelector(".held")) return;
    window.early = true;
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "a", bubbles: true, cancelable: true }));
  }).observe(document.body, { childList: true, subtree: true });
}"""
"""Presses the letter that approves as soon as a card is there."""

PAUSE: Final = 700
"""Milliseconds after which nobody types on."""


def test_a_call_is_decided_in_its_conversation(visitor: Visitor) -> None:
    visitor.open("here", "pay")
    with visitor.page("/s/here") as page:
        page.wait_for_selector(".held >> text=Transfer Bob")
        page.click(APPROVE)
        until(page, lambda: items(page)[-2:] == ["Done.", "The turn is over."])
        assert page.locator(".held").count() == 0
        visitor.post("/v1/sessions/here/prompt", {"message": "pay"})
        page.click("role=button[name='Reject…']")
        page.fill("text=What should it do instead?", "Ask Bob first.")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=rejected by you: Ask Bob first.")
        visitor.post("/v1/sessions/here/prompt", {"message": "ask options"})
        page.click(".held >> role=button[name='blue']")
        page.wait_for_selector("pre[aria-label=reply]:text-is('blue')")
    visitor.end("here")


def test_a_letter_beside_an_open_menu_decides_nothing(visitor: Visitor) -> None:
    visitor.open("covered", "pay")
    held = visitor.held("covered")
    with visitor.page("/s/covered") as page:
        page.wait_for_selector(".held >> role=button[name='Reject…']")
        page.click("role=button[name='More: suspend, compact, stop']")
        page.click(".menu code")  # its head takes no focus: the page has it
        for letter in "arel":
            page.keyboard.press(letter)
            page.wait_for_timeout(PAUSE)
        assert page.locator(".menu:popover-open").count() == 1
        assert (visitor.held("covered"), page.locator(".held input, .held textarea").count()) == (held, 0)
    visitor.end("covered")


def test_the_time_of_a_long_prompt_covers_nothing_of_it(visitor: Visitor) -> None:
    visitor.open("wide", "say " + "many words " * 40)
    for width in (1200, 390):
        with visitor.page("/s/wide", width=width) as page:
            until(page, lambda: page.locator(".asked-words").count() == 1)
            time, words = ".item-prompt > .item-at", ".asked-words"
            assert page.eval_on_selector(time, "it => getComputedStyle(it).backgroundColor") == "rgba(0, 0, 0, 0)"
            right = page.eval_on_selector(f"{time} a", "it => it.getBoundingClientRect().right")
            assert right <= page.eval_on_selector(words, "it => it.getBoundingClientRect().left + 1")
            side, tab = "role=button[name='Show the panel about the session']", ".tabs a:last-child"
            if page.locator(side).is_visible():
                left = page.locator(side).evaluate("it => it.getBoundingClientRect().left")
                assert page.eval_on_selector(tab, "it => it.getBoundingClientRect().right") <= left
    visitor.end("wide")


MARKED: Final = {
    "/now": (".to[aria-current]", ".choice [aria-pressed=true]"),
    "/inbox": ("[aria-selected=true]", ".held", ".count"),
    "/s/forced": (".tabs [aria-current]", ".held", ".pill"),
    "/s/forced/event/{seq}": ("[data-meant]",),
    "/s/forced/record/2": ("[aria-selected=true]",),
    "/s/forced/why/{call}": (".decided", ".subjects [aria-current]"),
    "/s/forced/seen/2": ("[data-cached=true]",),
}
"""What is chosen, held or marked in each room."""

LINES: Final = """it => {
  const { outlineStyle, borderBlockEndStyle, borderBlockEndWidth } = getComputedStyle(it)
  return outlineStyle === 'solid' || (borderBlockEndStyle === 'solid' && borderBlockEndWidth !== '0px')
}"""
"""Whether a line marks it: with forced colours there are no tints and no shadows."""


def test_with_forced_colours_what_is_chosen_held_or_marked_is_so_by_a_line(visitor: Visitor) -> None:
    visitor.open("forced", "hello", "cached", "pay")
    visitor.held("forced")
    call = visitor.calls.get("/v1/approvals").json()["items"][0]["call_id"]
    with visitor.page("/s/forced") as page:
        page.emulate_media(forced_colors="active")
        lines = page.locator(".tabs a").evaluate_all("its => its.map(it => getComputedStyle(it).borderBlockEndColor)")
        assert lines[0] != lines[1]
        assert lines[1:] == [lines[1]] * 3
        page.wait_for_selector(".item-prompt")
        seq = page.get_attribute(".item-prompt", "data-seq")
        for path, marked in MARKED.items():
            page.goto(f"{visitor.url}/#{path.format(call=call, seq=seq)}")
            for mark in marked:
                page.wait_for_selector(mark)
                assert page.eval_on_selector(mark, LINES), (path, mark)
        page.click("role=button[name='Settings']")
        assert page.evaluate(f"({LINES})(document.activeElement)")
    visitor.end("forced")


def test_letters_decide_in_the_conversation_and_none_that_is_written(visitor: Visitor) -> None:
    visitor.open("letters")
    with visitor.page("/s/letters") as page:
        page.evaluate(PRESSES_AT_ONCE)
        visitor.post("/v1/sessions/letters/prompt", {"message": "pay"})
        until(page, lambda: page.evaluate("window.early === true"))
        page.wait_for_timeout(PAUSE)
        held = visitor.held("letters")  # nobody can have read it when the letter came
        page.focus("#say")
        for letter in "aelr":
            page.keyboard.press(letter)
            page.wait_for_timeout(PAUSE)
        assert (page.input_value("#say"), visitor.held("letters")) == ("aelr", held)
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("r")
        until(page, lambda: page.evaluate("document.activeElement.localName") == "input")
        page.keyboard.press("Escape")
        page.wait_for_timeout(PAUSE)
        page.keyboard.press("a")
        until(
            page,
            lambda: (
                page.locator(".held").count() == 0
                or page.evaluate("document.activeElement.matches('[aria-keyshortcuts=a]')")
            ),
        )
        page.keyboard.press("Enter")  # the card may not have been in sight as a whole
        until(page, lambda: items(page)[-2:] == ["Done.", "The turn is over."])
    visitor.end("letters")


def test_steering_at_the_gap_waits_for_the_response(visitor: Visitor) -> None:
    visitor.open("gap", "count")
    with visitor.page("/s/gap") as page:
        page.wait_for_selector("text=one of many")
        say(page, "stop counting", "Next step")
        until(page, lambda: any(item.startswith("you steers") for item in items(page)))
    visitor.end("gap")


def test_calls_show_their_progress_their_arguments_and_results_folded(visitor: Visitor) -> None:
    visitor.open("calls", "count")
    with visitor.page("/s/calls") as page:
        page.wait_for_selector(".call >> text=one of many")
        until(page, lambda: words(page.locator(".call-state")) == ["Running"])
        page.click(STOP)
        until(page, lambda: words(page.locator(".call-state")) in (["Killed"], ["Abandoned"]))
        visitor.post("/v1/sessions/calls/prompt", {"message": "pay"})
        page.wait_for_selector("[data-state=held]")
        assert page.locator("pre[aria-label=arguments]").count() == 0
        page.click("text=Thinking")
        until(page, lambda: any("They mean Bob." in answer for answer in words(page.locator(".answer"))))
        page.locator("summary", has_text="transfer").click()
        assert "9007199254740993" in (page.text_content("pre[aria-label=arguments]") or "")
        visitor.post("/v1/sessions/calls/approve", {"approval": visitor.held("calls")})
        page.wait_for_selector("[data-state=done]")
        assert "sent 9007199254740993" in (page.text_content("pre[aria-label=result]") or "")
    visitor.end("calls")


def test_the_context_window_is_a_bar_by_layer_that_grows_with_the_rounds(visitor: Visitor) -> None:
    visitor.open("context", "hello")
    with visitor.page("/s/context") as page:
        context = page.get_by_role("region", name="Context")
        history = context.get_by_role("listitem").filter(has_text="History")
        history.wait_for()
        names = [row.split()[0] for row in context.get_by_role("listitem").all_inner_texts()]
        assert (names[0], names[-1]) == ("Tools", "History")
        assert "of 1M" in context.inner_text()
        assert "Compacted above 800,000 tokens" in context.inner_text()
        say(page, "word " * 4_000)
        until(page, lambda: int((history.get_attribute("title") or "0").split()[0].replace(",", "")) > 5_000)
    visitor.end("context")


def test_a_turn_that_only_a_person_makes_go_on_is_said_to_wait_for_one(visitor: Visitor) -> None:
    visitor.open("waits", "pay")
    with visitor.page("/s/waits") as page:
        until(page, lambda: page.inner_text(".live-line").strip() == "It waits for a person.")
        page.wait_for_selector("dd:text-is('needs you')")
        page.wait_for_selector(".pill:text-is('Needs you')")
        visitor.post("/v1/sessions/waits/approve", {"approval": visitor.held("waits")})
        until(page, lambda: page.inner_text(".live-line").strip() == "It waits for a prompt.")
    visitor.end("waits")


@pytest.mark.campaign
def test_sub_agents_are_branches_that_unfold(visitor: Visitor) -> None:
    visitor.open("parent", "delegate hello")
    with visitor.page("/s/parent") as page:
        page.click(".branch summary")
        page.wait_for_selector(".branch >> text=The helper heard: hello")
        page.locator(".call > details > summary", has_text="task").click()
        page.click("text=The sub-agent’s own page")
        page.wait_for_url("**/#/s/you.parent.c*")
        page.wait_for_selector("#say", state="detached")  # it has ended
        page.wait_for_selector(".session-items >> text=The helper heard: hello")
    visitor.end("parent")


@pytest.mark.campaign
def test_pictures_are_shown_and_sent(visitor: Visitor, tmp_path: Path) -> None:
    visitor.open("pictures", "draw")
    file = tmp_path / "red.png"
    file.write_bytes(picture())
    with visitor.page("/s/pictures") as page:
        picture_shown = page.locator("img.picture")
        until(page, lambda: picture_shown.evaluate("it => it.naturalWidth") == 1)
        page.set_input_files("input[type=file]", file)
        page.wait_for_selector("[aria-label='Pictures that go along'] >> text=red.png")
        say(page, "look")
        until(page, lambda: page.locator(".item-prompt img.picture").count() == 1)
    visitor.end("pictures")


def test_a_question_and_a_list_of_things_to_do_are_shown(visitor: Visitor) -> None:
    visitor.open("wonders", "todo", "ask options")
    with visitor.page("/s/wonders") as page:
        page.wait_for_selector(".side >> text=buy paper")
        page.wait_for_selector(".held >> text=Which colour?")
        visitor.post("/v1/sessions/wonders/respond", {"ref": visitor.held("wonders"), "answer": "blue"})
        page.wait_for_selector("pre[aria-label=reply]:text-is('blue')")
    visitor.end("wonders")


def test_what_failed_is_told(visitor: Visitor) -> None:
    visitor.open("fails", "break")
    with visitor.page("/s/fails") as page:
        page.wait_for_selector(".note.bad >> text=this will never work")
    visitor.end("fails")


def test_the_setup_of_a_session_is_changed(visitor: Visitor) -> None:
    visitor.open("setup", "hello")
    with visitor.page("/s/setup") as page:
        page.click(".side summary:has-text('Tools')")
        page.click("role=button[name='Remove draw']")
        page.wait_for_selector("text=removed tools: draw")
        page.click("role=button[name='Add a tool']")
        page.click("role=menuitem[name='draw']")
        page.wait_for_selector("text=new tools: draw")
        page.click(".side summary:text-is('Model')")
        page.fill("text=Options of the model", "{")
        page.click("button:text-is('Switch')")
        page.wait_for_selector(".told.bad >> text=JSON")
        page.fill("text=Options of the model", '{"temperature": 0.5}')
        page.click("button:text-is('Switch')")
        page.wait_for_selector("text=Other options for scripted")
        until(page, lambda: '"temperature": 0.5' in page.locator("text=Options of the model").input_value())
        page.click(".side summary:has-text('Plugins')")
        page.focus("role=button[name='Add a plugin']")
        page.keyboard.press("Enter")
        until(page, lambda: page.evaluate("document.activeElement.innerText") == "EventLogger")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=The plugin EventLogger was added.")
        page.click("role=button[name='Remove EventLogger']")
        page.wait_for_selector("text=The plugin EventLogger was removed.")
        for name, told in (("Compact the context", "Compacts"), ("Suspend", "Suspended"), ("Resume", "Resumed")):
            page.click("role=button[name=/^More/]")
            page.click(f"role=menuitem[name='{name}']")
            page.wait_for_selector(f".told >> text={told}")
        page.wait_for_selector("text=Nothing to compact")
    visitor.end("setup")


def test_options_of_a_plugin_are_a_form_with_their_values(visitor: Visitor) -> None:
    visitor.open("options", "hello")
    with visitor.page("/s/options") as page:
        page.click(".side summary:has-text('Plugins')")
        options = page.locator("form[aria-label='Options of HumanApproval']")
        timeout, change = options.locator("input"), options.locator("button")
        until(page, lambda: timeout.input_value() == "null")
        assert change.is_disabled(), "nothing is changed"
        timeout.fill("5 s")
        options.locator("text=Not a value that it can have: timeout").wait_for()
        assert change.is_disabled()
        timeout.fill("-5")
        change.click()
        page.wait_for_selector(".told.bad >> text=timeout")
        assert timeout.input_value() == "-5", "what was written is not lost"
        timeout.fill("5")
        change.click()
        page.wait_for_selector("text=Other options for the plugin HumanApproval")
        until(page, lambda: timeout.get_attribute("inputmode") == "decimal" and timeout.input_value() == "5")
    visitor.end("options")


def test_a_handoff_is_told_in_each_room(visitor: Visitor) -> None:
    visitor.open("handed", "hand")
    visitor.rest("handed")
    with visitor.page("/s/handed") as page:
        until(page, lambda: items(page)[-1:] == ["The turn is over."])
        text = (
            "scenes handed the conversation over to billing, which goes on. Its tools: transfer. Its model: accountant."
        )
        assert text in items(page)
        assert items(page)[-2:] == ["Done.", "The turn is over."]
        page.wait_for_selector(".side dd >> text=accountant")
        page.click("nav >> text=Timeline")
        page.wait_for_selector("[role=row] >> text=scenes handed the conversation over to billing")
        page.click("nav >> text=Why")
        page.fill("role=searchbox", "1")
        page.keyboard.press("Enter")
        page.wait_for_selector(".story-steps >> text=The conversation was handed over to billing, as the model asked")
    visitor.end("handed")


def test_a_session_is_forked_before_a_prompt(visitor: Visitor) -> None:
    visitor.open("origin", "one", "two")
    with visitor.page("/s/origin") as page:
        until(page, lambda: items(page)[-2:] == ["You said: two", "The turn is over."])
        page.locator(".item-prompt", has_text="two").locator("button").focus()
        page.keyboard.press("Enter")
        page.wait_for_selector("dialog >> text=takes no snapshots")
        assert page.locator("dialog >> role=button[name='Files']").is_disabled()
        page.click("dialog >> role=button[name='Words']")
        page.wait_for_selector("text=A fork, with the past")
        page.wait_for_selector(".past .item-prompt >> text=one")
        assert page.locator(".past .item-prompt", has_text="two").count() == 0
        page.click("text=Messages, as the model has them")
        page.wait_for_selector(".history >> text=You said: one")
        assert page.locator(".history >> text=two").count() == 0
    visitor.end("origin")


@pytest.mark.campaign
def test_what_is_shown_has_an_address(visitor: Visitor) -> None:
    visitor.open("addressed", *[f"word {number}" for number in range(60)])
    with visitor.page("/s/addressed") as page:
        until(page, lambda: "You said: word 59" in items(page))
        assert "you word 0" not in items(page)  # the last ones are shown at first
        # As a program that reads aloud presses it: without a wheel, a finger or a key.
        page.evaluate("scrollTo(0, 0); document.querySelector('.session-items button').click()")
        until(page, lambda: "you word 0" in items(page))
        page.locator(".item-prompt", has_text="word 3").first.locator(".item-at a").click()
        address = page.url
        page.goto("about:blank")
        page.goto(address)
        page.wait_for_selector("[data-meant]")
        meant = page.locator("[data-meant]")
        assert "word 3" in words(meant)[0]
        until(page, lambda: bool(meant.first.evaluate(IS_IN_SIGHT)))
    visitor.end("addressed")


def test_a_session_that_there_is_not_is_told(visitor: Visitor) -> None:
    with visitor.page("/s/nobody") as page:
        page.wait_for_selector("main [role=alert]")
        until(page, lambda: "nobody" in page.inner_text("main"))


def test_the_last_words_stay_in_sight_on_a_slow_machine(visitor: Visitor) -> None:
    session = "slow"
    visitor.open(session, *["markdown"] * 45)
    with visitor.page() as page:
        page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": 6})
        page.goto(f"{visitor.url}/#/s/{session}")
        page.wait_for_selector("text=Show what was before")
        until(page, lambda: items(page)[-1:] == ["The turn is over."] and is_at_end(page))
        page.locator("#main").hover()
        page.mouse.wheel(0, -4_000)
        until(page, lambda: not is_at_end(page))
        visitor.post(f"/v1/sessions/{session}/prompt", {"message": "hello"})
        page.wait_for_selector("text=You said: hello", state="attached")
        assert not is_at_end(page), "who reads what was before is not taken away from it"
    visitor.end(session)


def test_a_prompt_asks_before_it_throws_a_held_call_away(visitor: Visitor) -> None:
    visitor.open("careful", "pay")
    with visitor.page("/s/careful") as page:
        page.wait_for_selector("[data-state=held]")
        page.fill("#say", "hello")
        say(page, "hello", "As a new turn")
        page.click("dialog >> role=button[name='No']")
        page.press("#say", "Escape")
        page.wait_for_selector("dialog >> text=Stop the turn all the same?")
        page.keyboard.press("Escape")
        assert visitor.calls.get("/v1/sessions/careful").json()["status"]["held"]
        page.click("role=button[name='Send']")
        page.click("dialog >> role=button[name='Send']")
        page.wait_for_selector(".answer >> text=You said: hello")
        assert not visitor.calls.get("/v1/sessions/careful").json()["status"]["held"]
    visitor.end("careful")
