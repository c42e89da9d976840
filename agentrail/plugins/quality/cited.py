"""`Cited`: sends the model back if its answer cites a passage that no call of the session has returned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs
from attrs import frozen

from agentrail.hooks.actions import Continue, Intervene
from agentrail.hooks.context import Context
from agentrail.hooks.hook_types import AfterTool, BeforeFinish
from agentrail.hooks.plugin import Plugin, Priority
from agentrail.plugins.options import as_tuple, check_count, check_texts
from agentrail.plugins.quality.citations import MAX_CITATION, citations_in
from agentrail.plugins.short_texts import one_line
from agentrail.values.json import freeze

MAX_KEPT: Final = 500
"""The most citations of results that are remembered; the oldest is forgotten."""

SHOWN: Final = 10
"""The most citations that the text for the model names."""

SENT_BACK: Final = """\
You cite {citations}, which no search of this conversation has returned. Cite only the marks of passages that \
`{tools}` returned: search again, or leave the claim out. Then give your whole answer again."""
"""The text for the model after an answer that cites what was not returned."""


@frozen
class Citations:
    """The state of `Cited`."""

    returned: tuple[str, ...] = ()
    """Citations that calls have returned, the last one last."""
    turn: int = 0
    """Number of the last turn in which the model was sent back; 0 if it never was."""
    tries: int = 0
    """How often it was sent back in that turn."""


@frozen
class Cited(Plugin[Citations]):
    """Send the model back if its answer cites a passage, such as `[[handbook.md#3]]`, that no call has returned.

    A call of one of `tools` returns passages: it names them in the details of its result, where no text of a document
    can add one. After `max_tries` in a turn, the answer becomes final all the same. The event `citation_unknown` tells
    of each such answer.
    """

    tools: tuple[str, ...] = attrs.field(
        default=("knowledge_search", "knowledge_read"), converter=as_tuple, validator=check_texts
    )
    """Names of the tools whose results have passages."""
    max_tries: int = attrs.field(default=2, validator=check_count)
    """How often in one turn the model is sent back."""

    priority = Priority.QUALITY + 80

    def init(self, ctx: Context) -> Citations:
        """Return the first state: nothing was returned."""
        return Citations()

    def after_tool(self, hook: AfterTool, state: Citations, ctx: Context) -> Continue[Citations]:
        """Remember the passages that a call has returned."""
        details = hook.result.details if hook.name in self.tools else None
        passages = None if details is None else details.get("passages")
        if isinstance(passages, str) or not isinstance(passages, Sequence):
            return Continue(state)
        new = [text for text in passages if isinstance(text, str) and len(text) <= MAX_CITATION]
        returned = tuple(dict.fromkeys((*(old for old in state.returned if old not in new), *new)))[-MAX_KEPT:]
        return Continue(state if returned == state.returned else attrs.evolve(state, returned=returned))

    def before_finish(
        self, hook: BeforeFinish, state: Citations, ctx: Context
    ) -> Continue[Citations] | Intervene[Citations]:
        """Send the model back if the answer cites what no call has returned."""
        returned = frozenset(state.returned)
        cited = () if hook.texts else citations_in(ctx.last_assistant_reply or "")
        unknown = [text for text in cited if text not in returned][:SHOWN]
        if not unknown:
            return Continue(state)
        tries = state.tries if state.turn == ctx.turn else 0
        is_final = tries >= self.max_tries
        data = freeze({"citations": unknown, "attempt": tries + 1, "is_final": is_final})
        if is_final:
            return Continue(state).emitting("citation_unknown", data)
        text = SENT_BACK.format(
            citations=", ".join([f"[[{one_line(text, MAX_CITATION)}]]" for text in unknown]),
            tools="`, `".join(self.tools),
        )
        new = attrs.evolve(state, turn=ctx.turn, tries=tries + 1)
        return Intervene(text, new).emitting("citation_unknown", data)
