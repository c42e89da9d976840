"""`WhatIfCalls`: other plugins tried on what happened in a session; nothing of it is run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, cast

import trio

from agentrail.api.bodies import WhatIfQuery
from agentrail.api.insight_views import CandidatesView, PartingView, PluginStepView, RulingSideView, WhatIfView
from agentrail.api.limits import INSIGHT_RECORDS, MOST_PAGE
from agentrail.codec.json_text import from_text
from agentrail.errors import BadText, UsageError, WrongType
from agentrail.errors.agentrail_error import listed
from agentrail.hooks.attachments import unkeyed
from agentrail.hooks.plugin import Attachable
from agentrail.host.hosted_sessions import HostedSessions
from agentrail.host.operations.call import Answer, OperationCall
from agentrail.host.operations.record_views import sentence_of
from agentrail.insight.explanations import Explanation
from agentrail.lazy import LazyModule
from agentrail.ports.journal import Journal

if TYPE_CHECKING:
    from agentrail.insight.session_backtest import Parting, SessionBackTest
    from agentrail.what_if import candidates, recorded_sessions, tested_session
else:  # few hosts are asked what if
    candidates = LazyModule("agentrail.what_if.candidates")
    recorded_sessions = LazyModule("agentrail.what_if.recorded_sessions")
    tested_session = LazyModule("agentrail.what_if.tested_session")

NO_CANDIDATES: Final[Mapping[str, Sequence[Attachable]]] = MappingProxyType({})

CANDIDATES_WANTED: Final = "a mapping of names to lists of plugins"

AT_ONCE: Final = 1
"""How many sessions are tested at once: hooks of plugins take the time of the processor."""


def check_candidates(rows: object) -> None:
    """Raise an error unless *rows* are plugins by a name."""
    if not isinstance(rows, Mapping):
        raise WrongType.of("candidates", rows, CANDIDATES_WANTED)
    for name, row in cast("Mapping[object, object]", rows).items():
        if not isinstance(name, str) or not isinstance(row, list | tuple):
            raise WrongType.of("candidates", cast("object", rows), CANDIDATES_WANTED)
        for plugin in cast("Sequence[Attachable]", row):
            unkeyed(plugin)


class WhatIfCalls:
    """Carries out the calls that try other plugins on a session; it is neither started nor woken."""

    def __init__(self, sessions: HostedSessions, journal: Journal, rows: Mapping[str, Sequence[Attachable]]) -> None:
        self._sessions = sessions
        self._journal = journal
        self._rows = rows
        """The plugins that the operator has to be tried, by name."""
        self._workers = trio.CapacityLimiter(AT_ONCE)

    async def candidates(self, call: OperationCall) -> Answer:
        """List the names of the plugins that the operator has to be tried."""
        await trio.lowlevel.checkpoint()
        return call.view_answer(CandidatesView(tuple(sorted(self._rows))))

    async def what_if(self, call: OperationCall) -> Answer:
        """Tell where a candidate would have ruled otherwise in a session."""
        query = call.query(WhatIfQuery)
        name = self._sessions.name(call.row, call.who, call.session)
        stored = await self._sessions.stored(name)  # first: of a session that is not there, nothing is told
        candidate = candidates.Candidate(self._plugins(query.candidate), _options_of(call, query.options))
        if stored.head > INSIGHT_RECORDS:
            raise UsageError("history-too-long", stored.head, INSIGHT_RECORDS)
        async with self._workers:
            records = await recorded_sessions.records_of(self._journal, stored)
            work = partial(tested_session.backtest_records, candidate, name.internal, records, query.beyond)
            outcome = await trio.to_thread.run_sync(work, abandon_on_cancel=True)
        return call.view_answer(_view(outcome, name.tenant))

    def _plugins(self, name: str | None) -> Sequence[Attachable] | None:
        if name is None:
            return None
        if name not in self._rows:
            raise UsageError("unknown-candidate", name, listed(sorted(self._rows)))
        return self._rows[name]


def _options_of(call: OperationCall, text: str) -> Mapping[str, Mapping[str, object]]:
    """Return the options that change, which *text* has as JSON; raise unless each plugin has an object of them."""
    if not text:
        return {}
    try:
        options = from_text(text)
    except BadText as error:
        raise UsageError("bad-query", call.row.name, "its `options`", str(error)) from None
    rows = options if isinstance(options, Mapping) else {"": options}
    for key, row in rows.items():
        if not isinstance(row, Mapping):
            raise UsageError("bad-candidate", key, "they are no object")
    return cast("Mapping[str, Mapping[str, object]]", rows)


def _view(outcome: SessionBackTest, tenant: str) -> WhatIfView:
    parts = outcome.parts[:MOST_PAGE]
    return WhatIfView(
        records=outcome.records,
        turns=outcome.turns,
        rulings=outcome.rulings,
        parts=tuple([_parting_view(part, tenant) for part in parts]),
        more=len(outcome.parts) > len(parts),
        inexact=outcome.inexact,
        skipped=outcome.skipped,
    )


def _parting_view(part: Parting, tenant: str) -> PartingView:
    return PartingView(
        record=part.record,
        turn=part.turn,
        hook=part.hook,
        call_id=part.call_id,
        field=part.field,
        then=_side_view(part.then, tenant),
        now=_side_view(part.now, tenant),
        took_effect=part.took_effect,
        guess=part.guess,
    )


def _side_view(explanation: Explanation, tenant: str) -> RulingSideView:
    return RulingSideView(
        sentence_of(explanation.sentence, tenant),
        explanation.ruling.by,
        tuple(
            [
                PluginStepView(
                    step.plugin,
                    sentence_of(step.sentence, tenant),
                    None if step.rule is None else step.rule.name.lower(),
                    step.decided,
                )
                for step in explanation.steps
            ]
        ),
    )
