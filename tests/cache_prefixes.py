"""What the records of a session tell of the prompt cache of its provider."""

from collections.abc import Iterable, Iterator

from agentrail.core.vocabulary.inputs import StreamEnded
from agentrail.events import PrefixChanged
from agentrail.insight import moments
from agentrail.insight.cache_prefix import CachePrefix
from agentrail.journals import Record


def broken_prefixes(records: Iterable[Record]) -> Iterator[tuple[int, PrefixChanged]]:
    """Yield the turn of each request that does not begin as the last one, and why it does not."""
    prefix = CachePrefix()
    for moment in moments(records):
        record, before, after = moment.record, moment.before, moment.state
        input_ = record.arrival.input
        answered = prefix.answered(before, input_) if isinstance(input_, StreamEnded) else None
        for changed in (answered, prefix.stepped(before, record.rulings, record.events, after)):
            if changed is not None:
                yield after.turn_count, changed
