"""`HostConnection` against a host that plays the protocol: calls, subscriptions, cuts, slow readers, errors."""

from __future__ import annotations

import json
import logging
import ssl
import traceback
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Final, cast

import pytest
import trio
import trio.testing
import trustme

from agentrail import Secret
from agentrail.api.problems import problem_of
from agentrail.errors import (
    AgentrailError,
    BadConnection,
    BodyTooLarge,
    HostClosing,
    HostFailed,
    HostLost,
    HostNotReached,
    NotAuthenticated,
    QueueFull,
    SubscriberTooSlow,
    TooManyRequests,
    UnknownSession,
    UsageError,
)
from agentrail.events import Cursor
from agentrail.host import HostLimits
from agentrail.models import JsonObject
from agentrail.remote.transport.host_address import HostAddress, HostKey, read_address, split_key
from agentrail.remote.transport.host_connection import MAX_CALLS, MAX_FAULTS, MAX_WAITING, open_line
from agentrail.remote.transport.host_subscription import MAX_KEPT, EventFrame, GapFrame, ViewFrame
from agentrail.values.events.policies import POLICIES, SubscriptionPolicy
from tests.coded import coded
from tests.each_case import each_case
from tests.host.hosted import KEYS, open_desk, scripted
from tests.patience import within
from tests.remote.playing_host import KEY, Message, Play, PlayingHost

PROMPT: Final = {"message": "hello"}


def answer(message: Message, body: object = None, status: int = 200) -> Message:
    return {"id": message["id"], "status": status, "body": body}


def problem(message: Message, error: AgentrailError) -> Message:
    document = problem_of(error, "do it")
    return {"id": message["id"], "status": document.status, "problem": json.loads(document.content)}


def echo(message: Message) -> Sequence[Message | int]:
    return [answer(message, {"echo": message.get("body")})] if "call" in message else []


def events(message: Message, first: int, last: int, size: int = 0) -> list[Message]:
    """Return the beginning of a subscription and some events; a message of an event has *size* characters."""
    sent: list[Message] = [{"id": message["id"], "cursor": f"{first - 1}.0"}]
    for number in range(first, last + 1):
        frame: Message = {"id": message["id"], "cursor": f"{number}.0", "event": "Said", "data": ""}

        frame["data"] = "x" * max(0, size - len(json.dumps(frame)))
        sent.append(frame)
    return sent


def once(first: int, last: int, size: int = 0) -> Play:
    """Return what answers each call, and begins each subscription with some events."""

    def play(message: Message) -> Sequence[Message | int]:
        return events(message, first, last, size) if "listen" in message else echo(message)

    return play


def since(message: Message) -> int:
    return int(cast("str", message.get("since", "0.0")).partition(".")[0])


# Calls


async def test_a_call_gives_what_the_host_answers_or_raises_its_error() -> None:
    def play(message: Message) -> Sequence[Message | int]:
        if message["call"] == "prompt":
            return [answer(message, {"seq": 7}, 202)]
        return (
            [{"id": message["id"], "status": 204}] if message["call"] == "abort" else [problem(message, QueueFull(3))]
        )

    host = PlayingHost(play)
    with host.playing():
        async with open_line(host.url, KEY) as line:
            assert await line.call("prompt", session="trip", body=PROMPT, command="c-1") == {"seq": 7}
            assert await line.call("abort", session="trip", body={}) is None
            with pytest.raises(QueueFull) as raised:
                await line.call("messages", session="trip", query={"page": 3})
            assert raised.value == QueueFull(3)
    first, second, third = host.received
    assert first == {"id": "1", "call": "prompt", "session": "trip", "body": PROMPT, "command": "c-1"}
    assert str(second.pop("command")).startswith("line-")
    assert second == {"id": "3", "call": "abort", "session": "trip", "body": {}}
    assert third == {"id": "4", "call": "messages", "session": "trip", "query": {"page": 3}}


async def test_what_is_in_flight_at_a_cut_is_sent_again_under_its_command_id() -> None:
    came = count(1)

    def play(message: Message) -> Sequence[Message | int]:
        return [1012] if next(came) <= 4 else echo(message)

    host = PlayingHost(play)
    with host.playing():
        async with open_line(host.url, KEY) as line:
            assert await line.call("prompt", session="trip", body=PROMPT) == {"echo": PROMPT}
            assert await line.call("tree") == {"echo": None}
    *prompts, last = host.received
    assert len(prompts) == 5
    assert all(prompt == prompts[0] for prompt in prompts)
    assert "command" not in last


AT_THE_DOOR: Final = pytest.mark.parametrize("refused", [HostClosing(), TooManyRequests(20, 0.1)], ids=str)


@AT_THE_DOOR
async def test_a_host_that_takes_no_call_now_is_asked_again_under_the_same_command_id(refused: AgentrailError) -> None:
    came = count(1)

    def play(message: Message) -> Sequence[Message | int]:
        if next(came) > 1:
            return echo(message)
        refusal = problem(message, refused)
        cast("dict[str, object]", refusal["problem"])["retry_after"] = 0.01
        return [refusal]

    host = PlayingHost(play)
    with host.playing():
        async with open_line(host.url, KEY) as line:
            assert await line.call("prompt", session="trip", body=PROMPT) == {"echo": PROMPT}
    first, second = host.received
    assert first["command"] == second["command"]


@pytest.mark.parametrize("call_name", ["call", "listen"])
async def test_the_next_process_of_a_host_is_asked_as_soon_as_it_is_there(call_name: str) -> None:
    came = count(1)

    def play(message: Message) -> Sequence[Message | int | str]:
        if next(came) > 1:
            return once(1, 1)(message)
        refusal = problem(message, HostClosing())
        cast("dict[str, object]", refusal["problem"])["retry_after"] = 50
        return [refusal, 1012]

    host = PlayingHost(play)
    with host.playing(), trio.fail_after(within(30)):
        async with open_line(host.url, KEY) as line:
            if call_name == "call":
                assert await line.call("prompt", session="trip", body=PROMPT) == {"echo": PROMPT}
            else:
                async with line.listen("events", "trip", since=Cursor(0)) as heard:
                    assert cast("EventFrame", await anext(heard)).cursor == Cursor(1)
    assert len(host.received) == 2


@pytest.mark.parametrize("seconds", [10**400, 1e308, 61])
async def test_nobody_waits_longer_than_the_patience_because_a_host_says_so(seconds: float) -> None:
    def play(message: Message) -> Sequence[Message | int]:
        refusal = problem(message, HostClosing())
        cast("dict[str, object]", refusal["problem"])["retry_after"] = seconds
        return [refusal]

    host = PlayingHost(play)
    with host.playing():
        async with open_line(host.url, KEY) as line:
            with pytest.raises(HostClosing):
                await line.call("prompt", session="trip", body=PROMPT)
            with pytest.raises(HostClosing):
                async with line.listen("approvals"):
                    pytest.fail("it is not entered")


async def test_a_host_that_takes_nothing_for_long_is_asked_no_longer_than_the_patience() -> None:
    def play(message: Message) -> Sequence[Message | int]:
        refusal = problem(message, HostClosing())
        cast("dict[str, object]", refusal["problem"])["retry_after"] = 0.03
        return [refusal]

    host = PlayingHost(play)
    with host.playing(), trio.fail_after(within(30)):
        async with open_line(host.url, KEY, patience=0.6) as line:
            with pytest.raises(HostClosing):
                await line.call("prompt", session="trip", body=PROMPT)
            request_count = len(host.received)
            with pytest.raises(HostClosing):
                async with line.listen("approvals"):
                    pytest.fail("it is not entered")
    assert 1 < request_count < len(host.received) - 1


async def test_an_answer_that_is_too_deep_costs_the_connection_and_not_the_line() -> None:
    came = count(1)

    def play(message: Message) -> Sequence[Message | int | str]:
        deep = f'{{"id":"{message["id"]}","status":200,"body":{"[" * 50_000}{"]" * 50_000}}}'
        return [deep] if next(came) == 1 else echo(message)

    host = PlayingHost(play)
    with host.playing():
        async with open_line(host.url, KEY) as line:
            assert await line.call("tree") == {"echo": None}
    assert len(host.received) == 2


@AT_THE_DOOR
async def test_a_host_that_takes_no_call_for_too_long_is_told_of(refused: AgentrailError) -> None:
    host = PlayingHost(lambda message: [problem(message, refused)])
    with host.playing():
        async with open_line(host.url, KEY, patience=1.0) as line:
            with pytest.raises(type(refused)):
                await line.call("prompt", session="trip", body=PROMPT)


async def test_a_caller_that_is_cancelled_gives_up_waiting_and_the_host_is_told() -> None:
    host = PlayingHost(lambda message: echo(message) if message.get("call") != "chat" else [])
    with host.playing():
        async with open_line(host.url, KEY) as line:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(line.call, "chat")
                while not host.received:
                    await line.call("tree")
                nursery.cancel_scope.cancel()
            await line.call("tree")
    names = [sent_message["id"] for sent_message in host.received if sent_message.get("call") == "chat"]
    assert [sent_message["id"] for sent_message in host.received if sent_message.get("end")] == names


@pytest.mark.parametrize("waiting", ["chat", "wait_tasks", "task_result", "cancel_task", "delete_session"])
async def test_calls_that_wait_for_turns_leave_room_for_an_abort(waiting: str) -> None:
    host = PlayingHost(lambda message: echo(message) if message.get("call") != waiting else [])
    with host.playing():
        async with open_line(host.url, KEY) as line, trio.open_nursery() as nursery:
            for _ in range(MAX_CALLS + 1):
                nursery.start_soon(line.call, waiting)
            await trio.testing.wait_all_tasks_blocked()
            assert await line.call("abort", session="trip", body={}) == {"echo": {}}
            nursery.cancel_scope.cancel()
    assert len([sent_message for sent_message in host.received if sent_message.get("call") == waiting]) == MAX_WAITING


async def test_no_more_calls_are_under_way_than_a_host_reads() -> None:
    held: list[Message] = []

    def play(message: Message) -> Sequence[Message | int]:
        held.append(message)
        if len(held) < MAX_CALLS:
            return []
        answers = [answer(held_message, held_message["id"]) for held_message in held]
        held.clear()
        return answers

    host = PlayingHost(play)
    ended: list[object] = []
    with host.playing():
        async with open_line(host.url, KEY) as line, trio.open_nursery() as nursery:

            async def ask() -> None:
                ended.append(await line.call("tree"))

            for _ in range(2 * MAX_CALLS):
                nursery.start_soon(ask)
    assert len(ended) == 2 * MAX_CALLS


async def test_a_call_that_is_larger_than_another_host_takes_is_not_sent_again_and_again() -> None:
    """A host, or a proxy before it, that does not say how many bytes it takes: fewer than these."""
    sizes: list[int] = []

    def play(message: Message) -> Sequence[Message | int]:
        sizes.append(len(json.dumps(message, separators=(",", ":"))))
        return [1009] if sizes[-1] > 1000 else echo(message)

    host = PlayingHost(play)
    with host.playing():
        async with open_line(host.url, KEY) as line:
            with pytest.raises(BodyTooLarge) as raised:
                await line.call("prompt", session="trip", body={"message": "x" * 1000})
            assert await line.call("prompt", session="trip", body=PROMPT) == {"echo": PROMPT}
    assert len(host.received) == 2
    assert raised.value == BodyTooLarge(sizes[0] - 1)


async def test_a_call_that_a_host_fails_at_is_sent_so_many_times_and_no_more() -> None:
    def play(message: Message) -> Sequence[Message | int]:
        return [1011] if message.get("call") == "prompt" else echo(message)

    host = PlayingHost(play)
    with host.playing():
        async with open_line(host.url, KEY) as line:
            with pytest.raises(HostFailed) as raised:
                await line.call("prompt", session="trip", body=PROMPT)
            assert await line.call("tree") == {"echo": None}
    assert len(host.received) == MAX_FAULTS + 1
    assert raised.value == HostFailed("it closed the connection (1011: played), each of 5 times that it was asked")


async def test_a_call_beside_faults_of_others_goes_on() -> None:
    came = count(1)

    def play(message: Message) -> Sequence[Message | int]:
        return [1011] if next(came) < MAX_FAULTS else echo(message)

    host = PlayingHost(play)
    with host.playing():
        async with open_line(host.url, KEY) as line:
            assert await line.call("prompt", session="trip", body=PROMPT) == {"echo": PROMPT}


async def test_a_call_survives_faults_that_are_not_in_a_row() -> None:
    codes = iter([*[1011] * (MAX_FAULTS - 1), 1012, *[1011] * (MAX_FAULTS - 1)])

    def play(message: Message) -> Sequence[Message | int]:
        code = next(codes, None)
        return echo(message) if code is None else [code]

    host = PlayingHost(play)
    with host.playing():
        async with open_line(host.url, KEY) as line:
            assert await line.call("prompt", session="trip", body=PROMPT) == {"echo": PROMPT}
    assert len(host.received) == 2 * MAX_FAULTS


async def test_a_subscription_that_a_host_fails_at_ends() -> None:
    host = PlayingHost(lambda message: [1011] if "listen" in message else [])
    with host.playing():
        async with open_line(host.url, KEY) as line:
            with pytest.raises(HostFailed):
                async with line.listen("events", "trip"):
                    pytest.fail("it is not entered")
    assert len(host.received) == MAX_FAULTS


async def test_a_subscription_that_gets_something_each_time_survives_faults() -> None:
    def play(message: Message) -> Sequence[Message | int]:
        first = since(message) + 1
        return [*events(message, first, first), 1011] if "listen" in message else []

    host = PlayingHost(play)
    with host.playing():
        async with open_line(host.url, KEY) as line, line.listen("events", "trip", since=Cursor(0)) as heard:
            for number in range(1, 2 * MAX_FAULTS):
                assert cast("EventFrame", await anext(heard)).cursor == Cursor(number)


MOST: Final = 2000


@pytest.mark.parametrize("filler", ["x", "€"])
@pytest.mark.parametrize("more", [-1, 0, 1])
async def test_a_call_has_so_many_bytes_as_the_host_takes_and_no_more(more: int, filler: str) -> None:
    limits = HostLimits(body_bytes=MOST // 2, header_bytes=MOST // 2, drain_seconds=0.5)
    wide = len(filler.encode())
    async with open_desk(scripted("one"), limits=limits) as desk, open_line(desk.serving.url, KEYS["ann"]) as line:
        size = MOST + more - len(json.dumps({"id": "1", "call": "commands", "body": {"x": ""}}, separators=(",", ":")))
        body: JsonObject = {"x": filler * (size // wide) + "x" * (size % wide)}
        with pytest.raises(AgentrailError) as raised:
            await line.call("commands", body=body)
        if more > 0:
            assert raised.value == BodyTooLarge(MOST)
        else:
            assert str(raised.value).startswith("the message does not fit: its `body` does not go with `commands`")
        assert await line.call("commands") == {"items": [], "next": None}


async def test_a_subscription_that_is_too_large_is_refused() -> None:
    limits = HostLimits(body_bytes=MOST // 2, header_bytes=MOST // 2, drain_seconds=0.5)
    async with open_desk(scripted("one"), limits=limits) as desk, open_line(desk.serving.url, KEYS["ann"]) as line:
        with pytest.raises(BodyTooLarge) as raised:
            async with line.listen("events", "x" * MOST):
                pytest.fail("it is not entered")
        assert raised.value == BodyTooLarge(MOST)


# Subscriptions


async def test_a_subscription_goes_on_after_its_last_event() -> None:
    def play(message: Message) -> Sequence[Message | int]:
        last = since(message)
        if last == 9:
            return [*events(message, 10, 10), {"id": message["id"], "end": True}]
        return [*events(message, last + 1, last + 3), 1012]

    host = PlayingHost(play)
    with host.playing():
        async with (
            open_line(host.url, KEY) as line,
            line.listen("events", "trip", types=["Said"], since=Cursor(0)) as heard,
        ):
            seqs = [frame.cursor.seq async for frame in heard if isinstance(frame, EventFrame)]
    assert seqs == [*range(1, 11)]
    assert [since(frame) for frame in host.received] == [0, 3, 6, 9]
    assert host.received[-1] == {
        "id": "1",
        "listen": "events",
        "session": "trip",
        "policy": "coalesce",
        "types": ["Said"],
        "since": "9.0",
    }


async def test_live_events_go_on_where_they_began() -> None:
    """The cut comes before the first event: the place where the host began to send counts."""
    came = count(1)

    def play(message: Message) -> Sequence[Message | int]:
        began: Message = {"id": message["id"], "cursor": "41.2"}
        return [began, 1012] if next(came) == 1 else [*events(message, 42, 42), {"id": message["id"], "end": True}]

    host = PlayingHost(play)
    with host.playing():
        async with open_line(host.url, KEY) as line, line.listen("events", "trip") as heard:
            assert [frame.cursor async for frame in heard if isinstance(frame, EventFrame)] == [Cursor(42)]
    assert [frame.get("since") for frame in host.received] == [None, "41.2"]


async def test_gaps_and_views_are_told_as_they_are() -> None:
    def play(message: Message) -> Sequence[Message | int]:
        name = message["id"]
        if message["listen"] == "approvals":
            return [{"id": name, "data": {"name": "root"}}, {"id": name, "end": True}]
        gap = {"id": name, "gap": {"from": "1.0", "to": "1.9"}}
        return [{"id": name, "cursor": "1.0"}, gap, {"id": name, "later": 1}, {"id": name, "end": True}]

    host = PlayingHost(play)
    with host.playing():
        async with open_line(host.url, KEY) as line:
            async with line.listen("approvals") as views:
                assert [frame async for frame in views] == [ViewFrame("1", {"name": "root"})]
            async with line.listen("events", "trip", since=Cursor(1)) as heard:
                assert [frame async for frame in heard] == [GapFrame("2", Cursor(1), Cursor(1, 9))]


@pytest.mark.parametrize("policy", POLICIES)
async def test_a_gap_is_told_once_however_often_the_connection_is_cut(policy: SubscriptionPolicy) -> None:
    """Durable events come after the gap that they are in: those that a cut has kept back must come all the same."""
    came = count(1)

    def play(message: Message) -> Sequence[Message | int]:
        name, began = message["id"], message.get("since")
        gap: Message = {"id": name, "gap": {"from": began, "to": "7.2"}}
        if next(came) == 1:
            return [{"id": name, "cursor": began}, gap, 1012]
        return [{"id": name, "cursor": began}, gap, *events(message, 4, 8)[1:], {"id": name, "end": True}]

    host = PlayingHost(play)
    with host.playing():
        async with (
            open_line(host.url, KEY) as line,
            line.listen("events", "trip", since=Cursor(3), policy=policy) as heard,
        ):
            frames = [frame async for frame in heard]
    assert [(frame.start, frame.end) for frame in frames if isinstance(frame, GapFrame)] == [(Cursor(3), Cursor(7, 2))]
    assert [frame.cursor for frame in frames if isinstance(frame, EventFrame)] == [Cursor(seq) for seq in range(4, 9)]
    assert heard.cursor == Cursor(8)
    assert [frame["since"] for frame in host.received if "listen" in frame] == ["3.0", "3.0"]


async def test_a_subscription_that_is_refused_raises_where_it_is_entered() -> None:
    host = PlayingHost(lambda message: [problem(message, UnknownSession("trip"))] if "listen" in message else [])
    with host.playing():
        async with open_line(host.url, KEY) as line:
            with pytest.raises(UnknownSession):
                async with line.listen("events", "trip"):
                    pytest.fail("it is not entered")


async def test_a_subscription_that_is_left_is_ended_at_the_host() -> None:
    host = PlayingHost(once(1, 1))
    with host.playing():
        async with open_line(host.url, KEY) as line:
            async with line.listen("events", "trip", since=Cursor(0)):
                pass
            await line.call("tree")
    assert [message.get("end") for message in host.received] == [None, True, None]


@pytest.mark.parametrize(("more", "listens"), [(-1, 1), (0, 1), (1, 2)])
async def test_what_waits_for_a_reader_is_bounded(more: int, listens: int) -> None:
    """A subscription that is not read holds up no other, and gets all its events when it is read."""
    half = MAX_KEPT // 2

    def play(message: Message) -> Sequence[Message | int]:
        if "call" in message:
            return echo(message)
        if message.get("end"):
            return []
        if since(message) == 0:
            return [*events(message, 1, 1, half), *events(message, 2, 2, half + more)[1:]]
        return [*events(message, 3, 4), {"id": message["id"], "end": True}]

    host = PlayingHost(play)
    with host.playing():
        async with open_line(host.url, KEY) as line, line.listen("events", "trip", since=Cursor(0)) as heard:
            assert await line.call("tree") == {"echo": None}
            frames = [(await anext(heard)), (await anext(heard))]
            if listens == 2:
                frames += [frame async for frame in heard]
    assert [frame.cursor.seq for frame in frames if isinstance(frame, EventFrame)] == [1, 2, 3, 4][: 2 * listens]
    assert [since(frame) for frame in host.received if "listen" in frame] == [0, 2][:listens]


async def test_a_slow_reader_with_the_policy_drop_goes_on_with_what_is_new() -> None:
    came = count(1)

    def play(message: Message) -> Sequence[Message | int]:
        if "listen" not in message:
            return echo(message)
        if next(came) == 1:
            return events(message, 1, 3, MAX_KEPT)
        return [*events(message, 9, 9), {"id": message["id"], "end": True}]

    host = PlayingHost(play)
    with host.playing():
        async with (
            open_line(host.url, KEY) as line,
            line.listen("events", "trip", since=Cursor(0), policy="drop") as heard,
        ):
            await line.call("tree")
            frames = [frame async for frame in heard]
    assert [frame.cursor.seq for frame in frames if isinstance(frame, EventFrame)] == [1, 2, 9]
    assert [(frame.start, frame.end) for frame in frames if isinstance(frame, GapFrame)] == [(Cursor(2), Cursor(8))]
    assert [frame.get("since") for frame in host.received if "listen" in frame] == ["0.0", None]


async def test_a_slow_reader_with_the_policy_disconnect_gets_its_cursor() -> None:
    host = PlayingHost(once(1, 3, MAX_KEPT))
    with host.playing():
        async with (
            open_line(host.url, KEY) as line,
            line.listen("events", "trip", since=Cursor(0), policy="disconnect") as heard,
        ):
            await line.call("tree")
            assert [(await anext(heard)).id for _ in range(2)] == ["1", "1"]
            with pytest.raises(SubscriberTooSlow) as raised:
                await anext(heard)
    assert raised.value.cursor == (2, 0)


async def test_of_a_view_only_the_newest_waits() -> None:
    def play(message: Message) -> Sequence[Message | int]:
        if "call" in message:
            return echo(message)
        name = message["id"]
        return [{"id": name, "data": number} for number in range(100)] if "listen" in message else []

    host = PlayingHost(play)
    with host.playing():
        async with open_line(host.url, KEY) as line, line.listen("approvals") as views:
            await line.call("tree")
            assert await anext(views) == ViewFrame("1", 99)


# The connection


async def test_callers_are_told_when_there_is_no_host_for_long() -> None:
    host = PlayingHost(once(1, 1))
    with host.playing():
        line_of = open_line(host.url, KEY, patience=1.0, longest_pause=0.1)
        line = await line_of.__aenter__()
        heard = line.listen("events", "trip", since=Cursor(0))
        await heard.__aenter__()
    with pytest.raises(HostLost):
        await line.call("prompt", session="trip", body=PROMPT)
    assert (await anext(heard)).id == "1"
    with pytest.raises(HostLost):
        await anext(heard)
    assert heard.cursor == Cursor(1)
    again = PlayingHost(echo, port=host.port)
    with again.playing():
        assert await line.call("prompt", session="trip", body=PROMPT) == {"echo": PROMPT}
        await line_of.__aexit__(None, None, None)


async def test_a_key_that_is_withdrawn_ends_the_line() -> None:
    def play(message: Message) -> Sequence[Message | int]:
        host.key = "another"
        return [1008] if message else []

    host = PlayingHost(play)
    with host.playing():
        async with open_line(host.url, KEY) as line:
            for _ in range(2):
                with pytest.raises(NotAuthenticated) as raised:
                    await line.call("prompt", session="trip", body=PROMPT)
                assert raised.value == NotAuthenticated("the key is not valid")


async def test_leaving_tells_the_host_and_all_who_wait() -> None:
    host = PlayingHost(lambda _: [])
    failed: list[BaseException] = []
    with host.playing():
        async with trio.open_nursery() as nursery, open_line(host.url, KEY) as line:

            async def ask() -> None:
                with pytest.raises(UsageError, check=coded("line-left")) as raised:
                    await line.call("tree")
                failed.append(raised.value)

            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked(0.05)
        with pytest.raises(UsageError, check=coded("line-left")):
            await line.call("tree")
    assert failed == [UsageError("line-left", host.url.replace("http", "ws"))]
    assert host.closes == [1000]


async def test_an_error_inside_comes_out_as_it_is() -> None:
    host = PlayingHost(echo)
    with host.playing(), pytest.raises(ZeroDivisionError):
        async with open_line(host.url, KEY):
            raise ZeroDivisionError


# Errors


async def test_no_host_there() -> None:
    host = PlayingHost(echo)
    with host.playing():
        pass
    with pytest.raises(HostNotReached) as raised:
        async with open_line(host.url, KEY):
            pass
    assert str(raised.value) == (
        f"cannot connect to a host at ws://127.0.0.1:{host.port}: Connection refused; start it there, or correct the "
        "address"
    )


async def test_a_key_is_refused_and_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    host = PlayingHost(echo, key="another")
    with host.playing(), pytest.raises(NotAuthenticated) as raised:
        async with open_line(host.url, KEY):
            pass
    host = PlayingHost(echo)
    with host.playing():
        async with open_line(host.url, KEY) as line:
            await line.call("tree")
            representations = repr(line) + repr(line.listen("approvals"))
    logged = "".join(record.getMessage() for record in caplog.records if not record.name.startswith("websockets."))
    text = "".join(traceback.format_exception(raised.value)) + logged + representations
    assert KEY not in text
    assert repr(HostKey(KEY)) == "<HostKey>"


async def test_another_version_of_the_protocol() -> None:
    host = PlayingHost(echo, subprotocol=None)
    with host.playing(), pytest.raises(HostNotReached, match=r"does not speak the protocol `agentrail\.v1`; correct"):
        async with open_line(host.url, KEY):
            pass


OTHERS: Final = {
    b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\nno": "it answers the handshake of a WebSocket with status 404",
    b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhal": "it answers the handshake of a WebSocket with status 200",
    b"SSH-2.0-OpenSSH_9.6\r\n\r\n": "it does not speak WebSocket as a host does",
    b"": "it closed the connection during the handshake",
}


@pytest.mark.parametrize("content", OTHERS)
async def test_something_else_answers(content: bytes) -> None:
    async def other(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some(65536)
            await stream.send_all(content)

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        nursery.start_soon(trio.serve_listeners, other, listeners)
        with pytest.raises(HostNotReached) as raised:
            async with open_line(f"http://127.0.0.1:{port}", KEY):
                pass
        assert raised.value.args[1] == OTHERS[content]
        nursery.cancel_scope.cancel()


async def test_a_host_that_speaks_no_tls() -> None:
    host = PlayingHost(echo)
    with host.playing(), pytest.raises(HostNotReached, match="no encrypted connection: TLS failed: "):
        async with open_line(host.url.replace("http", "https"), KEY):
            pass


async def test_tls_needs_a_certificate_that_is_trusted() -> None:
    authority = trustme.CA()
    server, client = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(server)
    host = PlayingHost(echo)
    with host.playing(server):
        url = host.url.replace("http", "https")
        with pytest.raises(HostNotReached, match=r"is not trusted: .* \(`SSL_CERT_FILE` names"):
            async with open_line(url, KEY):
                pass
        authority.configure_trust(client)
        async with open_line(url, KEY, tls=client) as line:
            assert await line.call("tree") == {"echo": None}


async def test_a_socket_of_this_machine(tmp_path: Path) -> None:
    host = PlayingHost(echo)
    with host.playing(path=f"{tmp_path}/host.sock"):
        async with open_line(f"unix:{tmp_path}/host.sock", KEY) as line:
            assert await line.call("tree") == {"echo": None}


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://agents.example.org", HostAddress("agents.example.org", 443, tls=True)),
        ("wss://agents.example.org:8443/rail/", HostAddress("agents.example.org", 8443, "/rail", tls=True)),
        ("http://[::1]:8000", HostAddress("::1", 8000)),
        ("ws://127.0.0.1", HostAddress("127.0.0.1", 80)),
        ("unix:/run/a.sock", HostAddress("localhost", 0, unix="/run/a.sock")),
    ],
)
def test_addresses(url: str, address: HostAddress) -> None:
    assert read_address(url) == address
    assert read_address(str(address)) == address


@each_case(
    [
        "agents.example.org",
        "https://",
        "ftp://agents.example.org",
        "https://ann:hidden@agents.example.org",
        "https://agents.example.org?key=hidden",
        "https://agents.example.org#hidden",
        "http://agents.example.org:hidden",
        "http://agents.example.org:70000",
        "http://[hidden",
        "http://a b",
        "http://a\r\nhidden: 1",
        "unix:run/a.sock",
        "unix://host/run/a.sock",
    ]
)
def test_an_address_that_is_none_is_not_repeated(url: str) -> None:
    with pytest.raises(BadConnection) as raised:
        read_address(url)
    assert "hidden" not in "".join(traceback.format_exception(raised.value)).rpartition("BadConnection")[2]


def test_a_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadConnection, match="`AGENTS_KEY` is not set"):
        HostKey(Secret("AGENTS_KEY"))
    monkeypatch.setenv("AGENTS_KEY", KEY)
    assert HostKey(Secret("AGENTS_KEY")).header == (b"authorization", f"Bearer {KEY}".encode())


@pytest.mark.parametrize("key", ["", "with a\nline", "x" * 1025, "schlüssel"])
def test_a_key_that_cannot_be_sent_is_refused(key: str) -> None:
    with pytest.raises(BadConnection) as raised:
        HostKey(key)
    assert not key or key not in str(raised.value)


def test_the_address_that_a_host_prints_has_its_key() -> None:
    assert split_key("http://127.0.0.1:8765/#token=V2h5") == ("http://127.0.0.1:8765", "V2h5")
    assert split_key("https://agents.example.com/desk#token=V2h5") == ("https://agents.example.com/desk", "V2h5")
    for url in ("http://127.0.0.1:8765", "http://127.0.0.1:8765/#token="):
        with pytest.raises(BadConnection, match="no key is given, and the address does not end with `#token=…`"):
            split_key(url)
