"""`PromptBox`: the typed text and the rows that change, drawn by prompt_toolkit in a thread with a loop of its own.

Trio is left as it is: each call from there is a callback in that loop, and each typed text one in Trio's.
"""

from __future__ import annotations

import asyncio  # noqa: TID251 - prompt_toolkit runs in its loop, in this thread alone
import math
import os
import signal
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, TextIO, TypeVarTuple

from prompt_toolkit.application import Application, in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, ThreadedCompleter
from prompt_toolkit.data_structures import Size
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, has_completions, is_searching
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import ConditionalContainer, HSplit, Layout, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.layout.screen import Char
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.widgets import SearchToolbar

from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.output.screen import (
    ScreenText,
    TerminalStyle,
    Tone,
    aside,
    clean,
    clipped,
    one_line,
    painted,
    wrapped,
)
from agentrail.cli.output.screen_question import NO_QUESTION, SEEN, ScreenQuestion
from agentrail.cli.output.terminal_modes import Modes, drop_typed_ahead, modes_of, set_modes
from agentrail.cli.talk.key_commands import GO_BACK, LATER, NEXT_MODE, STOP, WHICH_KEYS, keys_for
from agentrail.cli.talk.live.choice_list import ChoiceList
from agentrail.cli.talk.live.double_escape import DoubleEscape
from agentrail.cli.talk.live.drawn_text import DrawnText
from agentrail.cli.talk.live.external_editor import EditedText, ExternalEditor, editor_command
from agentrail.cli.talk.live.key_prefix import KeyPrefix
from agentrail.cli.talk.live.live_screen import MORE, MOST_TYPED, PROMPT, LiveScreen
from agentrail.cli.talk.live.typed_keys import TypedKeys

FRAME: Final = 0.05
"""Seconds between two drawings of what changes: text that comes faster is seen together."""

TICK: Final = 0.2
"""Seconds between two looks at what changes by itself: the seconds of work, a paste whose end is lost."""

ALONE: Final = 0.1
"""Seconds after which Escape is a key of its own, and not the beginning of another one."""

LONG_WORK: Final = 10.0
"""Seconds of work after which the person may look elsewhere, so that its end rings the bell of the terminal."""

MOST_OFFERED: Final = 8
"""The most rows of the menu of completions."""

NOT_YET: Final = "the session is being opened; Ctrl-X Ctrl-E opens the editor afterwards"

EDITOR_ENDS: Final = 1.0
"""Seconds after which an editor is killed that does not end although the conversation does."""

SAVE_CURSOR: Final = "\x1b7"

AS_IT_WAS: Final = "\x1b[?1049l\x1b[?1000;1002;1003;1006l\x1b[?1l\x1b>\x1b[?25h\x1b[m\x1b7\x1b[r\x1b8"
"""Undoes what an editor leaves that did not end well: the other screen, the mouse, other keys, colours, a margin."""

CONTINUES: Final = "\\"
"""At the end of a typed line: the text goes on in the next line."""

ALWAYS: Final = "a"
YES: Final = "y"

APPROVALS: Final = frozenset({ALWAYS, "always", YES, "yes"})
"""Texts that approve a call."""

ALONE_ANSWERS: Final = f"{YES}n"
"""The keys that answer if nothing follows them, because sentences begin with them and what they decide stays."""

DECISIONS: Final = frozenset("yaner") | {"yes", "no", "always", "edit", "reason"}
"""Texts that decide about a call, and are not offered again by the arrows: Up and Enter would decide by the way."""

TAKEN_BACK: Final = 3.0
"""Seconds before an approval for always counts: it is about calls that nobody will see."""

BEFORE_ENTER: Final = "Enter approves so, Escape goes back."
AFTER_ENTER: Final = f"It counts in {TAKEN_BACK:.0f} seconds: Enter does not wait, any other key takes it back."
"""What is shown behind the words about an approval for always."""

FOLDED: Final = "  A part of this call is folded, so nothing approves it yet. Enter shows it, Escape goes back."
"""What is shown behind `y` or `a` while rows of the call are folded."""

OUT_OF_SIGHT: Final = (
    "  The beginning of this call is out of sight: scroll up to it. Enter approves the call, Escape goes back."
)
"""What is shown while `y` alone does not approve, as it would be for what nobody sees."""

SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"

BEGIN: Final = "\x1b[?2026h"
"""Has a terminal that can do it show nothing before `END`: what is erased and drawn again does not flicker."""

END: Final = "\x1b[?2026l"

Args = TypeVarTuple("Args")

Take = Callable[[str | None, int], None]
"""Gets each typed text, in the thread of the box, and the number of the question that the person has seen, or 0.

The text is `None` if the input has ended.
"""


class _Completer(Completer):
    """Asks the function of the conversation for the ways to go on with a command, or with a path behind `@`."""

    def __init__(self) -> None:
        self.ways_to_go_on: Callable[[str], Mapping[str, str]] = lambda _: {}

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:  # noqa: ARG002
        typed = document.text_before_cursor
        word = typed.rpartition(" ")[2]
        for way, about in self.ways_to_go_on(typed).items():
            yield Completion(way, display=clean(word + way), display_meta=clean(about))


class PromptBox:
    """The last rows of a terminal: what changes, the typed text, a menu, and what the session does."""

    def __init__(self, source: TextIO, target: TextIO, look: TerminalStyle, title: str, take: Take) -> None:
        self.look = look
        """The abilities of the terminal, and its size now."""
        self.is_gone = False
        """Whether the terminal is closed."""
        self.pictures: dict[str, bytes] = {}
        """The pictures that were taken from the clipboard, by the name that prompts have for each."""
        self._may_lend = False  # whether the conversation has begun, before which Ctrl-C in an editor would end it
        self._editor: ExternalEditor | None = None  # the one that is open
        self._control_x, self._double_escape = KeyPrefix(), DoubleEscape()
        self._take = take
        self._title = clean(one_line(title))
        self._source = source
        self._screen = LiveScreen(look)
        self._changing: Sequence[str] = ()
        self._about, self._own_row = "", ""  # the last rows: about the session, and of a command of the person
        self._works_since: float | None = None
        self._question = NO_QUESTION
        self._question_number = 0  # its number
        # The end of the pause after a key that answers if nothing follows; `None` without such a key
        self._alone: asyncio.TimerHandle | None = None
        # The end of the time in which an approval for always is taken back by a key; `None` without one
        self._standing: asyncio.TimerHandle | None = None
        self._is_laid_out = True  # whether the rows of the question are among `_changing`
        self._asked_at = 0.0  # when it was on the screen; `math.inf` before
        self._pressed_at = -math.inf  # when the last key came
        self._is_after_pause = True  # whether the key that is handled now came as long after the one before as `SEEN`
        self._offered = ""  # what the person was offered to change; empty if it was changed, or there is nothing
        self._seen_before = 0  # the question that was seen before the terminal changed its size
        # The question that was seen when the typed text was begun; `None` if nothing is typed
        self._begun_at: int | None = None
        self._choice: ChoiceList | None = None
        self._is_due = False  # whether a drawing is scheduled
        self._modes: Modes | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()  # of `_loop`, and of `_has_ended`
        self._has_ended = False
        self._completer = _Completer()
        self._buffer = self._new_buffer()
        self._keys = TypedKeys(source)
        self._output = Vt100_Output(target, self._size, term=os.environ.get("TERM"), enable_cpr=False)
        self._app = self._application()

    def _new_buffer(self) -> Buffer:
        completer = ThreadedCompleter(self._completer)
        return Buffer(completer=completer, complete_while_typing=True, on_text_changed=self._note_text)

    @property
    def is_lent(self) -> bool:
        """Whether an editor has the terminal: nothing is drawn, and signals of keys are meant for it."""
        return self._editor is not None

    def _size(self) -> Size:
        return Size(rows=self.look.height, columns=self.look.width)

    # For Trio's thread

    def show(self, pieces: Sequence[ScreenText]) -> None:
        """Put *pieces* on the screen."""
        self._call(self._put, tuple(pieces))

    def tell(self, about: str) -> None:
        """Show *about* in the last row."""
        self._call(self._set_about, about)

    def tell_own(self, row: str) -> None:
        """Show *row*, of a command of the person, below the last row."""
        self._call(self._set_own_row, row)

    def work(self, *, is_working: bool) -> None:
        """Show for how long the session has worked, until it does not."""
        self._call(self._set_work, is_working)

    def ask(self, question: ScreenQuestion, number: int) -> None:
        """Show *question* above the typed text until there is another or none.

        *number* goes with what is typed once it was seen.
        """
        self._call(self._set_question, question, number)

    def choose(
        self,
        heading: str,
        rows: Sequence[str],
        answer: Callable[[int | None], None],
        previews: Sequence[Sequence[str]] = (),
        start: int = 0,
    ) -> None:
        """Have the person choose one of *rows*; *answer* gets its index, or `None`, in the thread of the box."""
        self._call(self._set_choice, ChoiceList(heading, rows, answer, previews, start))

    def end_choice(self) -> None:
        """Take the rows away of which one was to be chosen."""
        self._call(self._set_choice, None)

    def offer(self, text: str) -> None:
        """Begin the typed text with *text*."""
        self._call(self._offer, text)

    def drop_typed(self) -> bool:
        """Clear the typed text; return whether there was any."""
        had_text = bool(self._buffer.text)
        self._call(self._set_text, "")
        return had_text

    def complete_by(self, ways_to_go_on: Callable[[str], Mapping[str, str]], past: Sequence[str]) -> None:
        """Complete words by *ways_to_go_on*; let the person recall *past*."""
        self._completer.ways_to_go_on = ways_to_go_on
        self._call(self._recall, past)

    def resume(self) -> None:
        """Set the terminal's modes and redraw, after a stop by job control."""
        self._call(self._set_modes)

    def resize(self, look: TerminalStyle) -> None:
        """Use the size in *look* from now on."""
        self._call(self._set_size, look)

    def stop(self) -> None:
        """Write what is left, and have `run` end."""
        with self._lock:
            if self._loop is not None and not self._has_ended:
                self._loop.call_soon_threadsafe(self._end)
            self._has_ended = True

    def _call(self, function: Callable[[*Args], object], *args: *Args) -> None:
        with self._lock:
            if self._loop is not None and not self._has_ended:
                self._loop.call_soon_threadsafe(function, *args)

    # The thread of the box

    def run(self, opened: Callable[[], None]) -> None:
        """Body of the thread: read and draw until `stop` is called or the terminal is closed.

        It calls *opened* when keys are read.
        """
        try:
            asyncio.run(self._main(opened))
        except EOFError:
            self._take(None, 0)
        except OSError:  # what is written comes to nobody
            self.is_gone = True
            self._take(None, 0)

    async def _main(self, opened: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._fail)
        with self._lock:
            if self._has_ended:
                return
            self._loop = loop
        loop.call_soon(opened)
        loop.call_soon(self._begin)
        try:
            await self._app.run_async(handle_sigint=False, set_exception_handler=False)
        finally:
            with self._lock:
                self._loop = None

    def _begin(self) -> None:
        self._output.set_title(self._title)
        self._modes = modes_of(self._source.fileno())
        self._tick()

    def _fail(self, _loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """End the thread by the error of a callback, which asyncio would only log."""
        error = context.get("exception")
        if self._app.is_running and not self._app.is_done:
            self._app.exit(exception=error if isinstance(error, BaseException) else RuntimeError(context["message"]))

    def _tick(self) -> None:
        if keys := self._keys.end_lost_paste():
            self._app.key_processor.feed_multiple(keys)
            self._app.key_processor.process_keys()
        if self._works_since is not None:
            self._app.invalidate()
        asyncio.get_running_loop().call_later(TICK, self._tick)

    def _change(self) -> None:
        """Have the screen drawn soon."""
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_later(FRAME, self._draw)

    def _draw(self) -> None:
        self._is_due = False
        if self._app.is_done or self.is_lent:
            return
        if rows := self._screen.take_finished():
            self._output.write_raw(BEGIN)
            self._app.renderer.erase()
            self._output.write_raw("".join(f"{row}\n" for row in rows))
        self._changing = self._screen.changing_rows(self.look.height)
        self._is_laid_out = True
        self._app.invalidate()

    def _end(self) -> None:
        if self._editor is not None:
            self._editor.end()  # then this is called again
            asyncio.get_running_loop().call_later(EDITOR_ENDS, self._editor.kill)
            return
        self._screen.close()
        self._screen.ask(())
        self._output.clear_title()
        self._draw()
        if not self._app.is_done:
            self._app.exit()

    def _put(self, pieces: Sequence[ScreenText]) -> None:
        for piece in pieces:
            self._screen.put(piece)
        self._change()

    def _set_about(self, about: str) -> None:
        self._about = about
        self._app.invalidate()

    def _set_own_row(self, row: str) -> None:
        self._own_row = row
        self._app.invalidate()

    def _set_work(self, is_working: bool) -> None:
        now = asyncio.get_running_loop().time()
        if is_working != (self._works_since is not None):
            if self._works_since is not None and now - self._works_since > LONG_WORK:
                self._output.bell()
            self._works_since = now if is_working else None
            self._note_busy()
            self._app.invalidate()

    def _set_question(self, question: ScreenQuestion, number: int) -> None:
        if self._question.rows:
            self._note_busy()
        self._question, self._question_number = question, number
        if not question.goes_on:
            self._is_laid_out, self._asked_at = False, math.inf
            self._take_back()
            if self._alone is not None:  # it was meant for what was there before
                self._set_text("")
        self._screen.ask(question.rows, question.end)
        if question.rows and not question.goes_on:
            self._output.bell()
        self._change()

    def _set_choice(self, choice: ChoiceList | None) -> None:
        self._choice = choice
        self._note_busy()
        self._app.invalidate()

    def _set_text(self, text: str) -> None:
        self._buffer.reset(Document(text))
        self._note_text()
        self._app.invalidate()

    def _offer(self, text: str) -> None:
        self._set_text(text)
        self._offered = text

    def _recall(self, past: Sequence[str]) -> None:
        self._may_lend = True
        self._buffer.history = InMemoryHistory(past)
        self._buffer.reset(self._buffer.document)

    def _set_modes(self) -> None:
        if self.is_lent:
            return
        if self._modes is not None:
            set_modes(self._source.fileno(), self._modes)
        self._app.renderer.reset()
        self._app.invalidate()

    def _set_size(self, look: TerminalStyle) -> None:
        """Erase what was drawn, of which a terminal that has become narrower has broken rows in two."""
        if not self.is_lent:
            self._erase(look)
        self.look = look
        self._seen_before = self._seen_question() or self._seen_before
        self._is_laid_out, self._asked_at = False, math.inf
        self._screen.resize(look)
        self._change()

    def _erase(self, look: TerminalStyle) -> None:
        screen = self._app.renderer.last_rendered_screen
        if screen is not None:
            cursor = screen.get_cursor_position(self._typed)
            above = [_last_column(screen.data_buffer[row]) // look.width for row in range(cursor.y)]
            self._output.cursor_up(sum(above) + cursor.x // look.width)
        self._app.renderer.erase()

    # What an editor changes

    async def _edit(self, editor: ExternalEditor) -> None:
        """Have the person change the typed text by *editor*, which gets the terminal; nothing is sent by that."""
        if self._begun_at is None:  # what is written there answers no question that comes meanwhile
            self._begun_at = self._seen_question()
        begun_at = self._begun_at
        try:
            async with in_terminal():
                self._output.write_raw(SAVE_CURSOR)
                self._output.flush()
                loop = asyncio.get_running_loop()
                edited = await loop.run_in_executor(None, editor.edit, self._buffer.text)
                if not edited.was_clean:
                    self._output.write_raw(AS_IT_WAS)
                drop_typed_ahead(self._source.fileno())
        finally:
            self._editor = None
        self._take_edited(edited, begun_at)
        if self._has_ended:
            self._end()

    def _take_edited(self, edited: EditedText, begun_at: int) -> None:
        """Have what came of editing be the typed text, which no Enter sends that was meant for the editor."""
        self._output.set_title(self._title)
        self._pressed_at = asyncio.get_running_loop().time()
        self._offer(edited.text)
        if edited.text:
            self._begun_at = begun_at
        if edited.problem:
            self._put((aside(f"  {edited.problem}", Tone.BAD),))
        self._change()

    # What is drawn

    def _application(self) -> Application[None]:
        search = SearchToolbar()
        self._typed = self._typed_window(search)
        above = Window(FormattedTextControl(self._above), dont_extend_height=True)
        choice = Window(FormattedTextControl(self._choice_rows), dont_extend_height=True)
        note = Window(FormattedTextControl(self._note_rows), dont_extend_height=True)
        last = Window(FormattedTextControl(partial(self._last, self._last_text)), height=1, dont_extend_height=True)
        own_row = Window(
            FormattedTextControl(partial(self._last, lambda: self._own_row)), height=1, dont_extend_height=True
        )
        rows = HSplit(
            [
                ConditionalContainer(above, Condition(lambda: bool(self._changing))),
                ConditionalContainer(choice, Condition(lambda: self._choice is not None)),
                ConditionalContainer(note, Condition(lambda: bool(self._note()))),
                self._typed,
                search,
                CompletionsMenu(max_height=MOST_OFFERED),
                ConditionalContainer(last, Condition(lambda: bool(self._last_text()))),
                ConditionalContainer(own_row, Condition(lambda: bool(self._own_row))),
            ]
        )
        app = Application[None](
            Layout(rows, focused_element=self._typed),
            key_bindings=self._bindings(),
            erase_when_done=True,
            terminal_size_polling_interval=None,
            input=self._keys,
            output=self._output,
            before_render=self._before,
            after_render=self._after,
        )
        app.ttimeoutlen = app.timeoutlen = ALONE
        app.key_processor.before_key_press += self._note_key
        return app

    def _typed_window(self, search: SearchToolbar) -> Window:
        return Window(
            BufferControl(self._buffer, input_processors=[DrawnText()], search_buffer_control=search.control),
            height=Dimension(min=1, max=MOST_TYPED),
            dont_extend_height=True,
            wrap_lines=True,
            get_line_prefix=self._prefix,
        )

    def _before(self, app: Application[None]) -> None:
        """Erase what was drawn if it has more rows than what will be: prompt_toolkit would leave empty ones below."""
        self._output.write_raw(BEGIN)
        last = app.renderer.last_rendered_screen
        size = self._size()
        height = app.layout.container.preferred_height(size.columns, size.rows).preferred
        if last is not None and height < last.height:
            app.renderer.erase()

    def _after(self, _app: Application[None]) -> None:
        self._output.write_raw(END)
        self._output.flush()
        if self._is_laid_out and math.isinf(self._asked_at):
            self._asked_at = asyncio.get_running_loop().time()

    def _prefix(self, line: int, wrap: int) -> StyleAndTextTuples:
        is_first = line == 0 and wrap == 0
        return [("bold" if is_first and self.look.colours else "", PROMPT if is_first else MORE)]

    def _above(self) -> ANSI:
        typed = min(self._buffer.document.line_count, MOST_TYPED)
        menu = MOST_OFFERED if self._buffer.complete_state is not None else 0
        note = self._note()
        noted = len(wrapped(clean(note), self.look.room)) if note else 0
        most = max(self.look.height - 2 - bool(self._own_row) - typed - menu - noted, 1)
        return ANSI("\n".join(self._changing[-most:]))

    def _choice_rows(self) -> ANSI:
        return ANSI("" if self._choice is None else "\n".join(self._choice.drawn(self.look)))

    def _last(self, text: Callable[[], str]) -> ANSI:
        return ANSI(painted(clipped(clean(text()), self.look.room), Tone.DIM, self.look))

    def _last_text(self) -> str:
        if self._works_since is None:
            return self._about
        seconds = asyncio.get_running_loop().time() - self._works_since
        frame = SPINNER[int(seconds / TICK) % len(SPINNER)]
        about = self._about.strip()
        return f"  {frame} {seconds:.0f} s, Esc stops{' · ' if about else ''}{about}"

    # Keys

    def _bindings(self) -> KeyBindings:
        bindings = KeyBindings()
        is_typing = ~is_searching
        has_text = Condition(lambda: bool(self._buffer.text))
        bindings.add("enter", filter=is_typing)(self._pressed_enter)
        bindings.add("escape", "enter", filter=is_typing & has_text)(self._pressed_later)
        bindings.add("escape", filter=is_typing)(self._pressed_escape)
        bindings.add("s-tab", filter=is_typing & ~has_completions)(self._pressed_back_tab)
        bindings.add(Keys.BracketedPaste, filter=is_typing)(self._pasted)
        bindings.add("c-v", filter=is_typing)(self._pressed_clipboard)
        bindings.add("c-x", filter=is_typing)(self._pressed_prefix)
        bindings.add("c-x", "c-e", filter=is_typing)(self._pressed_edit)
        bindings.add("c-e", filter=is_typing & Condition(self._is_after_prefix))(self._pressed_edit)
        bindings.add("c-c")(_interrupt)
        bindings.add("c-d", filter=~has_text)(self._pressed_end)
        bindings.add("c-z")(self._pressed_suspend)
        bindings.add("c-o")(_nothing)  # of prompt_toolkit it would take the line away, and send nothing
        bindings.add(Keys.Any, filter=Condition(lambda: self._choice is not None), eager=True)(self._pressed_in_choice)
        bindings.add(Keys.Any, filter=Condition(lambda: self.is_lent), eager=True)(_nothing)
        for key in "yanre":
            bindings.add(key, filter=is_typing & ~has_text & Condition(partial(self._waits_after, key)))(
                self._pressed_letter
            )
        for key in "re":
            bindings.add(key, filter=is_typing & ~has_text & Condition(partial(self._answers_now, key)))(
                self._pressed_answer
            )
        return bindings

    def _note_key(self, _processor: object) -> None:
        """Note a key before anything is done about it: only after a pause it is none of what was being typed."""
        self._control_x.note_key()
        now = asyncio.get_running_loop().time()
        self._is_after_pause = now - self._pressed_at > SEEN
        self._double_escape.note_key()
        self._pressed_at = now

    def _waits_after(self, key: str) -> bool:
        """Whether *key* is an answer if nothing follows it, or would be one if it did not come too early."""
        if not self._may_decide():
            return key in self._question.keys or (key == ALWAYS and bool(self._question.always))
        return key in self._question.keys and key in ALONE_ANSWERS

    def _answers_now(self, key: str) -> bool:
        return key in self._question.keys and self._may_decide()

    def _may_decide(self) -> bool:
        """Whether the key that is handled now may begin a decision: the question was seen, and no key came just now."""
        return self._seen_question() > 0 and self._is_after_pause

    def _seen_question(self) -> int:
        """Return the number of the question, if it was there long enough to be seen; 0 otherwise."""
        return self._question_number if asyncio.get_running_loop().time() - self._asked_at > SEEN else 0

    def _note_text(self, _buffer: Buffer | None = None) -> None:
        """Remember which question was seen when the typed text was begun; a letter that waited alone is so no more."""
        self._end_pause()
        self._take_back()
        self._offered = ""
        if not self._buffer.text:
            self._begun_at = None
        elif self._begun_at is None:
            is_of_sentence = bool(self._question.keys) and not self._is_after_pause
            self._begun_at = 0 if is_of_sentence else self._seen_question() or self._seen_before

    def _end_pause(self) -> None:
        if self._alone is not None:
            self._alone.cancel()
            self._alone = None

    def _pressed_letter(self, event: KeyPressEvent) -> None:
        """Take the letter as text; if nothing follows, it is the answer, or is dropped if it came too early."""
        question = self._question_number if self._may_decide() else 0
        self._buffer.insert_text(event.data)
        self._alone = asyncio.get_running_loop().call_later(SEEN, self._stayed_alone, event.data, question)

    def _stayed_alone(self, key: str, question: int) -> None:
        self._alone = None
        if question and key == YES and not self._is_in_sight():
            self._app.invalidate()  # Enter is wanted
            return
        self._set_text("")
        if question:
            self._answer(key)

    def _pressed_answer(self, event: KeyPressEvent) -> None:
        self._answer(event.data)

    def _take_back(self) -> None:
        """Take back the approval for always that does not count yet, if there is one."""
        if self._standing is not None:
            self._standing.cancel()
            self._standing = None
            self._app.invalidate()

    def _approve_always(self) -> None:
        """Approve for always in a while, or at once if Enter was pressed already, and is not held since then."""
        if self._standing is None:
            self._set_text("")
            self._standing = asyncio.get_running_loop().call_later(TAKEN_BACK, self._answer, ALWAYS)
        elif self._is_after_pause:
            self._answer(ALWAYS)

    def _answer(self, key: str) -> None:
        self._take_back()
        self._question = self._question.but(keys="", always="")
        self._take(key, self._question_number)

    def _is_in_sight(self) -> bool:
        """Whether all rows of the question are on the screen, above what is typed and the last row."""
        return self._screen.is_question_in_sight(self._buffer.document.line_count + 1 + bool(self._own_row))

    def _note(self) -> str:
        """Return the keys that were asked for, or what an answer does that only Enter sends; empty if it is neither."""
        if self._standing is not None:
            return f"  {self._question.always}\n  {AFTER_ENTER}"
        if self._buffer.text == WHICH_KEYS:
            return keys_for(self._question, is_working=self._works_since is not None)
        if not self._question_number or self._begun_at != self._question_number:
            return ""
        text = self._buffer.text
        if self._screen.is_folded and _approves(text) and self._alone is None:
            return FOLDED
        if text in {ALWAYS, "always"} and self._question.always:
            return f"  {self._question.always}\n  {BEFORE_ENTER}"
        is_far = text == YES and YES in self._question.keys and self._alone is None and not self._is_in_sight()
        return OUT_OF_SIGHT if is_far else ""

    def _note_rows(self) -> ANSI:
        rows = wrapped(clean(self._note()), self.look.room)
        return ANSI("\n".join(painted(row, Tone.ASKING, self.look) for row in rows))

    def _pressed_in_choice(self, event: KeyPressEvent) -> None:
        if self._choice is not None and self._choice.press(event.key_sequence[0].key):
            self._choice = None

    def _pasted(self, event: KeyPressEvent) -> None:
        from agentrail.cli.talk.named_files import dragged_picture  # noqa: PLC0415 - the first key waits for no file

        text = event.data.replace("\r\n", "\n").replace("\r", "\n")
        self._buffer.insert_text(dragged_picture(text) or text)

    def _pressed_prefix(self, _event: KeyPressEvent) -> None:
        """Note Ctrl-X: nobody presses the next key as soon as one has to follow that begins a longer key."""
        self._control_x.press(self._pressed_at)

    def _is_after_prefix(self) -> bool:
        return self._control_x.is_before(asyncio.get_running_loop().time())

    def _pressed_edit(self, _event: KeyPressEvent) -> None:
        self._end_pause()
        self._take_back()
        try:
            command = editor_command(os.environ.get)
            if not self._may_lend:
                raise BadInputError(NOT_YET)
        except BadInputError as error:
            self._put((aside(f"  {error}", Tone.BAD),))
            return
        # From now on the terminal is lent, so that no key that comes with these does anything here
        self._editor = ExternalEditor(command, self._source.fileno(), self._output.fileno())
        self._app.create_background_task(self._edit(self._editor))

    def _pressed_clipboard(self, _event: KeyPressEvent) -> None:
        self._app.create_background_task(self._take_picture())

    async def _take_picture(self) -> None:
        """Name the picture in the clipboard in the typed text, once a program has read it."""
        from agentrail.cli.talk.clipboard import clipboard_picture, keep_picture  # noqa: PLC0415 - the first key waits

        try:
            content = await asyncio.get_running_loop().run_in_executor(None, clipboard_picture)
        except BadInputError as error:
            self._put((aside(f"  {error}", Tone.BAD),))
        else:
            self._buffer.insert_text(f"@{keep_picture(self.pictures, content)} ")

    def _pressed_back_tab(self, _event: KeyPressEvent) -> None:
        self._take(NEXT_MODE, 0)

    def _pressed_later(self, _event: KeyPressEvent) -> None:
        self._send(LATER)

    def _pressed_end(self, _event: KeyPressEvent) -> None:
        self._take(None, 0)

    def _pressed_suspend(self, _event: KeyPressEvent) -> None:
        self._app.suspend_to_background()

    def _pressed_escape(self, _event: KeyPressEvent) -> None:
        if self._buffer.complete_state is not None:
            self._buffer.cancel_completion()
        elif self._standing is not None:
            self._take_back()
        elif self._buffer.text == WHICH_KEYS:
            self._set_text("")
        elif self._question.can_leave:
            self._set_text("")
            self._take("", self._question_number)
        elif self._alone is not None or self._note():
            self._set_text("")
        elif self._works_since is not None or self._question.keys:
            self._take(STOP, 0)
        elif not (self._buffer.text or self._question.rows):
            self._escaped_at_rest()
            return
        self._note_busy()

    def _note_busy(self) -> None:
        """Note that something runs or is open, or was until now."""
        self._double_escape.note_busy(asyncio.get_running_loop().time())

    def _escaped_at_rest(self) -> None:
        """Go back before a prompt if it is the second Escape in a row, and the first one was meant for nothing else."""
        if self._double_escape.press(asyncio.get_running_loop().time(), is_after_pause=self._is_after_pause):
            self._take(GO_BACK, 0)

    def _pressed_enter(self, _event: KeyPressEvent) -> None:
        state = self._buffer.complete_state
        chosen = None if state is None else state.current_completion
        if chosen is not None and chosen.text.endswith((" ", "/")):  # more follows
            self._buffer.complete_state = None
            self._buffer.start_completion()
        elif self._buffer.text == WHICH_KEYS:
            self._set_text("")
        elif self._screen.is_folded and (not self._buffer.text or _approves(self._buffer.text)):
            self._unfold()
        elif self._buffer.text.endswith(CONTINUES):
            self._set_text(f"{self._buffer.text.removesuffix(CONTINUES)}\n")
        elif self._standing is not None or (self._question.always and self._note() and self._buffer.text[0] == ALWAYS):
            self._approve_always()
        elif not self._offered or self._is_after_pause:  # what is offered is sent by no Enter that was meant before
            self._send()

    def _unfold(self) -> None:
        """Show all of the question; as it is new to the person, no key decides about it at once."""
        self._set_text("")
        self._is_laid_out, self._asked_at = False, math.inf
        self._screen.unfold()
        self._change()

    def _send(self, prefix: str = "") -> None:
        text = self._buffer.text
        question = self._seen_question()
        if text:
            self._screen.send(text)
        if self._begun_at not in {None, question}:  # it was meant for what was there before
            question = 0
        self._buffer.reset(append_to_history=bool(text.strip()) and not (question and text in DECISIONS))
        self._note_text()
        self._take(prefix + text, question)
        self._change()


def _last_column(row: Mapping[int, Char]) -> int:
    """Return the last column of *row* that was written: the spaces behind it were not."""
    return max((column for column, char in row.items() if char.char != " "), default=0)


def _approves(text: str) -> bool:
    """Whether *text* is read as an approval."""
    return text.strip().lower().rstrip(",.:;") in APPROVALS


def _nothing(_event: KeyPressEvent) -> None:
    """Do nothing."""


def _interrupt(_event: KeyPressEvent) -> None:
    """Do what Ctrl-C does in a terminal that is not read key by key."""
    os.kill(os.getpid(), signal.SIGINT)
