"""Pairs of plugins: the first counts what the second then blocks or changes.

Each plugin is right alone. A pair fails only for a call with certain values in two or more arguments, or for two calls
with the same value. The first pair is from a user's report. The others were written from the guide and the reference,
by an author who had not read the code that draws calls, so that neither was made to fit the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest
from attrs import frozen

from agentrail import Abort, BlockTool, Context, Continue, Plugin, ReplaceToolArgs
from agentrail.models import JsonObject
from agentrail.plugins import AnyPlugin, BeforeTool
from agentrail.testing import ScriptStep, Trace, call, prompt, say


def hooks_of(trace: Trace, plugin: str) -> list[BeforeTool]:
    """Return the hooks that *plugin* was asked at, in order; a call that was changed comes again."""
    hooks = (decision.hook for decision in trace.decisions if decision.plugin == plugin)
    return [hook for hook in hooks if isinstance(hook, BeforeTool)]


def vetoed(trace: Trace) -> set[str]:
    """Return the ids of calls for which a plugin blocked the call or aborted the turn."""
    return {
        decision.hook.call_id
        for decision in trace.decisions
        if isinstance(decision.hook, BeforeTool) and isinstance(decision.answer, BlockTool | Abort)
    }


def counts_what_may_run(trace: Trace, plugin: str, count: Callable[[BeforeTool], float]) -> None:
    """Check that the state of *plugin* is the sum over the calls it saw that were not vetoed."""
    if seen := hooks_of(trace, plugin):
        blocked = vetoed(trace)
        may_run = sum(count(hook) for hook in seen if hook.call_id not in blocked)
        counted = trace.plugin_state(plugin)
        assert counted == pytest.approx(may_run), f"{counted} was counted, {may_run} may run"


# Reported: an integer beside a word


@frozen
class Stored(Plugin[int]):
    """Adds up the bytes that are stored."""

    def init(self, ctx: Context) -> int:
        return 0

    def before_tool(self, hook: BeforeTool, state: int, ctx: Context) -> Continue[int]:
        size = hook.args.get("size")
        return Continue(state + size) if hook.name == "store" and isinstance(size, int) else Continue(state)


@frozen
class NoArchive(Plugin[None]):
    """Blocks all writing to the archive."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None] | BlockTool[None]:
        return BlockTool("the archive is closed") if hook.args.get("volume") == "archive" else Continue()


def bytes_of(hook: BeforeTool) -> int:
    size = hook.args.get("size")
    return size if hook.name == "store" and isinstance(size, int) else 0


def bytes_counted_are_stored(trace: Trace) -> None:
    counts_what_may_run(trace, "Stored", bytes_of)


# One: a pattern beside a word


def seats_of(hook: BeforeTool) -> int:
    match (hook.name, hook.args):
        case ("book", {"seats": int(seats)}):
            return seats
        case _:
            return 0


@frozen
class Seats(Plugin[int]):
    """Adds up the seats that are booked."""

    def init(self, ctx: Context) -> int:
        return 0

    def before_tool(self, hook: BeforeTool, state: int, ctx: Context) -> Continue[int]:
        return Continue(state + seats_of(hook))


@frozen
class Economy(Plugin[None]):
    """Blocks bookings above economy class."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None] | BlockTool[None]:
        match (hook.name, hook.args):
            case ("book", {"cabin": "first" | "business"}):
                return BlockTool("economy is good enough")
            case _:
                return Continue()


def seats_counted_are_booked(trace: Trace) -> None:
    counts_what_may_run(trace, "Seats", seats_of)


# Two: a figure within an object, read by a function of its own, beside one of several words of the module

EMBARGO = frozenset({"cuvania", "sylland"})


def tonnes_of(args: JsonObject) -> float:
    cargo = args.get("cargo")
    if not isinstance(cargo, Mapping):
        return 0.0
    weight = cargo.get("weight")
    return weight / 1_000 if isinstance(weight, int | float) and weight > 0 else 0.0


@frozen
class Freight(Plugin[float]):
    """Adds up the tonnes that are shipped."""

    def init(self, ctx: Context) -> float:
        return 0.0

    def before_tool(self, hook: BeforeTool, state: float, ctx: Context) -> Continue[float]:
        return Continue(state + tonnes_of(hook.args)) if hook.name == "ship" else Continue(state)


@frozen
class Embargo(Plugin[None]):
    """Aborts shipments to countries under an embargo."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None] | Abort[None]:
        if hook.name == "ship" and hook.args.get("country") in EMBARGO:
            return Abort("nothing may go there")
        return Continue()


def tonnes_counted_are_shipped(trace: Trace) -> None:
    counts_what_may_run(trace, "Freight", lambda hook: tonnes_of(hook.args) if hook.name == "ship" else 0.0)


# Three: the beginning of a text beside a word and another text, changed and not vetoed


def appended(name: str, args: JsonObject) -> int:
    text = args.get("text")
    return len(text) if name == "log" and args.get("mode") == "append" and isinstance(text, str) else 0


@frozen
class Appends(Plugin[int]):
    """Adds up the characters that are appended to logs."""

    def init(self, ctx: Context) -> int:
        return 0

    def before_tool(self, hook: BeforeTool, state: int, ctx: Context) -> Continue[int]:
        return Continue(state + appended(hook.name, hook.args))


@frozen
class ColdStorage(Plugin[None]):
    """Changes writes to cold storage into staging."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None] | ReplaceToolArgs[None]:
        path = hook.args.get("path")
        if not isinstance(path, str) or not path.startswith("/mnt/cold/"):
            return Continue()
        return ReplaceToolArgs({**hook.args, "mode": "stage"})


def characters_counted_are_appended(trace: Trace) -> None:
    started = {start.call_id: start for start in trace.started}
    calls = [hook.call_id for hook in hooks_of(trace, "Appends")]
    if calls and len(set(calls)) == len(calls) and started.keys() >= set(calls):
        appends = sum(appended(started[call_id].name, started[call_id].args) for call_id in calls)
        counted = trace.plugin_state("Appends")
        assert counted == appends, f"{counted} characters were counted and {appends} appended"


# Four: two calls that share a text, one of which needs two words


def version_checked(hook: BeforeTool) -> str | None:
    version = hook.args.get("version")
    full = hook.name == "check" and hook.args.get("suite") == "full"
    return version if full and isinstance(version, str) else None


@frozen
class Tested(Plugin[frozenset[str]]):
    """Blocks the release of a version whose full check it has not seen."""

    def init(self, ctx: Context) -> frozenset[str]:
        return frozenset()

    def before_tool(
        self, hook: BeforeTool, state: frozenset[str], ctx: Context
    ) -> Continue[frozenset[str]] | BlockTool[frozenset[str]]:
        if version := version_checked(hook):
            return Continue(state | {version})
        if hook.name == "release" and hook.args.get("version") not in state:
            return BlockTool("check it first")
        return Continue(state)


@frozen
class Calm(Plugin[None]):
    """Blocks checks on production."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None] | BlockTool[None]:
        if hook.name == "check" and hook.args.get("target") == "production":
            return BlockTool("not where customers are")
        return Continue()


def what_is_released_was_checked(trace: Trace) -> None:
    blocked = vetoed(trace)
    seen = hooks_of(trace, "Tested")
    for start in trace.started:
        if start.name == "release":
            version = start.args.get("version")
            checks = {hook.call_id for hook in seen if version_checked(hook) == version}
            assert not checks or not checks <= blocked, f"{version!r} was released, and its check was blocked"


# Five: a list of a certain length beside a flag and what is not there


@frozen
class Outbox(Plugin[int]):
    """Counts the receivers of urgent mail."""

    def init(self, ctx: Context) -> int:
        return 0

    def before_tool(self, hook: BeforeTool, state: int, ctx: Context) -> Continue[int]:
        return Continue(state + reached(hook))


def reached(hook: BeforeTool) -> int:
    to = hook.args.get("to")
    urgent = hook.name == "send" and hook.args.get("urgent") is True
    return len(to) if urgent and isinstance(to, Sequence) and not isinstance(to, str) else 0


@frozen
class Crowd(Plugin[None]):
    """Blocks unsigned mail to more than three receivers."""

    most: int = 3

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None] | BlockTool[None]:
        to = hook.args.get("to")
        if "signed_by" in hook.args or not isinstance(to, list | tuple) or len(to) <= self.most:
            return Continue()
        return BlockTool("too many")


def people_counted_are_reached(trace: Trace) -> None:
    counts_what_may_run(trace, "Outbox", reached)


PAIRS: tuple[tuple[AnyPlugin, AnyPlugin, Callable[[Trace], None]], ...] = (
    (Stored(), NoArchive(), bytes_counted_are_stored),
    (Seats(), Economy(), seats_counted_are_booked),
    (Freight(), Embargo(), tonnes_counted_are_shipped),
    (Appends(), ColdStorage(), characters_counted_are_appended),
    (Tested(), Calm(), what_is_released_was_checked),
    (Outbox(), Crowd(), people_counted_are_reached),
)

# By the invariant that it breaks: what shows that the pair is one
SHOWN: dict[str, list[ScriptStep]] = {
    "bytes_counted_are_stored": [
        prompt("go"),
        say(calls=[call("store", {"size": 5, "volume": "archive"})]),
    ],
    "seats_counted_are_booked": [
        prompt("go"),
        say(calls=[call("book", {"seats": 2, "cabin": "business"})]),
    ],
    "tonnes_counted_are_shipped": [
        prompt("go"),
        say(calls=[call("ship", {"cargo": {"weight": 700}, "country": "sylland"})]),
    ],
    "characters_counted_are_appended": [
        prompt("go"),
        say(calls=[call("log", {"mode": "append", "text": "so it is", "path": "/mnt/cold/a"})]),
    ],
    "what_is_released_was_checked": [
        prompt("go"),
        say(calls=[call("check", {"suite": "full", "version": "2", "target": "production"})]),
        say(calls=[call("release", {"version": "2"})]),
    ],
    "people_counted_are_reached": [
        prompt("go"),
        say(calls=[call("send", {"urgent": True, "to": ["a", "b", "c", "d"]})]),
    ],
}
