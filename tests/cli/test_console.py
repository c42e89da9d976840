import io
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TextIO, cast

import pytest
import trio
import trio.testing

from agentrail import SessionHandle, SessionSpec, open_supervisor
from agentrail.cli.output.screen_question import SEEN
from agentrail.cli.talk.console import Console
from agentrail.cli.talk.terminal import Terminal
from agentrail.events import Cursor
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, call, permanent, say, stall, transient
from agentrail.tools import AskPerson, Effect, tool
from tests.kit import Element

PATIENCE = 20


class ShownText(io.StringIO):
    """What a person sees, and a way to wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self._more = trio.Event()
        self._read_to = 0

    def write(self, text: str, /) -> int:
        self._more.set()
        return super().write(text)

    async def wait_for(self, text: str) -> str:
        """Return what was shown from the last time on, up to and with *text*."""
        index = -1
        with trio.move_on_after(PATIENCE):
            while (index := self.getvalue().find(text, self._read_to)) < 0:
                self._more = trio.Event()
                await self._more.wait()
        assert index >= 0, f"waited for {text!r} behind {self.getvalue()[self._read_to :]!r}"
        start, self._read_to = self._read_to, index + len(text)
        return self.getvalue()[start : self._read_to]


class Person:
    """Somebody at one end of two pipes, and the session at the other."""

    def __init__(self, input_descriptor: int, screen: ShownText, session: SessionHandle) -> None:
        self._input_descriptor = input_descriptor
        self.screen = screen
        self.session = session
        self.has_left = trio.Event()

    async def says(self, text: str, answer: str) -> str:
        """Type *text*, and return what is shown until *answer*."""
        os.write(self._input_descriptor, f"{text}\n".encode())
        return await self.screen.wait_for(answer)

    async def leaves(self) -> None:
        os.write(self._input_descriptor, b"/quit\n")
        with trio.fail_after(PATIENCE):
            await self.has_left.wait()


@contextmanager
def a_pipe() -> Generator[tuple[TextIO, int], None, None]:
    ours, theirs = os.pipe()
    with os.fdopen(ours) as source, os.fdopen(theirs, "wb"):
        yield source, theirs


@asynccontextmanager
async def talking(script: Iterable[Element], helper: SessionSpec | None = None) -> AsyncGenerator[Person, None]:
    spec = SessionSpec(
        model=ScriptedModel(script),
        tools=(ask_user, burn),
        plugins=(HumanApproval(tools=("burn",), timeout=None),),
        agents={} if helper is None else {"helper": helper},
        retry_base=0,
    )
    with a_pipe() as (source, theirs):
        async with open_supervisor(seed=1) as supervisor, trio.open_nursery() as nursery:
            session = await supervisor.spawn(spec)
            person = Person(theirs, ShownText(), session)

            nursery.start_soon(converse, person, source, None)
            yield person
            await person.leaves()


async def converse(person: Person, source: TextIO, past: Cursor | None) -> None:
    await Console(person.session, Terminal(source, person.screen), past=past).run()
    person.has_left.set()


@asynccontextmanager
async def joining(session: SessionHandle) -> AsyncGenerator[Person, None]:
    """Somebody else, who comes to a session that has a past."""
    async with session.subscribe() as events:
        past = events.position
    with a_pipe() as (source, theirs):
        async with trio.open_nursery() as nursery:
            person = Person(theirs, ShownText(), session)
            nursery.start_soon(converse, person, source, past)
            yield person
            await person.leaves()


@tool
async def ask_user(question: str) -> Effect:
    """Ask the person."""
    await trio.lowlevel.checkpoint()
    return Effect(AskPerson(question, ("tea", "coffee")))


@tool
async def burn(what: str) -> str:
    """Burn something."""
    await trio.lowlevel.checkpoint()
    return f"burnt {what}"


@pytest.mark.parametrize(("text", "answer"), [("2", "coffee"), ("3", "3"), ("water", "water")])
async def test_a_question_of_the_agent_is_answered(text: str, answer: str) -> None:
    script: list[Element] = [say("Hm.", calls=[call("ask_user", {"question": "What will it be?"})]), "Fine."]
    async with talking(script) as person:
        assert await person.says("drink", "2. coffee\n") == (
            "> drink\nHm.\n  → ask_user question=What will it be?\n? What will it be?\n    1. tea\n    2. coffee\n"
        )
        assert await person.says("", "\n") == "  Type an answer, please.\n"
        assert await person.says(text, "Fine.\n\n") == (f"  ✓ ask_user: {answer}\n  goes on (user respond)\nFine.\n\n")


async def test_what_goes_of_named_files_is_told_before_the_prompt_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("tea\n" * 12)
    async with talking(["Read.", "Well."]) as person:
        seen = await person.says("see @notes.txt @note.txt @ann", "Read.\n\n")
        assert seen.startswith("  @notes.txt 12 lines · @note.txt: no such file (did you mean `@notes.txt`?)\n> see ")
        assert await person.says("hello @ann", "Well.\n\n") == "> hello @ann\nWell.\n\n"


async def test_calls_that_wait_are_asked_about_one_at_a_time() -> None:
    script: list[Element] = [say(calls=[call("burn", {"what": "toast"}), call("burn", {"what": "books"})]), "Well."]
    async with talking(script) as person:
        first = await person.says("burn all", "[e]dit\n")
        assert first.count("waits for your approval") == 1
        assert "    what: toast\n" in first
        second = await person.says("y", "[e]dit\n")
        assert "  approved: burn\n" in second
        assert "    what: books\n" in second
        assert "  rejected: burn: not these\n" in await person.says("n not these", "Well.\n\n")


async def test_a_line_that_was_typed_before_the_question_is_no_answer_to_it() -> None:
    spec = SessionSpec(
        model=ScriptedModel([say(calls=[call("burn", {"what": "toast"})]), "Well."]),
        tools=(burn,),
        plugins=(HumanApproval(tools=("burn",), timeout=None),),
    )
    lines = ["thanks for that"] * 9 + ["yes, do go on"]
    person_end, our_end = os.openpty()
    with os.fdopen(our_end) as source, os.fdopen(person_end, "wb"):
        async with open_supervisor(seed=1) as supervisor, trio.open_nursery() as nursery:
            session = await supervisor.spawn(spec)
            await session.ask("burn")
            person = Person(person_end, ShownText(), session)
            os.write(person_end, "".join(f"{text}\n" for text in lines).encode())
            nursery.start_soon(converse, person, source, None)
            for text in lines:
                await person.screen.wait_for(f"✗ not sent, for there is a question first: {text}\n")
            if "[e]dit\n" not in person.screen.getvalue():
                await person.screen.wait_for("[e]dit\n")
            await trio.sleep(2 * SEEN)  # until then nobody can have read it
            assert "approved: burn\n" in await person.says("y", "Well.\n\n")
            await person.leaves()


async def test_an_answer_may_come_from_elsewhere() -> None:
    script: list[Element] = [say(calls=[call("burn", {"what": "toast"})]), "Well.", "Yes?"]
    async with talking(script) as person:
        await person.says("burn", "[e]dit\n")
        (held,) = person.session.status().held
        await person.session.approve(held.id)
        await person.screen.wait_for("Well.\n\n")
        assert await person.says("y", "Yes?\n\n") == "> y\nYes?\n\n"


async def test_always_goes_for_the_family() -> None:
    script: list[Element] = [say(calls=[call("burn", {"what": "toast"})]), "Well."]
    async with talking(script) as person:
        await person.says("burn", "[e]dit\n")
        assert "not asked again: burn (burn)\n" in await person.says("ALWAYS", "Well.\n\n")


async def test_who_comes_later_sees_what_was_seen_when_it_was_new() -> None:
    script: list[Element] = [
        say("I burn **it**.", thinking="Hm.", calls=[call("burn", {"what": "toast"}), call("burn", {"what": "books"})]),
        transient("too busy"),
        "Well, `that` was that.",
        permanent("no such key"),
        say(calls=[call("burn", {"what": "letters"})]),
        "Good.",
    ]
    async with talking(script) as first:
        await first.says("burn all", "[e]dit\n")
        await first.says("y", "[e]dit\n")
        await first.says("n", "that.\n\n")
        await first.says("again", ")\n\n")
        await first.says("once more", "[e]dit\n")
        async with joining(first.session) as second:
            await second.screen.wait_for("[e]dit\n")
            assert _answers(second) == _answers(first)
            assert "→ burn what=letters" not in second.screen.getvalue(), "it waits, and has not run"
            await second.says("/show 2", "Hm.\n")
            await second.says("/why", "  burn was approved\n")
            await second.says("y", "Good.\n\n")


async def test_a_line_of_a_pipe_answers_the_question_of_a_sub_agent_while_the_session_works() -> None:
    helper = SessionSpec(
        model=ScriptedModel([say(calls=[call("burn", {"what": "toast"})]), "Burnt."]),
        tools=(burn,),
        plugins=(HumanApproval(tools=("burn",), timeout=None),),
        description="Helps.",
    )
    task = call("task", {"agent": "helper", "description": "look", "prompt": "go"})
    async with talking([say(calls=[task]), "Done."], helper) as person:
        await person.says("burn", "[e]dit\n")
        assert await person.says("y", "✓ sub-agent: Burnt.\n") == (
            "  │ approved: burn\n  │ → burn what=toast\n  │ ✓ burn: burnt toast\n  ✓ sub-agent: Burnt.\n"
        )
        await person.screen.wait_for("Done.\n\n")


async def test_a_text_that_is_void_is_told_so_also_to_who_comes_later() -> None:
    script: list[Element] = [transient("reset", after=2), say("I look.", calls=[call("burn", {"what": "toast"})])]
    async with talking([*script, "Well."]) as first:
        assert await first.says("burn", "[e]dit\n") == (
            "> burn\nword0 word1 \n  what it had said is void\n  attempt 1 failed, again in 0.0 s: reset\nI look.\n"
            "? burn waits for your approval\n    what: toast\n  [y]es / [n]o / [a]lways (all of `burn`) / [e]dit\n"
        )
        async with joining(first.session) as second:
            await second.screen.wait_for("[e]dit\n")
            assert _answers(second) == _answers(first)
            await second.says("y", "Well.\n\n")


def _answers(person: Person) -> list[str]:
    """Return the rows that were shown, but for questions, which are asked again only if they are open."""
    rows = person.screen.getvalue().splitlines()
    return [row for row in rows if not row.startswith(("? ", "    ", "  [y]es"))]


async def test_who_comes_in_mid_answer_sees_the_text_so_far_and_its_rest() -> None:
    script: list[Element] = [
        say("I look.", calls=[call("burn", {"what": "toast"})]),
        stall(after=2, text="one two three"),
    ]
    async with talking([*script, "Changed."]) as first:
        await first.says("count", "[e]dit\n")
        await first.says("y", "one two ")
        async with joining(first.session) as second:
            assert (await second.screen.wait_for("one two ")).count("I look.") == 1
            await first.says("/steer now stop", "Changed.\n\n")
            await second.screen.wait_for("Changed.\n\n")
            assert second.screen.getvalue().count("one two ") == 1


async def test_failures_of_the_model_are_told() -> None:
    async with talking([transient("too busy"), permanent("no such key"), "Fine."]) as person:
        assert await person.says("hello", ")\n\n") == (
            "> hello\n  attempt 1 failed, again in 0.0 s: too busy\n✗ the model failed: no such key\n"
            "■ stopped (provider_error)\n\n"
        )
        assert await person.says("again", "Fine.\n\n") == "> again\nFine.\n\n"


async def test_steering_now_does_not_wait_for_the_end_of_the_answer() -> None:
    async with talking([stall(after=2, text="one two three"), "Changed."]) as person:
        await person.says("count", "one two ")
        assert await person.says("/steer now stop", "Changed.\n\n") == (
            "\n  ↳ steering: stop\n  goes on (steering)\n  ↳ the model reads it now\nChanged.\n\n"
        )


async def test_steering_takes_the_texts_of_named_files_and_is_shown_as_it_was_pasted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("tea\n")
    (tmp_path / "pic.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    async with talking([stall(after=1, text="one two"), "Changed."]) as person:
        await person.says("count", "one ")
        shown = await person.says("/steer now see @notes.txt @pic.png @zz.dat", "Changed.\n\n")
        assert (
            "  @notes.txt 1 line · @pic.png: not sent, as steering is text alone; Alt-Enter sends it in a prompt "
            in shown
        )
        assert "for later · @zz.dat: no such file\n  ↳ steering: see @notes.txt @pic.png @zz.dat\n" in shown
        texts = [message.text for message in person.session.messages()]
        assert any(text.endswith("@zz.dat\n\nnotes.txt:\n\n```\ntea\n```") for text in texts)


async def test_too_much_steering_is_refused_once() -> None:
    async with talking([stall(after=1, text="one two")]) as person:
        await person.says("count", "one ")
        for text in ("a", "b", "c"):
            await person.says(f"/steer {text}", f"  ↳ steering: {text}\n")
        assert await person.says("/steer d", "\n") == "  ↳ steering refused, too many wait: d\n"
        assert person.session.status().steering == 3
        await person.session.abort()
        assert await person.screen.wait_for("■ stopped (user)\n\n") == (
            "  ↳ steering dropped: a\n  ↳ steering dropped: b\n  ↳ steering dropped: c\n■ stopped (user)\n\n"
        )


async def test_the_end_of_the_session_ends_the_conversation() -> None:
    async with talking([]) as person:
        await person.says("/model", "uses another\n")
        await person.session.stop("enough")
        with trio.fail_after(PATIENCE):
            await person.has_left.wait()
        assert await person.screen.wait_for("\n") == "  the session has ended: enough\n"


async def test_the_status_says_what_waits() -> None:
    script: list[Element] = [say(calls=[call("burn", {"what": "toast"})]), "Well."]
    async with talking(script) as person:
        await person.says("burn", "[e]dit\n")
        assert "state     idle, turn 1, round 1\n" in await person.says("/status", "  waits for you: burn what=toast\n")
        await person.says("/help", "  /quit            leave\n")
        await person.says("n", "Well.\n\n")


class LateEvents:
    """A session of which each event comes when all that could be done without it is done."""

    def __init__(self, session: SessionHandle) -> None:
        self._session = session

    def __getattr__(self, name: str) -> object:
        return getattr(self._session, name)

    @asynccontextmanager
    async def subscribe(self, *args: object, **options: object) -> AsyncGenerator["LateEvents"]:
        async with self._session.subscribe(*args, **options) as events:  # type: ignore[arg-type]
            self._events = events
            yield self

    def __aiter__(self) -> "LateEvents":
        return self

    async def __anext__(self) -> object:
        envelope = await anext(self._events)
        await trio.testing.wait_all_tasks_blocked()
        return envelope


async def test_a_question_whose_events_come_late_is_answered_when_the_input_has_ended() -> None:
    script: list[Element] = [say("Hm.", calls=[call("burn", {"what": "toast"})]), "Well."]
    spec = SessionSpec(model=ScriptedModel(script), tools=(burn,), plugins=(HumanApproval(tools=("burn",)),))
    ours, theirs = os.pipe()
    os.write(theirs, b"burn\n")
    os.close(theirs)
    with os.fdopen(ours) as source:
        async with open_supervisor(seed=1) as supervisor:
            late, terminal = LateEvents(await supervisor.spawn(spec)), ShownText()
            with trio.fail_after(PATIENCE):
                await Console(cast("SessionHandle", late), Terminal(source, terminal)).run()
    assert terminal.getvalue().endswith("  rejected: burn: nobody is here to ask\n  goes on (tool rejected)\nWell.\n\n")


@pytest.mark.parametrize(
    "text", ["A better way would be git", "Always use tabs please", "Yes, but test first", "y: no"]
)
async def test_a_sentence_is_no_approval_whatever_it_begins_with(text: str) -> None:
    script: list[Element] = [say("Hm.", calls=[call("burn", {"what": "toast"})]), "Well."]
    async with talking(script) as person:
        await person.says("burn", "[e]dit\n")
        assert await person.says(text, "\n") == (
            "  Please answer y, n, a or e; a reason may follow n. /steer TEXT says something else instead.\n"
        )
        assert "rejected: burn: not now" in await person.says("n not now", "Well.\n\n")


class Library:
    """A source of tools like an MCP server with one prompt."""

    name = "library"

    def check(self) -> None:
        """It can always start."""

    async def supply(self, _: str, offer: Callable[..., Awaitable[None]]) -> None:
        @tool(name="library__prompt_review")
        async def review(book: str) -> str:
            """Get a prompt."""
            await trio.lowlevel.checkpoint()
            return f"Praise {book}."

        await offer((review,))
        await trio.sleep_forever()


async def test_a_prompt_of_a_server_is_a_command_and_its_words_are_a_result() -> None:
    script: list[Element] = [say("Hm.", calls=[call("library__prompt_review", {"book": "tea"})]), "Good tea."]
    async with talking(script) as person:
        await person.session.attach_tools(Library())
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert "there is no /library:none" in await person.says("/library:none", "\n")
        await person.says("/library:review the tea", "Good tea.\n")
        said = [message.text for message in person.session.messages()]
    assert said[0] == (
        "Get a prompt by the tool `library__prompt_review`, with these arguments: the tea. It is what I ask you to do."
    )
    assert said[2] == "Praise tea."
