"""Talking to `python -m agentrail` as another program, or as a person at a terminal, would."""

import codecs
import fcntl
import os
import pty
import select
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pyte

from tests.machinery.forked import Forked
from tests.patience import PATIENCE

HERE = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "agentrail")
WITHOUT_UNIX_SOCKETS = (sys.executable, "-m", "tests.cli.without_unix_sockets")
ENVIRONMENT = {
    "PATH": os.environ.get("PATH", os.defpath),
    "TERM": "xterm",
    "LC_ALL": "C.UTF-8",
    "PYTHONPATH": str(HERE),
    "AGENTRAIL_HOME": str(Path(tempfile.gettempdir(), f"agentrail-tests-{os.getpid()}")),
}
AT_A_TERMINAL = "import os, sys; os.login_tty(0); os.execvp(sys.argv[1], sys.argv[1:])"
SETTLED = 1.0
"""Seconds without output after which a screen is complete."""
TMUX = shutil.which("tmux")


class Talk:
    """One conversation: what is expected is waited for, never slept for."""

    def __init__(self, process: "subprocess.Popen[bytes]", input_descriptor: int, output_descriptor: int) -> None:
        self.process = process
        self.output = ""
        self._input_descriptor = input_descriptor
        self._output_descriptor = output_descriptor
        self._read_to = 0
        self.screen = pyte.HistoryScreen(80, 24, history=100_000, ratio=0.001)
        self._stream = pyte.Stream(self.screen)
        self._decode = codecs.getincrementaldecoder("utf-8")()

    def say(self, text: str) -> None:
        os.write(self._input_descriptor, text.encode())

    def press(self, key: str) -> None:
        """Answer a question by a single *key*, which it takes when a person can have seen it."""
        time.sleep(0.7)
        self.say(key)

    def wait_for(self, text: str) -> str:
        """Return what was shown from the last time on, up to and with *text*."""
        deadline = time.monotonic() + PATIENCE
        while (index := self.output.find(text, self._read_to)) < 0:
            assert self._receive(deadline), f"waited for {text!r} behind {self.output[self._read_to :]!r}"
        start, self._read_to = self._read_to, index + len(text)
        return self.output[start : self._read_to]

    def rest(self) -> str:
        """Return what is shown from the last time on to the end."""
        deadline = time.monotonic() + PATIENCE
        while self._receive(deadline):
            pass
        start, self._read_to = self._read_to, len(self.output)
        return self.output[start:]

    def sees(self, *texts: str) -> str:
        """Wait until *texts* are on the screen, or above it, in this order; return all that is there."""
        deadline = time.monotonic() + PATIENCE
        while not _in_order(texts, seen := self.seen()):
            assert self._receive(deadline), f"waited for {texts!r} in:\n{seen}"
        return seen

    def settle(self) -> None:
        """Take what still comes, until nothing has come for a while."""
        while select.select([self._output_descriptor], [], [], SETTLED)[0]:
            self._receive(time.monotonic() + PATIENCE)

    def seen(self) -> str:
        """Return the rows that a person sees, and those that have gone up, without spaces at their ends."""
        above = ["".join(row[column].data for column in range(self.screen.columns)) for row in self.screen.history.top]
        return "\n".join(row.rstrip() for row in [*above, *self.screen.display]).rstrip()

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._output_descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        rows_above = max(self.screen.lines - rows, 0)  # pyte takes them away and leaves the cursor where it was
        self.screen.resize(rows, columns)
        self.screen.cursor.y = max(self.screen.cursor.y - rows_above, 0)
        self.process.send_signal(signal.SIGWINCH)

    def code(self) -> int:
        return self.process.wait(PATIENCE)

    def stop(self, number: int) -> None:
        self.process.send_signal(number)

    def _receive(self, deadline: float) -> bool:
        readable, _, _ = select.select([self._output_descriptor], [], [], max(deadline - time.monotonic(), 0))
        assert readable, f"nothing came behind {self.output[-2000:]!r}, which is\n{self.seen()}"
        try:
            chunk = os.read(self._output_descriptor, 4096)
        except OSError:  # the other side of the terminal is gone
            return False
        text = self._decode.decode(chunk)
        self.output += text
        self._stream.feed(text)
        return bool(chunk)


def _in_order(texts: tuple[str, ...], seen: str) -> bool:
    position = 0
    for text in texts:
        position = seen.find(text, position)
        if position < 0:
            return False
        position += len(text)
    return True


def _see_off(process: "subprocess.Popen[bytes]") -> None:
    """Have the process clean up and leave; if it does not, end it."""
    process.terminate()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()


@contextmanager
def through_pipes(*args: str, command: tuple[str, ...] = COMMAND) -> Generator[Talk, None, None]:
    pipe, beside = subprocess.PIPE, subprocess.STDOUT
    with (
        Forked(args, stdin=pipe, stdout=pipe, stderr=beside, env=ENVIRONMENT)
        if command == COMMAND
        else subprocess.Popen([*command, *args], stdin=pipe, stdout=pipe, stderr=beside, env=ENVIRONMENT)  # noqa: S603 - our own
    ) as process:
        assert process.stdin
        assert process.stdout
        try:
            yield Talk(process, process.stdin.fileno(), process.stdout.fileno())
        finally:
            _see_off(process)


@contextmanager
def at_a_terminal(*args: str, **environment: str) -> Generator[tuple[Talk, int], None, None]:
    """Talk at a terminal; also give the other side of it, which shows its modes."""
    with _terminal() as (ours, theirs):
        env = {**ENVIRONMENT, **environment}
        process = Forked(args, stdin=theirs, stdout=theirs, stderr=theirs, env=env, has_terminal=True)
        with _talk(process, ours) as talk:
            yield talk, theirs


@contextmanager
def in_tmux(folder: Path, *args: str, **environment: str) -> Generator[tuple[Talk, Callable[[], str]], None, None]:
    """Talk in a terminal within tmux, which lays out anew what it shows when its size changes, as most terminals do.

    Also give a function that returns all rows that the terminal has, those that have gone up as well.
    """
    assert TMUX
    (folder / "tmux.conf").write_text("set -g status off\nset -g escape-time 0\n")
    tmux = (TMUX, "-S", str(folder / "tmux"), "-f", str(folder / "tmux.conf"))
    names = [f"{name}={value}" for name, value in environment.items()]

    def history() -> str:
        capture = [*tmux, "capture-pane", "-p", "-S", "-"]
        return subprocess.run(capture, capture_output=True, check=True, text=True).stdout.rstrip()  # noqa: S603 - tmux

    within = shlex.join(["env", *names, *COMMAND, *args])
    command = [sys.executable, "-c", AT_A_TERMINAL, *tmux, "-u", "new-session", within]
    with _terminal() as (ours, theirs):
        process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=ENVIRONMENT)  # noqa: S603 - our own
        with _talk(process, ours) as talk:
            try:
                yield talk, history
            finally:
                subprocess.run([*tmux, "kill-server"], check=False, capture_output=True)  # noqa: S603 - tmux


@contextmanager
def _terminal() -> Generator[tuple[int, int], None, None]:
    """Open a terminal, and close both of its sides at the end."""
    ours, theirs = pty.openpty()
    try:
        yield ours, theirs
    finally:
        os.close(theirs)
        os.close(ours)


@contextmanager
def _talk(process: "subprocess.Popen[bytes]", terminal: int) -> Generator[Talk, None, None]:
    """Talk to a *process* at our side of its *terminal*."""
    with process:
        try:
            yield Talk(process, terminal, terminal)
        finally:
            _see_off(process)


def modes(terminal: int) -> "list[int | list[bytes | int]]":
    return termios.tcgetattr(terminal)
