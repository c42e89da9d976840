"""What a copy lacks that ends before a prompt."""

from __future__ import annotations

from typing import cast

from agentrail import AnySession
from agentrail.cli.talk.taken_prompts import READERS, TakenPrompt, preview
from agentrail.tools import EffectClass, standard_tools


def prompt(text: str, *calls: str) -> TakenPrompt:
    return TakenPrompt(cast("AnySession", None), 1, "p1", text, calls)


def test_a_preview_tells_what_goes_and_what_stays_done() -> None:
    assert preview([prompt("a")]) == ("  goes: this prompt, with the answer", "  nothing else was done since")
    assert preview([prompt("a", "shell command=a"), prompt("b")]) == (
        "  goes: this prompt and 1 after it, with the answers",
        "  stays done: shell command=a",
    )
    many = preview([prompt("a", "1", "2"), prompt("b", "3", "4", "5")])
    assert many[1:] == ("  stays done: 2 earlier calls", "  stays done: 3", "  stays done: 4", "  stays done: 5")


def test_a_prompt_is_one_row() -> None:
    assert prompt("one\ntwo").row(3) == "3. one two"


def test_only_tools_that_leave_nothing_behind_are_left_out() -> None:
    effects = {tool.spec.name: tool.spec.effect for tool in standard_tools()}
    assert {name for name, effect in effects.items() if effect is EffectClass.PURE} <= READERS
