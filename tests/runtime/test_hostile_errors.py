"""Errors whose classes misbehave, and errors that Python itself raises: each ends only the work that raised it."""

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest
import trio

from agentrail import Context, Continue, Plugin, tool
from agentrail.events import SessionRestarted
from agentrail.models import Text
from agentrail.plugins import BeforePrompt
from agentrail.runtime.shared.untrusted_calls import Contained, tell
from agentrail.testing import call, say
from tests.opcodes import counted_opcodes
from tests.runtime.world import World


class Own(BaseException):
    """An error that `except Exception` does not catch."""


class HostileError(Exception):
    """An error that raises when its text, cause or traceback is read."""

    def __str__(self) -> NoReturn:
        raise Own

    def __repr__(self) -> NoReturn:
        raise Own

    @property
    def __cause__(self) -> NoReturn:  # type: ignore[override]
        raise Own

    @property
    def __traceback__(self) -> NoReturn:  # type: ignore[override]
        raise Own


def mixed() -> BaseException:
    return BaseExceptionGroup("mixed", [ValueError("one"), Own("two"), GeneratorExit("three"), SystemExit(4)])


def deep() -> Exception:
    error: Exception = ValueError("at the bottom")
    for _ in range(3_000):
        error = ExceptionGroup[Exception]("deep", [error])
    return error


ERRORS: dict[str, Callable[[], BaseException]] = {
    "exit": lambda: GeneratorExit("of its own"),
    "own": lambda: Own("own"),
    "hostile": lambda: HostileError("hostile"),
    "system": lambda: SystemExit(1),
    "mixed": mixed,
    "deep": deep,
    "half": lambda: ValueError("half \ud800 of a pair"),
}


def made(how: str) -> BaseException:
    """Return a new error of a kind."""
    return ERRORS[how]()


class Raising(Plugin):
    def before_prompt(self, hook: BeforePrompt, state: None, ctx: Context) -> Continue[None]:
        if hook.text in ERRORS:
            raise made(hook.text)
        return Continue()


@tool
async def breaks(how: str) -> str:
    """Break.

    Args:
        how: in which way
    """
    raise made(how)


@pytest.mark.parametrize("how", ERRORS)
async def test_what_a_hook_raises_ends_nothing_but_itself(world: World, how: str) -> None:
    session = await world.spawn(["one", "two"], plugins=[Raising()])
    with trio.move_on_after(5):
        await session.ask(how)
    assert (await session.ask("and now?")).text in {"one", "two"}
    assert world.heard(session).of(SessionRestarted) == []


@pytest.mark.parametrize("how", ERRORS)
async def test_what_a_tool_raises_is_its_result_and_ends_nothing(world: World, how: str) -> None:
    asks = say(calls=[call("breaks", {"how": how})])
    session = await world.spawn([asks, "so it is", "fine"], tools=[breaks])
    assert (await session.ask("go")).text == "so it is"
    assert (await session.ask("and now?")).text == "fine"
    assert world.heard(session).of(SessionRestarted) == []


def raise_exit() -> NoReturn:
    raise made("exit")


def test_a_coroutine_that_is_closed_ends_and_what_it_raises_itself_is_told() -> None:
    errors: list[BaseException] = []
    went_on: list[str] = []

    async def contained() -> None:
        with Contained(errors.append):
            await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)
        went_on.append("behind it")

    waiting = contained()
    waiting.send(None)
    waiting.close()
    assert (errors, went_on) == ([], [])

    with Contained(errors.append):
        raise_exit()
    with Contained(errors.append):
        raise ValueError("here")
    assert list(map(str, errors)) == ["of its own", "here"]


async def breaks_when_it_is_cancelled() -> NoReturn:
    try:
        await trio.sleep_forever()
    finally:
        raise ValueError("one")


async def test_a_cancellation_in_a_group_ends_the_task_and_the_errors_beside_it_are_told() -> None:
    errors: list[BaseException] = []
    went_on: list[str] = []
    with trio.CancelScope() as scope:
        scope.cancel()
        with Contained(errors.append):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(breaks_when_it_is_cancelled)
                await trio.sleep_forever()
        went_on.append("after it")
    assert scope.cancelled_caught
    assert (list(map(repr, errors)), went_on) == (["ValueError('one')"], [])


# What is logged


class WhileInterruptedError(Exception):
    """An error while whose causes are read Ctrl-C is pressed."""

    @property
    def __cause__(self) -> NoReturn:  # type: ignore[override]
        raise KeyboardInterrupt


def test_an_interrupt_while_an_error_is_logged_ends_the_program() -> None:
    with pytest.raises(KeyboardInterrupt):
        tell(logging.getLogger("agentrail.tests"), WhileInterruptedError("one"), "it broke")


@contextmanager
def log_file(path: Path) -> Generator[logging.Logger]:
    log = logging.getLogger("agentrail.tests")
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(name)s %(funcName)s %(message)s"))
    log.addHandler(handler)
    try:
        yield log
    finally:
        log.removeHandler(handler)
        handler.close()


@pytest.mark.parametrize("how", ERRORS)
def test_an_error_is_in_a_log_whatever_it_is(
    tmp_path: Path, how: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    error = made(how)
    with log_file(tmp_path / "log") as log:
        tell(log, error, "the task of %s broke", "half \ud800")
        tell(log, None, "100%% of %s", "it")
    text = (tmp_path / "log").read_text(encoding="utf-8")
    assert text.startswith("agentrail.tests test_an_error_is_in_a_log_whatever_it_is the task of half � broke\n")
    assert type(error).__name__ in text
    assert text.endswith(" 100% of it\n")
    assert "Logging error" not in capsys.readouterr().err
    assert caplog.records[0].exc_info is not None


def among(facts: tuple[Text, ...]) -> BaseException:
    return ValueError(*facts)


def as_cause(facts: tuple[Text, ...]) -> BaseException:
    error = ValueError("short")
    error.__cause__ = ValueError(*facts)
    return error


def in_a_group(facts: tuple[Text, ...]) -> BaseException:
    return ExceptionGroup("short", [KeyError("short"), ValueError(*facts)])


def as_notes(facts: tuple[Text, ...]) -> BaseException:
    error = ValueError("short")
    vars(error)["__notes__"] = list(facts)
    return error


@pytest.mark.parametrize("new_value", [among, as_cause, in_a_group, as_notes])
def test_an_error_that_would_be_long_to_tell_is_logged_by_its_class(
    new_value: Callable[[tuple[Text, ...]], BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    """Its text is not even made: 50,000 values took 57 ms of the loop."""
    log = logging.getLogger("agentrail.tests")
    for count, is_told in ((100, True), (2_000, False)):
        with counted_opcodes() as counted:
            tell(log, new_value((Text("x"),) * count), "it broke")
        text = caplog.records[-1].exc_text or ""
        assert ("Text('x')" in text or "Text(text='x')" in text) == is_told
        assert text.startswith("ValueError") or is_told or new_value is in_a_group
        assert counted[0] < 100_000
