"""Answers to requests that fail: makes the problem document, and logs errors that the operator has to see."""

from __future__ import annotations

import logging
from typing import Final

from agentrail.api.problems import OPERATOR, Problem, problem_of
from agentrail.errors import (
    AgentrailError,
    ClusterFault,
    HostClosing,
    SessionParked,
    SupervisorClosed,
    TurnAborted,
    UsageError,
)
from agentrail.host.requests.http_messages import HttpResponse, problem_answer
from agentrail.runtime.shared.untrusted_calls import tell

SERVER_ERROR: Final = 500
"""Statuses from here on say that the host, or something outside of it, has failed."""

log = logging.getLogger("agentrail.host")


def refusal(error: AgentrailError, attempt: str, tenant: str, request: str) -> HttpResponse:
    """Return the answer with the problem document of *error*, and log an error that is for the operator."""
    return problem_answer(told_problem(error, attempt, tenant, request))


def told_problem(error: AgentrailError, attempt: str, tenant: str, request: str) -> Problem:
    """Return the problem document of *error*, and log an error of the host or of something outside.

    The line of the log names the *request* by its id.

    The text of an error may quote the conversation, so it is logged only if the error is about the program around the
    host. `SessionParked` means that the host stops: clients are told so, and nothing is logged.
    """
    if isinstance(error, SessionParked | SupervisorClosed):
        error = HostClosing()
    problem = problem_of(error, attempt, tenant)
    is_for_operator = problem.status >= SERVER_ERROR or problem.to_do == OPERATOR
    if isinstance(error, ClusterFault):  # its words are about the hosts, and anybody can send a bad signature
        log.warning("cannot %s: %s (request %s)", attempt, error, request)
    elif is_for_operator and not isinstance(error, HostClosing):
        # its traceback says nothing about why the turn was aborted
        traced = None if isinstance(error, TurnAborted) else error
        words = isinstance(error, UsageError)  # no client can cause an error with this status
        line = "cannot %s: %s (request %s)"
        tell(log, traced, line, attempt, problem.title, request, level=logging.WARNING, words=words)
    return problem
