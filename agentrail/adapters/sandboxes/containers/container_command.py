"""`ContainerCommand`: one command in the container of a session, run by the client of the engine.

To kill the client does not kill the command. So the script within the container (`within.sh`) runs the command, and
gets orders over the client's standard input. The end of that input kills all that the command has started; it also ends
if this process is killed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from typing import Final

import trio

from agentrail.adapters.processes import CHUNK, Capture, Launch, ProcessTree, Ready
from agentrail.adapters.sandboxes.containers.container import Container, StartedIn
from agentrail.adapters.sandboxes.containers.container_start import counted
from agentrail.adapters.sandboxes.containers.engine import ANSWERS_WITHIN, client_env, one_line
from agentrail.adapters.sandboxes.containers.process_folder import INSIDE, SCRIPT, process_folder
from agentrail.errors import CommandRefused
from agentrail.ports.sandbox import Command, Execution, OnOutput

KILLED_WITHIN: Final = 1.0
"""Seconds that the script has to kill all processes of the command; after that, the client itself is killed."""

LOOKED_WITHIN: Final = 10.0
"""Seconds within which is seen whether something is left of a command whose client was killed."""

FROM_ENGINE: Final = 125
"""Exit codes from this one on may come from the engine, or from a script that was killed."""

BEGUN: Final = b"begun\n"
"""What the script writes before the output of the command."""

TERM: Final = b"t\n"
"""The order to send SIGTERM to all processes of the command."""

CARRIER: Final = "AGENTRAIL_OF_"
"""What the name of each variable of a command begins with until the script runs it.

So none of them is one that the client itself obeys, such as `HOME` or `DOCKER_HOST`.
"""

_MARKS: Final = count(1 << 32)
"""Marks of runs; more KiB than any machine has."""


class ContainerCommand(ProcessTree):
    """The processes of one command in a container."""

    __slots__ = (
        "_check_folder",
        "_container",
        "_folder",
        "_has_begun",
        "_has_killed",
        "_input",
        "_mark",
        "_started_in",
        "_variables",
    )

    def __init__(
        self,
        container: Container,
        command: Command,
        folder: str,
        variables: Mapping[str, str],
        check_folder: Callable[[], None],
        on_output: OnOutput | None,
    ) -> None:
        env = client_env() | {f"{CARRIER}{name}": text for name, text in variables.items()}
        super().__init__(command, Launch(container.engine.name, env, self._enter, self._leave), on_output)
        self._container = container
        self._folder = folder  # its absolute path, which is the same in the container
        self._variables = variables
        self._check_folder = check_folder  # raises if there is no such folder, or if it is hidden
        self._mark = next(_MARKS)
        self._started_in = StartedIn("", ())  # the container of the command, once it is known
        self._input = -1  # where orders are written; -1 if there is no script to read them
        self._has_begun = False  # whether the script has run the command
        self._has_killed = False  # whether the client had to be killed, so that the script may still be at work

    @property
    def _seconds(self) -> float:
        """The most seconds from the start of the client until the command begins; its own time is counted from then."""
        return ANSWERS_WITHIN

    async def run(self) -> Execution:
        """Run the command in the container, which is started if need be; if cancelled, end all its processes first."""
        async with self._container.limiter:
            self._started_in = started_in = await self._container.begin()
            must_look = True
            try:
                execution = await super().run()
                must_look = self._has_killed or execution.exit_code >= FROM_ENGINE
            finally:
                # Shielded: also of a cancelled command nothing may be left, and its container is free again:
                # tests/sandboxes/containers/test_kills.py::test_a_stopped_client_leaves_nothing
                with trio.CancelScope(shield=True), trio.move_on_after(LOOKED_WITHIN):
                    await self._container.end(started_in, self._mark, must_look=must_look)
            if not self._has_begun and not execution.killed:
                raise self._problem(execution)
            return execution

    def _problem(self, execution: Execution) -> Exception:
        """Return the error for a command that has not begun."""
        if self._container.is_stale:
            return CommandRefused("a hidden or protected file was moved while its container was started; run it again")
        engine = self._container.engine
        return engine.too_late("exec") if execution.timed_out else engine.failed(one_line(execution.stderr.head))

    async def _read(self, pipe: trio.abc.ReceiveStream, capture: Capture) -> None:
        """Read the output of the command, which follows the line of the script that says that it begins."""
        is_output, text = capture is self._output, b""
        while is_output and not self._has_begun and (chunk := await pipe.receive_some(CHUNK)):
            text += bytes(chunk)
            _, line, rest = text.partition(BEGUN)
            if line:
                self._has_begun = True
                self._scope.deadline = trio.current_time() + self._command.timeout
                if rest:
                    self._take(rest, capture)
        await super()._read(pipe, capture)

    def _enter(self) -> Ready:
        """Return the call of the client; its standard input is a pipe."""
        self._check_folder()
        command, (name, points) = self._command, (self._started_in.name, self._started_in.points)
        # Of a name without a value the client sends that of its own environment: other users see command lines.
        carriers = [f"--env={CARRIER}{name}" for name in self._variables]
        words = (command.run,) if isinstance(command.run, str) else command.run
        kind = "line" if isinstance(command.run, str) else "words"
        order = (f"{INSIDE}/{SCRIPT.name}", "run", str(self._mark), *counted(points), self._folder, kind)
        more = (str(int(command.merge)), " ".join(self._variables))
        argv = self._container.engine.words("exec", *carriers, name, "/bin/sh", *order, *more, *words)
        reading, self._input = os.pipe()
        folder = process_folder(self._container.engine).path  # not that of the session: see `Engine.ask`
        return Ready(argv, os.open(folder, os.O_RDONLY), (reading,))

    def _leave(self) -> None:
        self._close_input()

    def _close_input(self) -> None:
        if self._input >= 0:
            os.close(self._input)
            self._input = -1

    async def _end(self, process: trio.Process, grace: float) -> None:
        """End what runs in the container: SIGTERM, *grace* seconds, SIGKILL; then the client, if it does not end."""
        with suppress(OSError):  # its other end is closed: the client has ended
            os.write(self._input, TERM)
        with trio.move_on_after(grace):
            await process.wait()
            return
        self._close_input()
        with trio.move_on_after(KILLED_WITHIN):
            await process.wait()
            return
        self._has_killed = True
        await super()._end(process, 0)
