"""`agentrail sessions seen`: what the model of a stored session saw in a round; nothing is sent."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Final

import trio

from agentrail.adapters.journals.journal_addresses import JournalAddress
from agentrail.api.public_ids import WHOLE_JOURNAL
from agentrail.cli.output.exit_status import DONE, FAILED, tell, view_line
from agentrail.cli.output.screen import clean, date_and_time, escaped, one_line
from agentrail.cli.output.text_table import aligned
from agentrail.cli.stored.stored_sessions import read_session
from agentrail.errors import UnknownModel, UnknownRequest
from agentrail.insight.account import number_or_id
from agentrail.insight.seen_request import RequestDifference, Seen, SeenPart, SentRequest, requests, seen
from agentrail.ports.journal import Record

WIDTH: Final = 160
"""Columns of a line."""

MOST_NAMED: Final = 10
"""The most requests that an error names, the last ones."""

_CACHED: Final = {True: "cached", False: "read", None: ""}
"""What is said of a part by whether the provider had it in its cache."""


def main(
    session: str, which: str | None, journal: JournalAddress | None, *, as_body: bool, as_test: bool, as_json: bool
) -> int:
    """Print what the model of the stored *session* saw in the round *which*, and return the exit status."""
    records = trio.run(read_session, journal, session)
    if records is None:
        return FAILED
    try:
        seen_round = seen(records, None if which is None else number_or_id(which))
    except UnknownRequest as missing:
        tell(f"agentrail: {missing}{_what_there_is(list(requests(records)))}")
        return FAILED
    if as_body:
        return _print_body(seen_round)
    if as_test:
        return _print_test(seen_round)
    if as_json:
        return _print_view(seen_round, records)
    for line in _lines(seen_round):
        print(line)
    return DONE


def _print_body(seen_round: Seen) -> int:
    from agentrail.adapters.models.provider_requests import render  # noqa: PLC0415 - it brings the wire formats

    try:
        rendered = render(seen_round.request, by_tool=seen_round.by_tool)
    except UnknownModel:
        tell(f"agentrail: `{seen_round.sent.model}` is a model of a program: what it sends is not in the records")
        return FAILED
    is_read_by_a_program = not sys.stdout.isatty()  # a terminal would obey what the body has besides text
    print(rendered.body if is_read_by_a_program else escaped(rendered.body))
    return DONE


def _print_view(seen_round: Seen, records: Sequence[Record]) -> int:
    """Print what `GET /v1/sessions/{id}/seen?whole=true` answers."""
    from agentrail.host.operations.record_views import rounds_in, seen_view  # noqa: PLC0415 - the interface of the host

    print(view_line(seen_view(seen_round, rounds_in(requests(records)), WHOLE_JOURNAL, is_whole=True)))
    return DONE


def _print_test(seen_round: Seen) -> int:
    from agentrail.testing.written_tests import as_test  # noqa: PLC0415 - few ask for it

    text = as_test(seen_round)
    if text is None:
        request_id = seen_round.sent.request_id
        tell(f"agentrail: no whole response has come to request `{request_id}`, so there is nothing to test")
        return FAILED
    print(text)
    return DONE


def _what_there_is(all_sent: Sequence[SentRequest]) -> str:
    """Return which rounds could be named instead, for an error."""
    last = ", ".join(f"`{row.request_id}` in round {row.number}" for row in all_sent[-MOST_NAMED:])
    return f"; its last ones are {last}" if last else ""


# For a person


def _lines(seen_round: Seen) -> Iterator[str]:
    """Yield the lines that are printed for a person."""
    row = seen_round.sent
    attempt = f", attempt {row.attempt}" if row.attempt > 1 else ""
    yield clean(
        f"{date_and_time(row.at_ms)}  record {row.record}: round {row.number} (turn {row.turn}, round {row.round}"
        f"{attempt}), request {row.request_id} to {row.model}"
    )
    yield ""
    rows = [("part", "name", "by", "tokens", "", ""), *map(_cells, seen_round.parts)]
    yield from aligned(rows, WIDTH, right=(3,))
    yield ""
    yield _tokens(seen_round)
    if seen_round.difference is not None:
        yield from _differences(seen_round.difference)
    yield from (f"not known: {one_line(clean(what))}" for what in seen_round.unknown)


def _cells(part: SeenPart) -> tuple[str, ...]:
    position = "" if part.place is None else f" {part.place}"
    return (
        f"{part.layer}{position}",
        part.name if part.name != part.layer else "",
        ", ".join(part.by),
        f"{part.tokens:,}",
        _CACHED[part.cached],
        _text_of(part),
    )


def _text_of(part: SeenPart) -> str:
    """Return what a person reads of *part*: its text, the description of a tool, or the calls of a response."""
    if part.tool is not None:
        return part.tool.description
    if part.message is None:
        return part.text
    calls = [call.name for call in getattr(part.message, "calls", ())]
    return " ".join(filter(None, (part.message.text, f"→ {', '.join(calls)}" if calls else "")))


def _tokens(seen_round: Seen) -> str:
    """Return what is known of the size of the request."""
    about = f"about {seen_round.tokens:,} tokens"
    if seen_round.usage is None:
        return f"{about}; no response has come"
    how = "estimated" if seen_round.usage.estimated else "counted"
    input_tokens, cached = seen_round.usage.input_tokens, seen_round.usage.cached_tokens
    return f"{about}; {how} with the response: {input_tokens:,}, of which {cached:,} from the cache"


def _differences(difference: RequestDifference) -> Iterator[str]:
    """Yield what differs from the request before."""
    earlier = difference.before
    yield (
        f"since request {earlier.request_id} (round {earlier.number}): the first {difference.same} parts are the same "
        f"(about {difference.same_tokens:,} tokens), {len(difference.gone)} gone, {len(difference.new)} new"
    )
    for change in difference.settings:
        yield f"    {one_line(clean(f'{change.field}: {change.before!r} → {change.after!r}'))}"
    changed = [*(("-", part) for part in difference.gone), *(("+", part) for part in difference.new)]
    rows = [(mark, *_cells(part)[:4], _text_of(part)) for mark, part in changed]
    yield from (f"    {line}" for line in (aligned(rows, WIDTH, right=(4,)) if rows else ()))
    if difference.broke is not None:
        broke = difference.broke
        by = f", changed by {broke.by}" if broke.by else ""
        yield one_line(
            clean(f"the cache broke at {broke.part} `{broke.name}`{by}: about {broke.tokens:,} tokens again")
        )
