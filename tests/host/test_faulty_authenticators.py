"""Authenticators of a program that fail, hang, or return something else."""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, cast

import httpx
import pytest
import trio
from trio.testing import MockClock

from agentrail.errors import AuthenticatorFailed, NotAuthenticated, TooManyRequests
from agentrail.host import Host, Identity, Profile
from agentrail.host.authentication.authenticators import GuardedAuthenticator, LocalToken, guarded
from tests.host.hosted import LIMITS, scripted
from tests.patience import PATIENCE

SECRET: Final = "ak_secret"
ANN: Final = Identity("acme", "ann", frozenset({"talk"}))

Answer = Callable[[], Awaitable[Any]]


class Asked:
    """An authenticator that answers by a function."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    async def identify(self, headers: Sequence[tuple[str, str]]) -> Identity:
        assert headers == [("authorization", f"Bearer {SECRET}")]
        return cast("Identity", await self._answer())


async def raises() -> None:  # noqa: ASYNC124
    raise ConnectionError(SECRET)


async def exits() -> None:  # noqa: ASYNC124
    sys.exit(3)


def returns(value: object) -> Answer:
    async def answer() -> object:  # noqa: ASYNC124
        return value

    return answer


FAILING: Final[dict[str, tuple[Answer, str]]] = {
    "raises": (raises, "the authenticator failed"),
    "exits": (exits, "the authenticator failed"),
    "hangs": (trio.sleep_forever, "the authenticator failed: it was not done after 10 s"),
    "nothing": (returns(None), "the authenticator failed: it returned a `NoneType` that is no valid `Identity`"),
    "dict": (returns({"tenant": "acme"}), "the authenticator failed: it returned a `dict` that is no valid `Identity`"),
    "tenant": (
        returns(Identity("", "ann")),
        "the authenticator failed: it returned a `Identity` that is no valid `Identity`",
    ),
    "scopes": (
        returns(Identity("acme", "ann", cast("Any", "talk"))),
        "the authenticator failed: it returned a `Identity` that is no valid `Identity`",
    ),
}


@pytest.mark.parametrize("how", FAILING)
async def test_one_that_fails_is_told_to_client_and_operator(
    how: str, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    assert autojump_clock.autojump_threshold == 0
    answer, problem = FAILING[how]
    with caplog.at_level(logging.ERROR), pytest.raises(AuthenticatorFailed):
        await GuardedAuthenticator(Asked(answer)).identify([("authorization", f"Bearer {SECRET}")])
    (record,) = caplog.records
    assert record.getMessage() == problem
    assert SECRET not in caplog.text
    assert trio.current_time() == (10 if how == "hangs" else 0)


@pytest.mark.parametrize("error", [NotAuthenticated("x"), TooManyRequests(1.0, 2.0)])
async def test_a_refusal_is_an_answer(error: Exception) -> None:
    async def refuses() -> None:  # noqa: ASYNC124
        raise error

    with pytest.raises(type(error)) as raised:
        await GuardedAuthenticator(Asked(refuses)).identify([("authorization", f"Bearer {SECRET}")])
    assert raised.value is error


async def test_our_own_are_asked_directly() -> None:
    token = LocalToken()
    assert guarded(token) is token
    assert await guarded(Asked(returns(ANN))).identify([("authorization", f"Bearer {SECRET}")]) == ANN


async def test_a_host_answers_503_and_goes_on() -> None:
    answers: list[Answer] = [raises, returns(ANN)]

    class Turning:
        async def identify(self, headers: Sequence[tuple[str, str]]) -> Identity:
            return cast("Identity", await answers.pop(0)())

    async with (
        Host([Profile("desk", scripted("one"))], authenticator=Turning(), limits=LIMITS).serving() as serving,
        httpx.AsyncClient(base_url=serving.url, trust_env=False, timeout=PATIENCE) as client,
    ):
        refused = await client.get("/v1/sessions")
        assert (refused.status_code, refused.headers["retry-after"], refused.json()["detail"]) == (
            503,
            "5",
            "cannot list the sessions: the host could not find out whose key it is; try again later",
        )
        assert (await client.get("/v1/sessions")).json()["items"] == []
