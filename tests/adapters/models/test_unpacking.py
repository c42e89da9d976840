"""Answers that a server in between has packed."""

from __future__ import annotations

import gzip
import zlib
from random import Random

import pytest
import trio

from agentrail import Secret, SessionSpec, open_supervisor
from agentrail.adapters.models.http import MOST, SLICE, Http, Patience, Post, Unpacker
from agentrail.errors import EncodingRefused, StreamGarbled, TurnAborted
from agentrail.models import Json
from agentrail.testing import ScriptedModel
from tests.adapters.models import anthropic_events as anthropic
from tests.adapters.models.server import Play, chunked, head, serving
from tests.kit import EMPTY
from tests.profiles import CAMPAIGN

STREAM = anthropic.saying(*(f"word{number} " for number in range(500 if CAMPAIGN else 100)))


def raw_deflate(data: bytes) -> bytes:
    return zlib.compress(data)


PACKED = {
    "gzip": gzip.compress(STREAM),
    "x-gzip": gzip.compress(STREAM),
    "deflate": raw_deflate(STREAM),
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
            await http.post(Post(server.url, {}, EMPTY, Patience(5, 5, 5)), hear)
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


async def test_each_flushed_piece_is_heard_when_it_comes() -> None:
    packer = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    unpacker = Unpacker("gzip")
    for event in (b"data: 1\n\n", b"data: 2\n\n"):
        sent = packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH)
        assert b"".join(unpacker.pieces(sent)) == event


async def test_several_packed_texts_are_one() -> None:
    packed = gzip.compress(b"one ") + gzip.compress(b"two")
    for size in (1, 5, len(packed)):
        unpacker = Unpacker("gzip")
        pieces = [packed[at : at + size] for at in range(0, len(packed), size)]
        assert b"".join(part for piece in pieces for part in unpacker.pieces(piece)) == b"one two"


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_an_answer_that_is_cut_gives_what_has_come_and_never_more(encoding: str) -> None:
    packed = PACKED[encoding]
    found: list[bytes] = []
    for size in range(len(packed)):
        unpacker = Unpacker(encoding)
        found.append(b"".join(unpacker.pieces(packed[:size])))
        assert STREAM.startswith(found[-1])
    assert (found[0], found[-1]) == (b"", STREAM)  # the sum at the end is all that the last byte cuts


async def test_a_sum_that_is_wrong_is_noticed() -> None:
    packed = bytearray(gzip.compress(STREAM))
    packed[-6] ^= 1
    with pytest.raises(StreamGarbled, match="cannot be unpacked"):
        list(Unpacker("gzip").pieces(bytes(packed)))


@pytest.mark.long
async def test_what_unpacks_to_too_much_is_refused_in_slices() -> None:
    bomb = gzip.compress(bytes(MOST + SLICE))
    sizes: list[int] = []
    with pytest.raises(StreamGarbled, match="it unpacks to more than 67,108,864 bytes"):
        sizes.extend(map(len, Unpacker("gzip").pieces(bomb)))
    assert max(sizes) <= SLICE
    assert sum(sizes) <= MOST


@pytest.mark.parametrize(("extra", "passes"), [(-1, True), (0, True), (1, False)])
def test_the_limit_is_exact(extra: int, passes: bool) -> None:
    packed = gzip.compress(bytes(1_000 + extra))
    unpacker = Unpacker("gzip", 1_000)
    if passes:
        assert len(b"".join(unpacker.pieces(packed))) == 1_000 + extra
    else:
        with pytest.raises(StreamGarbled):
            list(unpacker.pieces(packed))


async def test_others_have_their_turn_while_a_large_piece_is_unpacked() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    packed = gzip.compress(bytes(8 * 1024 * 1024))
    lines = ("transfer-encoding: chunked", "content-encoding: gzip")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(count)
        assert len(await heard(Play((head(200, *lines), *chunked([packed]))))) == 8 * 1024 * 1024
        nursery.cancel_scope.cancel()
    assert turns > 8 * 1024 * 1024 // SLICE


@pytest.mark.parametrize("kind", ["text/event-stream", "application/json", "text/html"])
@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, br"])
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
        answer = await http.post(Post(server.url, {}, EMPTY, Patience(5, 5, 5)), lambda _: False)
        await http.close()
    assert (answer.status, answer.body) == (503, b"")


async def test_an_encoding_that_is_named_and_empty_is_none() -> None:
    lines = ("transfer-encoding: chunked", "content-encoding: ")
    assert await heard(Play((head(200, *lines), *chunked([STREAM])))) == STREAM


def test_any_bytes_are_unpacked_or_refused() -> None:
    random = Random(7)
    for _ in range(2_000):
        packed = bytearray(gzip.compress(random.randbytes(random.randrange(300))))
        for _ in range(random.randrange(4)):
            packed[random.randrange(len(packed))] = random.randrange(256)
        try:
            found = b"".join(Unpacker("gzip", 10_000).pieces(bytes(packed)))
        except StreamGarbled:
            continue
        assert len(found) <= 10_000
