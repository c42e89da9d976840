"""`UserMemory`: a host plugin that saves what users tell of themselves to the memory file of their sessions."""

from __future__ import annotations

from collections.abc import Callable

from agentrail.errors import FileFailed, WrongType
from agentrail.host.plugins.host_plugin import HostPlugin
from agentrail.host.plugins.plugin_values import Request, RequestContext
from agentrail.plugins.memory.facts import spoken_facts, with_facts
from agentrail.plugins.options import path_problem
from agentrail.ports.sandbox import Sandbox
from agentrail.runtime.work.plugin_files import data_of_file, replace_file
from agentrail.values.argument_checks import checked


class UserMemory(HostPlugin):
    """Saves what users tell of themselves to a memory file, which `MemoryLoader` brings into their next prompts.

    Give it a function that returns the sandbox of a user's sessions, the same that their specification has. When a turn
    is durable, facts in its message, such as `I prefer …` and `remember that …`, are added to the file, each once. One
    user's facts go to that user's sandbox only, so users who share a sandbox share a memory. A file that cannot be read
    or written stays as it is, and the failure is reported as that of any host plugin.
    """

    name = "user-memory"

    @checked
    def __init__(
        self, sandbox_of: Callable[[RequestContext], Sandbox], *, file: str = "MEMORY.md", max_facts: int = 5
    ) -> None:
        """Add at most *max_facts* facts of a message to *file*, in the sandbox that *sandbox_of* returns."""
        problem = path_problem(file)
        if max_facts < 0:
            raise WrongType.of("max_facts", max_facts, "a whole number from 0 on")
        if problem is not None:
            raise WrongType.of("file", file, "a path below the working directory, such as `MEMORY.md`")
        self._sandbox_of = sandbox_of
        self._file = file
        self._most = max_facts

    def intercept(self, request: Request) -> None:
        """Keep the message until its turn is over."""
        request.context.state[UserMemory] = request.message

    async def on_turn_persisted(self, context: RequestContext) -> None:
        """Add the facts of the message to the user's file."""
        message = context.state.pop(UserMemory, None)
        facts = spoken_facts([message], self._most) if isinstance(message, str) else ()
        if not facts:
            return
        sandbox = self._sandbox_of(context)
        for is_last in (False, False, True):
            data = await data_of_file(sandbox, self._file)
            old_text = None if data is None else data.decode()
            text, added = with_facts(old_text, facts)
            if not added:
                return
            try:
                await replace_file(sandbox, self._file, text.encode(), data)
            except FileFailed:  # most likely a session has written the file since it was read
                if is_last:
                    raise
            else:
                return
