"""Answers that a server in between has packed."""

from __future__ import annotations

import gzip
import zlib

import pytest

from agentrail import Secret, SessionSpec, open_supervisor
from agentrail.adapters.models.http import Http, Patience, Post
from agentrail.errors import EncodingRefused, StreamGarbled, TurnAborted
from agentrail.models import Json
from agentrail.testing import ScriptedModel
from tests.adapters.models import anthropic_events as anthropic
from tests.adapters.models.server import Play, chunked, head, serving
from tests.profiles import CAMPAIGN

STREAM = anthropic.saying(*(f"word{number} " for number in range(500 if CAMPAIGN else 100)))


PACKED = {
    "gzip": gzip.compress(STREAM),
    "deflate": zlib.compress(STREAM),
    "GZIP": gzip.compress(STREAM),
    "identity": STREAM,
}


async def heard(play: Play) -> bytes:
    http, found = Http(), bytearray()

    def hear(piece: bytes) -> bool:
        found.extend(piece)
        return False

    async with serving(play) as server:
        try:
            await http.post(Post(server.url, {}, b"{}", Patience(5, 5, 5)), hear)
        finally:
            await http.close()
    return bytes(found)


@pytest.mark.long
@pytest.mark.parametrize("size", [1, 7, 1_000, 100_000])
@pytest.mark.parametrize("encoding", PACKED)
async def test_a_packed_stream_is_read(encoding: str, size: int) -> None:
    packed = PACKED[encoding]
    pieces = [packed[at : at + size] for at in range(0, len(packed), size)]
    lines = ("transfer-encoding: chunked", f"content-encoding: {encoding}")
    assert await heard(Play((head(200, *lines), *chunked(pieces)))) == STREAM


async def test_a_packed_stream_that_is_damaged_is_garbled() -> None:
    packed = bytearray(gzip.compress(STREAM))
    packed[-6] ^= 1  # in the sum at the end
    lines = ("transfer-encoding: chunked", "content-encoding: gzip")
    with pytest.RaisesGroup(pytest.RaisesExc(StreamGarbled, match="cannot be unpacked"), flatten_subgroups=True):
        await heard(Play((head(200, *lines), *chunked([bytes(packed)]))))


@pytest.mark.parametrize("kind", ["text/event-stream", "application/json", "text/html"])
@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, br", "gzip, gzip"])
async def test_another_encoding_is_named(encoding: str, kind: str) -> None:
    said = f"it is encoded as `{encoding}`, and plain text was asked for; .* by `gzip` or `deflate`, or correct"
    with pytest.RaisesGroup(pytest.RaisesExc(EncodingRefused, match=said), flatten_subgroups=True):
        await heard(Play((head(200, f"content-encoding: {encoding}", f"content-type: {kind}"), b"x")))


@pytest.mark.parametrize("encoding", ["br", "zstd"])
@pytest.mark.parametrize("kind", ["text/event-stream", "application/json"])
async def test_a_session_is_told_at_once_of_another_encoding_and_asks_the_next_model(encoding: str, kind: str) -> None:
    packed = Play((head(200, f"content-encoding: {encoding}", f"content-type: {kind}"), b"x"))
    async with serving(packed) as server, open_supervisor(secrets=lambda _: "sk-ant-0123456789", seed=1) as supervisor:
        options: dict[str, Json] = {"base_url": server.url, "api_key": Secret("KEY")}
        model = ("anthropic:claude-sonnet-5", options)
        alone = await supervisor.spawn(SessionSpec(model=[model]))
        with pytest.raises(TurnAborted, match="and plain text was asked for"):
            await alone.ask("hello")
        assert len(server.asked) == 1
        chained = await supervisor.spawn(SessionSpec(model=[model, ScriptedModel(["well"])]))
        assert (await chained.ask("hello")).text == "well"
        assert len(server.asked) == 2


async def test_an_error_that_cannot_be_unpacked_is_told_by_its_status() -> None:
    async with serving(Play((head(503, "content-encoding: br"), b"x"))) as server:
        http = Http()
        answer = await http.post(Post(server.url, {}, b"{}", Patience(5, 5, 5)), lambda _: False)
        await http.close()
    assert (answer.status, answer.body) == (503, b"")


async def test_an_encoding_that_is_named_and_empty_is_none() -> None:
    lines = ("transfer-encoding: chunked", "content-encoding: ")
    assert await heard(Play((head(200, *lines), *chunked([STREAM])))) == STREAM
