"""Other messages in place of the history: those that a compaction leaves, or those that a handoff passes on."""

from __future__ import annotations

from agentrail.core.machine.deferred_tools import tell_again
from agentrail.core.machine.draft import StepDraft
from agentrail.core.machine.todo_list import tell_todos
from agentrail.values.messages import History, Message


def replace_history(draft: StepDraft, messages: tuple[Message, ...]) -> None:
    """Put *messages* in place of the history; tell the model again what it has lost with the others."""
    state = draft.state
    if state.turn is not None:
        state.turn = state.turn.but(mark=_mark(state.history, state.turn.mark, messages))
    state.history = History(messages)
    tell_again(draft, messages)
    tell_todos(draft, messages)


def _mark(old: History, mark: int, new: tuple[Message, ...]) -> int:
    """Return the index in *new* of the turn's first message, its prompt, which had index *mark* in *old*.

    A compaction keeps the prompt. If a plugin has removed it, the turn's messages are counted from the end.
    """
    if mark < len(old):
        prompt = old[mark]
        for index in range(len(new) - 1, -1, -1):
            if new[index] is prompt or new[index] == prompt:
                return index
    return max(0, len(new) - (len(old) - mark))
