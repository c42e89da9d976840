"""What happened in a session before, as it looked when it was new: for a person who comes back, or joins."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from agentrail.api.transcript import Change, thoughts_in
from agentrail.cli.output.screen import Flow, ScreenText, Tone, clipped, line, one_line
from agentrail.cli.talk.file_names import without_files
from agentrail.cli.talk.rendering import LONG, SHORT, first_lines, response_pieces, shown_args
from agentrail.values import events as e
from agentrail.values.messages import AssistantMessage, Message, ToolMessage, UserMessage, is_prompt

MOST_READ: Final = 1_000
"""The most events of the past that are read, the last ones."""

MOST_SHOWN: Final = 200
"""The most pieces of the past that are shown, the last ones."""

MOST_OF_PROMPT: Final = 10
"""The most lines that are shown of a prompt, the first ones."""

EARLIER: Final = "  (there is more before this; /rewind lists the prompts)"

FLOWING: Final = (Flow.TEXT, Flow.THOUGHT)
"""Of these many pieces are one text."""


def prompt_piece(text: str, flow: Flow = Flow.LINE) -> ScreenText:
    """Return the piece that shows the prompt *text* as it was typed or pasted, without the files that it names."""
    return ScreenText(flow, f"> {first_lines(text, '  ', MOST_OF_PROMPT, LONG)}", Tone.BOLD)


class PastEvents:
    """Collects the pieces that show past events, as they looked when they were new."""

    def __init__(self, *, is_cut: bool) -> None:
        """Create it; *is_cut*: the events do not begin with the first of the session."""
        self.is_copy = False
        """Whether the session began as a copy of another one, whose events are not among these."""
        self.prompts: list[str] = []
        """What the person wrote in the prompts, the oldest first."""
        self._is_cut = is_cut
        self._pieces: deque[list[ScreenText]] = deque(maxlen=MOST_SHOWN)

    def take(self, change: Change, pieces: Sequence[ScreenText]) -> None:
        """Add what an event changes, with the *pieces* that show it when it is new."""
        match change:
            case e.SessionForked():
                self.is_copy = True
            case e.PromptReceived(text=text):
                self.prompts.append(without_files(text))
            case e.Gap():  # only deltas are no longer kept: the texts of complete responses follow
                return
            case _:
                pass
        for piece in pieces:
            if piece.flow in FLOWING and self._pieces and self._pieces[-1][0].flow is piece.flow:
                self._pieces[-1].append(piece)
            elif piece.flow is not Flow.STATUS:
                self._is_cut = self._is_cut or len(self._pieces) == MOST_SHOWN
                self._pieces.append([piece])

    def pieces(self) -> tuple[ScreenText, ...]:
        """Return the pieces to show."""
        first = (line(EARLIER, Tone.DIM),) if self._is_cut else ()
        return (*first, *(piece for pieces in self._pieces for piece in pieces))


def before_copy(messages: Sequence[Message], own_prompts: int) -> Sequence[Message]:
    """Return those of the *messages* of a copy that it had at its beginning, before its *own_prompts*."""
    starts = [number for number, message in enumerate(messages) if is_prompt(message)]
    return messages[: starts[-own_prompts]] if 0 < own_prompts <= len(starts) else () if own_prompts else messages


def past_of(messages: Sequence[Message]) -> tuple[ScreenText, ...]:
    """Return the last of *messages* as pieces for the screen: all that is known of what happened before a copy."""
    pieces = [piece for message in messages for piece in _pieces(message)]
    left_out = max(len(pieces) - MOST_SHOWN, 0)
    return (*((line(EARLIER, Tone.DIM),) if left_out else ()), *pieces[left_out:])


def prompts_in(messages: Sequence[Message]) -> tuple[str, ...]:
    """Return what the person wrote in all user messages, the oldest first."""
    return tuple([without_files(message.text) for message in messages if isinstance(message, UserMessage)])


def _pieces(message: Message) -> Iterator[ScreenText]:
    match message:
        case UserMessage():
            yield prompt_piece(message.text)
        case AssistantMessage(calls=calls):
            yield from response_pieces(thoughts_in(message), message.text)
            yield from (line(f"  → {call.name} {shown_args(call.args)}".rstrip()) for call in calls)
            if not calls:
                yield line("")
        case ToolMessage():
            mark, tone = ("✗", Tone.BAD) if message.is_error else ("✓", Tone.GOOD)
            yield line(f"  {mark} {message.name}: {clipped(one_line(message.text), SHORT)}", tone)
