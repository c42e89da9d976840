"""A request that is written as a test: the text passes as it is, and fails when what the model answered is changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import cast

import pytest
import trio
from trio.testing import MockClock

from agentrail import SessionHandle, SessionSpec, open_supervisor, tool
from agentrail.errors import TurnAborted
from agentrail.insight import seen
from agentrail.journals import MemoryJournal, Record
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, as_test, call, permanent, say, stall
from agentrail.tools import ToolError
from tests.host.console.hostile import TEXTS
from tests.kit import Element


@tool
async def lamp(room: str) -> str:
    """Look at a lamp."""
    if room == "cellar":
        raise ToolError("there is no light")
    return f"the lamp in the {room} is on"


def played(*script: Element, prompts: Sequence[str], held: Sequence[str] = ()) -> list[Record]:
    """Return the records of a session; a turn that does not end is aborted."""

    async def play() -> list[Record]:
        journal = MemoryJournal()
        plugins = [HumanApproval(tools=held)] if held else []
        spec = SessionSpec(model=ScriptedModel(script), tools=[lamp], plugins=plugins, system="Be short.")
        async with open_supervisor(journal=journal) as supervisor:
            session = await supervisor.spawn(spec)
            for prompt in prompts:
                await _said(session, prompt)
            return list(await journal.read(session.id, 0, 1_000))

    return trio.run(play, clock=MockClock(autojump_threshold=0))


async def _said(session: SessionHandle, prompt: str) -> None:
    with trio.move_on_after(1), suppress(TurnAborted):
        await session.ask(prompt)
    if session.status().turn_open:
        await session.abort()


def ran(text: str, number: int) -> None:
    """Run the test that *text* has for a round."""
    names: dict[str, object] = {}
    exec(text, names)  # noqa: S102 - ours
    cast("Callable[[], None]", names[f"test_round_{number}"])()


LAMPS = [call("lamp", {"room": "attic"}), call("lamp", {"room": "cellar"}), call("lamp", {"place": 1}), call("none")]
STORY = played(
    say("Hello.", thinking="A person."), say(calls=LAMPS), "One is on.", prompts=["Good morning", "Which lamp is on?"]
)


@pytest.mark.parametrize(
    ("number", "then", "now"),
    [
        (1, 'say("Hello."', 'say("Hi."'),
        (2, '{"room": "cellar"}), call', '{"room": "hall"}), call'),
        (3, 'say("One', 'say("None'),
    ],
)
def test_each_round_passes_and_fails_when_its_answer_is_changed(number: int, then: str, now: str) -> None:
    text = as_test(seen(STORY, number))
    assert text is not None
    ran(text, number)
    changed = text.replace(then, now, 1)
    assert changed != text
    with pytest.raises(AssertionError):
        ran(changed, number)


def test_it_reads_as_one_would_write_it() -> None:
    text = as_test(seen(STORY, 3))
    assert text is not None
    assert text.startswith('"""Round 3 of a session as a test')
    assert 'PROMPTS: list[PromptContent] = [\n    "Good morning",\n    "Which lamp is on?",\n]' in text
    assert '    say("One is on."),  # what it answered in round 3\n' in text
    assert "there is no light" in text


def test_turns_without_an_answer_are_ended_and_a_request_without_a_response_is_no_test() -> None:
    records = played(
        stall(text="one two", after=1), say(calls=[call("lamp", {"room": "attic"})]), "Yes.", prompts=["a", "b"]
    )
    assert as_test(seen(records, 1)) is None
    text = as_test(seen(records, 3))
    assert text is not None
    ran(text, 3)
    broken = played(permanent("no"), "Yes.", prompts=["a", "b"])
    assert as_test(seen(broken, 1)) is None
    text = as_test(seen(broken, 2))
    assert text is not None
    assert "this turn ended without an answer" in text
    ran(text, 2)


def test_a_call_that_was_held_and_dropped_has_its_result() -> None:
    records = played(
        say(calls=[call("lamp", {"room": "attic"})]), "It was not looked at.", prompts=["a", "b"], held=["lamp"]
    )
    text = as_test(seen(records, 2))
    assert text is not None
    ran(text, 2)


@pytest.mark.parametrize("text", [*TEXTS[::9], '"""', "\\", '\\"""', "\u202e", "\ud800", "\x00", "\r"])
def test_what_others_wrote_is_never_code(text: str) -> None:
    stored = "".join(text.encode(errors="replace").decode())
    records = played(
        say(stored, thinking=stored, calls=[call("lamp", {"room": stored})]), stored or "x", prompts=[stored or "x"]
    )
    for number in (1, 2):
        new_value = as_test(seen(records, number))
        assert new_value is not None
        ran(new_value, number)
