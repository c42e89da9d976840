"""A new face of a host is one module: it makes calls, and writes answers, and all that guards them is there already."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import trio

from agentrail import SessionSpec
from agentrail.host import ApiKeys, Host, HostLimits, Profile
from agentrail.host.authentication.api_keys import new_key, render_keys
from agentrail.testing import ScriptedModel
from tests.host.line_face import LineFace
from tests.host.model.in_process import opened

ANN, ANN_KEY = new_key("acme", "ann", ["talk"])
BOB, BOB_KEY = new_key("acme", "bob", ["talk", "observe", "operate"])
BURST: Final = 8


class Lines:
    """Asks a line face, and keeps what it sends."""

    def __init__(self, face: LineFace) -> None:
        self._face = face
        self.pieces: list[bytes] = []

    async def ask(self, line: str) -> tuple[int, object]:
        self.pieces.clear()
        status = await self._face.answer(line, self._send)
        return status, json.loads(self.pieces[-1]) if self.pieces[-1].startswith((b"{", b"[")) else None

    async def _send(self, piece: bytes) -> None:
        await trio.lowlevel.checkpoint()
        self.pieces.append(piece)


@asynccontextmanager
async def faced() -> AsyncGenerator[tuple[Lines, Lines]]:
    keys = ApiKeys(lines=render_keys([ANN, BOB]))
    profile = Profile("helper", SessionSpec(model=ScriptedModel(["one", "two"])))
    host = Host([profile], authenticator=keys, limits=HostLimits(burst=BURST, requests_per_second=0.001))
    async with opened(host, keys) as opened_host:
        operations = opened_host.application.operations
        yield Lines(LineFace(operations, keys, ANN_KEY)), Lines(LineFace(operations, keys, BOB_KEY))
    assert await Lines(LineFace(operations, keys, ANN_KEY)).ask("agents - {}") == (503, ANY)


class _Anything:
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = object.__hash__


ANY: Final = _Anything()


async def test_a_face_of_one_module_talks_streams_and_is_guarded() -> None:
    async with faced() as (ann, bob):
        status, reply = await ann.ask('chat - {"message": "hello", "session": "trip"}')
        assert isinstance(reply, dict)
        assert (status, reply["text"]) == (200, "one")
        status, _ = await ann.ask('stream - {"message": "go on", "session": "trip"}')
        stream = b"".join(ann.pieces)
        assert (status, stream.count(b"event: AgentEnd"), b"event: reply" in stream) == (200, 1, True)
        status, page = await ann.ask('messages trip {"limit": 1}')
        assert isinstance(page, dict)
        assert (status, len(page["items"]), page["next"]) == (200, 1, 1)
        assert await ann.ask('label trip {"add": ["a"]}') == (204, None)
        assert await ann.ask('prompt trip {"text": "of another name"}') == (422, ANY)
        assert await ann.ask("metrics - {}") == (403, ANY)
        assert await bob.ask('messages acme.ann.trip {"limit": 1}') == (404, ANY)
        assert await bob.ask("metrics - {}") == (200, None)
        assert bob.pieces[-1].startswith(b"# HELP agentrail_")
        assert await ann.ask("agents - {}") == (429, ANY)
