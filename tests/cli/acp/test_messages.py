"""Lines: what is no message gets its code, and nothing that comes after it is lost."""

import os
from pathlib import Path

import pytest

from agentrail.cli.acp import json_lines
from agentrail.cli.acp.json_lines import LineReader, LineTooLongError
from agentrail.cli.acp.rpc_messages import (
    BadMessageError,
    RpcAnswer,
    RpcNotification,
    RpcRequest,
    read_message,
)
from tests.cli.acp.editor import editor

WRONG = [
    (b"{", -32700, None),
    (b"\xff", -32700, None),
    (b'{"jsonrpc": "2.0", "id": NaN, "method": "x"}', -32700, None),
    (b'{"a": 1, "a": 2}', -32700, None),
    (b"[" * 5000, -32700, None),
    (b"[]", -32600, None),
    (b'[{"jsonrpc": "2.0", "id": 1, "method": "initialize"}]', -32600, None),
    (b"7", -32600, None),
    (b'"text"', -32600, None),
    (b'{"id": 1, "method": "initialize"}', -32600, 1),
    (b'{"jsonrpc": "1.0", "id": 1, "method": "initialize"}', -32600, 1),
    (b'{"jsonrpc": "2.0", "id": "a"}', -32600, "a"),
    (b'{"jsonrpc": "2.0", "id": "a", "method": 7}', -32600, "a"),
    (b'{"jsonrpc": "2.0", "id": {}, "method": "initialize"}', -32600, None),
    (b'{"jsonrpc": "2.0", "id": true, "method": "initialize"}', -32600, None),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": [1]}', -32602, 1),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}', -32602, 1),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "1"}}', -32602, 1),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 0}}', -32022, 1),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "session/list"}', -32600, 1),
]


@pytest.mark.parametrize(("line", "code", "request_id"), WRONG, ids=range(len(WRONG)))
async def test_a_wrong_line_gets_its_code_and_the_next_one_is_answered(
    tmp_path: Path, line: bytes, code: int, request_id: object
) -> None:
    async with editor(tmp_path / "j.db") as connected:
        connected.write(line)
        answer = await connected.wait_for(lambda message: "error" in message)
        assert (answer["error"]["code"], answer["id"]) == (code, request_id)  # type: ignore[index]
        assert (await connected.begin())["protocolVersion"] == 1


async def test_what_needs_no_answer_gets_none(tmp_path: Path) -> None:
    async with editor(tmp_path / "j.db") as connected:
        for line in (
            b"",
            b"  ",
            b'{"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": 7}}',
            b'{"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "nobody"}}',
            b'{"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 99}}',
            b'{"jsonrpc": "2.0", "method": "_other/news"}',
            b'{"jsonrpc": "2.0", "id": 99, "result": {}}',
        ):
            connected.write(line)
        await connected.begin()
        assert len(connected.messages) == 1


@pytest.mark.parametrize("version", [1, 2, 65535])
async def test_a_version_is_agreed_on(tmp_path: Path, version: int) -> None:
    async with editor(tmp_path / "j.db") as connected:
        assert (await connected.call("initialize", protocolVersion=version))["protocolVersion"] == 1


def pipe(content: bytes) -> int:
    reading, writing = os.pipe()
    os.write(writing, content)
    os.close(writing)
    return reading


async def test_lines_are_read_to_the_end_of_the_input() -> None:
    descriptor = pipe(b"one\n\ntwo\nthe last one has no end")
    reader = LineReader(descriptor)
    assert [await reader.next_line() for _ in range(5)] == [b"one", b"", b"two", b"the last one has no end", None]
    os.close(descriptor)


async def test_a_line_that_is_too_long_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "LONGEST_LINE", 10)
    monkeypatch.setattr(json_lines, "CHUNK", 4)
    descriptor = pipe(b"x" * 30 + b"\nshort\n" + b"y" * 11)
    reader = LineReader(descriptor)
    with pytest.raises(LineTooLongError):
        await reader.next_line()
    assert await reader.next_line() == b"short"
    with pytest.raises(LineTooLongError):
        await reader.next_line()
    assert await reader.next_line() is None
    os.close(descriptor)


async def test_a_file_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"one\ntwo\n")
    descriptor = os.open(tmp_path / "lines", os.O_RDONLY)
    reader = LineReader(descriptor)
    assert [await reader.next_line() for _ in range(3)] == [b"one", b"two", None]
    os.close(descriptor)


def test_each_kind_of_message_is_read() -> None:
    assert read_message(b'{"jsonrpc": "2.0", "id": null, "method": "a"}') == RpcRequest(None, "a", {})
    assert read_message(b'{"jsonrpc": "2.0", "method": "a", "params": {"b": 1}}') == RpcNotification("a", {"b": 1})
    assert read_message(b'{"jsonrpc": "2.0", "id": 1, "result": null}') == RpcAnswer(1, None, None)
    assert read_message(b'{"jsonrpc": "2.0", "id": 1, "error": {"code": 1}}') == RpcAnswer(1, None, {"code": 1})
    with pytest.raises(BadMessageError):
        read_message(b'{"jsonrpc": "2.0", "id": 1, "error": 7}')
