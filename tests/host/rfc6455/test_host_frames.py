"""Every case of RFC 6455 on a whole host: what it answers, with which code it closes, and which handshakes it takes."""

from __future__ import annotations

import json
from typing import Final

import pytest
import trio

from agentrail.api.limits import DEFAULTS
from tests.host.http11.test_mutated_host import BOSS, served
from tests.host.rfc6455.frame_cases import CASES, NO_ID, Case, sizes
from tests.host.rfc6455.handshake_cases import HANDSHAKES
from tests.host.rfc6455.raw_peer import connected, shaken

PATH: Final = "/v1/ws"
KEY: Final = (f"Authorization: Bearer {BOSS.key}",)
MOST: Final = DEFAULTS.body_bytes + DEFAULTS.header_bytes


async def close_and_answers(port: int, case: Case) -> tuple[int | None, list[str], list[bytes]]:
    """Return the code of the close, the ids of the answers, and the pongs."""
    async with connected(port, PATH, KEY) as peer:
        await peer.play(case.first, len(case.ids), len(case.pongs))
        await peer.send(*case.last)
        heard = await peer.rest()
        return heard.code, sorted(json.loads(text).get("id", NO_ID) for text in heard.texts), heard.pongs


@pytest.mark.long
async def test_a_host_judges_each_case_as_the_rfc_says() -> None:
    wrong: dict[str, object] = {}
    async with served() as serving:
        port = int(serving.url.rpartition(":")[2])
        for case in (*CASES, *sizes(MOST)):
            got = await close_and_answers(port, case)
            if got != (case.code, sorted(case.ids), list(case.pongs)):
                wrong[case.name] = got
    assert wrong == {}


async def test_a_host_judges_each_handshake_as_the_rfc_says() -> None:
    wrong: dict[str, object] = {}
    async with served() as serving:
        port = int(serving.url.rpartition(":")[2])
        for case in HANDSHAKES:
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                answer = (await shaken(stream, case.sent(PATH, *KEY))).answer
            report = {name: answer.headers.get(name) for name in case.answered}
            if (answer.status, report) != (case.status, dict(case.answered)):
                wrong[case.name] = (answer.status, report)
    assert wrong == {}
