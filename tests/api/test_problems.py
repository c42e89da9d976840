"""Every class of error has a row, and what a document tells is for clients alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module

import pytest

from agentrail import errors
from agentrail.api.problems import INTERNAL, ROWS, Kind, Problem, code_of, problem_of
from agentrail.api.public_ids import new_name
from agentrail.errors import (
    AgentrailError,
    BrokenContractError,
    InfrastructureError,
    OutsideError,
    RefusedError,
    UsageError,
)
from agentrail.errors.agentrail_error import BRANCHES as BRANCH_OF
from agentrail.errors.agentrail_error import named_in
from tests.each_case import each_case

FACT = 7_171_717
"""A fact of an error, which is in no other word."""

BRANCHES = (
    (UsageError, {400, 404, 405, 409, 413, 415, 422, 426, 500}),
    (RefusedError, {401, 403, 409, 429}),
    (OutsideError, {502, 503, 507}),
    (InfrastructureError, {503, 507}),
    (BrokenContractError, {500}),
)


def classes(top: type[AgentrailError]) -> Iterator[type[AgentrailError]]:
    yield top
    for cls in top.__subclasses__():
        if cls.__module__.startswith("agentrail.errors."):
            yield from classes(cls)


def example(kind: Kind) -> AgentrailError:
    """Return an error of the kind whose facts are told apart from all other words."""
    if isinstance(kind, str):
        branch = BRANCH_OF[kind]
        return branch(kind, *[FACT] * len(named_in(branch.coded[kind].says)))
    error = kind.__new__(kind)
    error.args = (FACT,) * 6
    return error


def test_each_class_and_code_of_errors_has_a_row_and_no_other_has_one() -> None:
    assert set(ROWS) == {*classes(AgentrailError), *BRANCH_OF}
    assert set(ROWS) >= {getattr(errors, name) for name in import_module("agentrail.errors").__all__}


@pytest.mark.parametrize(("branch", "statuses"), BRANCHES, ids=lambda value: getattr(value, "__name__", ""))
def test_a_branch_has_the_statuses_that_say_who_has_to_act(branch: type[AgentrailError], statuses: set[int]) -> None:
    kinds: list[Kind] = [*classes(branch), *branch.coded]
    assert {ROWS[kind].status for kind in kinds} == statuses


def test_who_is_to_come_back_is_told_when() -> None:
    for cls, row in ROWS.items():
        assert (row.retry_after is not None) == (row.status in {429, 503, 507}), cls


def test_who_asks_for_a_held_session_is_to_come_back_when_its_lease_ends() -> None:
    assert problem_of(errors.SessionHeld("s", "other", 4200), "talk").headers == (("retry-after", "5"),)


def test_each_kind_has_a_name_of_its_own() -> None:
    kinds = [code_of(kind) for kind in ROWS]
    assert len(kinds) == len(set(kinds))
    assert code_of(errors.HostFailed) == "host-failed"


@each_case(ROWS)
def test_what_is_of_the_hosts_alone_is_not_told(kind: Kind) -> None:
    if ROWS[kind].status in {500, 507} or isinstance(example(kind), InfrastructureError):
        assert str(FACT).encode() not in problem_of(example(kind), "talk").content


@each_case(ROWS)
def test_no_words_are_for_programs_in_python(kind: Kind) -> None:
    problem = problem_of(example(kind), "talk")
    text = f"{problem.finding}; {problem.to_do}"
    assert problem.finding
    assert problem.to_do
    assert [word for word in ("supervisor", "await", "()", "journal=", "`Model`", "session_") if word in text] == []


def test_the_facts_of_an_error_are_not_taken_for_its_advice() -> None:
    problem = problem_of(errors.PromptWasRejected("p1", "too long; be brief"), "talk")
    assert (problem.finding, problem.to_do) == ("prompt `p1` was rejected: too long; be brief", "say it differently")


def test_a_document_says_what_was_attempted_what_was_found_and_what_to_do() -> None:
    problem = problem_of(errors.QueueFull(8), "prompt a session")
    assert problem == Problem(
        429,
        "queue-full",
        "The prompt queue is full",
        "prompt a session",
        "the prompt queue is full (8)",
        "wait for a turn to end",
        (("retry-after", "5"),),
        "QueueFull",
        (8,),
    )
    assert json.loads(problem.content) == {
        "type": "urn:agentrail:problem:queue-full",
        "title": "The prompt queue is full",
        "status": 429,
        "detail": "cannot prompt a session: the prompt queue is full (8); wait for a turn to end",
        "attempted": "prompt a session",
        "found": "the prompt queue is full (8)",
        "to_do": "wait for a turn to end",
        "error": "QueueFull",
        "facts": [8],
        "retry_after": 5,
    }


def test_what_is_missing_foreign_or_no_id_has_one_document() -> None:
    documents = {
        (problem.content, problem.status, problem.headers)
        for problem in (
            problem_of(error, "prompt a session", "acme")
            for error in (
                errors.UnknownSession("h.acme.bob.main"),
                errors.UnknownSession("h.other.bob.main"),
                errors.SessionNotStored("h.acme.alice.gone"),
                errors.SessionForgotten("h.acme.alice.gone"),
                errors.UnknownSession("../../etc"),
            )
        )
    }
    assert len(documents) == 1


def test_an_error_that_says_when_to_come_back_is_believed() -> None:
    assert problem_of(errors.TooManyRequests(20.0, 0.2), "talk").headers == (("retry-after", "1"),)
    assert problem_of(errors.TooManyRequests(20.0, 7.2), "talk").headers == (("retry-after", "8"),)
    assert problem_of(errors.RateLimited("slow down", 0.0), "talk").headers == (("retry-after", "1"),)
    assert problem_of(errors.RateLimited("slow down", 12.5), "talk").headers == (("retry-after", "13"),)
    assert problem_of(errors.RateLimited("slow down", float("inf")), "talk").headers == (("retry-after", "5"),)


def test_the_headers_that_a_status_demands_are_there() -> None:
    refused = errors.MethodRefused("PUT", "/v1/chat", "POST")
    assert problem_of(refused, "answer").headers == (("allow", "POST"),)
    assert problem_of(errors.NotAuthenticated("no key"), "answer").headers == (("www-authenticate", "Bearer"),)


def test_nothing_of_a_foreign_exception_is_told() -> None:
    assert problem_of(ValueError("secret"), "prompt a session") == INTERNAL.but(attempted="prompt a session")


def test_a_class_of_a_programs_own_has_the_row_of_its_base() -> None:
    class Downstairs(errors.ToolError):
        """It is downstairs."""

    problem = problem_of(Downstairs("the shop is closed"), "prompt a session")
    assert (problem.status, problem.type, problem.finding) == (502, "tool-error", "the shop is closed")


def test_an_error_that_has_no_class_of_its_own_is_told_by_its_code() -> None:
    problem = problem_of(UsageError("source-exists", "files"), "attach tools")
    assert problem == Problem(
        409,
        "source-exists",
        "Two sources of tools cannot have one name",
        "attach tools",
        "a source of tools named `files` is attached already",
        "detach it first, or replace it",
        (),
        "SourceExists",
        ("files",),
    )


def test_ids_are_told_as_clients_of_the_tenant_see_them() -> None:
    held = new_name("acme", "al.ice", "main").internal
    finding = problem_of(errors.SessionNotAlive(held, "it was stopped"), "prompt a session", "acme").finding
    assert finding == "session `al_2eice.main` has ended (it was stopped)"


def test_a_text_that_cannot_be_sent_is_sent_with_a_mark() -> None:
    document = json.loads(problem_of(errors.ToolError("half \ud800 a pair"), "talk").content)
    assert document["found"] == "half ? a pair"
