"""`Handoff`: an agent that a session may be handed over to, with the messages that it sees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from agentrail.values.value import Authored

if TYPE_CHECKING:
    from agentrail.app.spec import SessionSpec


class Handoff(Authored, gc=True):
    """An agent that goes on with the conversation when the model calls its tool; for `SessionSpec.handoffs`."""

    agent: SessionSpec | str
    """Its specification; or its name, if another agent of the session, or the session itself, has that."""
    history: Literal["all", "turn", "summary"] = "all"
    """What it sees: all messages, those of the open turn, or a summary of the earlier ones."""
