"""What a crash report says of an exception: where it was raised, its causes, and the parts of a group."""

from collections.abc import Callable

import pytest

from agentrail import CrashReport, open_supervisor
from agentrail.runtime.diagnosis.crash_reports import MAX_DEPTH, Reason


def raises() -> None:
    message = "deep inside"
    raise ValueError(message)


def calls() -> None:
    raises()


def in_groups() -> None:
    error: Exception = ValueError("the innermost")
    for depth in range(2 * MAX_DEPTH, 0, -1):
        error = ExceptionGroup(f"group {depth}", [error])
    raise error


def with_causes() -> None:
    error = ValueError("the first")
    for depth in range(2 * MAX_DEPTH, 0, -1):
        cause, error = error, ValueError(f"error {depth}")
        error.__cause__ = cause
    raise error


async def report_of_crash(doing: Callable[[], None]) -> CrashReport:
    """Return what a supervisor reports of a service that crashes by *doing* something."""

    async def service() -> None:
        doing()

    async with open_supervisor() as supervisor:
        await supervisor.start_service(service, "mine", restart="temporary")
        (report,) = supervisor.crashes()
    return report


async def test_a_report_names_the_line_that_raised() -> None:
    reason = (await report_of_crash(calls)).reason
    assert (reason.kind, reason.text) == ("ValueError", "ValueError: deep inside")
    index, _, function = reason.where.partition(" in ")
    assert function == "raises"
    assert index == f"{__file__}:{raises.__code__.co_firstlineno + 2}"


async def test_a_report_of_a_service_has_no_message_and_no_mailbox() -> None:
    report = await report_of_crash(calls)
    assert (report.kind, report.input, report.mailbox) == ("service", "", (0, 0, 0))


@pytest.mark.parametrize("doing", [in_groups, with_causes])
async def test_a_report_is_no_deeper_than_it_may_be(doing: Callable[[], None]) -> None:
    reason: Reason | None = (await report_of_crash(doing)).reason
    depth = -1
    while reason is not None:
        depth += 1
        reason = reason.parts[0] if reason.parts else reason.cause
    assert depth == MAX_DEPTH
