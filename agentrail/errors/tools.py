"""Errors in the definition or use of tools and of sources of tools."""

from __future__ import annotations

from collections.abc import Iterable

from agentrail.errors.branches import UsageError, listed


class BadTool(UsageError):
    """A function or object cannot be used as a tool, or its declaration is invalid."""

    wording = "cannot make a tool of `{0}`: {1}"

    def __init__(self, tool: str, problem: str) -> None:
        super().__init__(tool, problem)


class BadReturns(UsageError):
    """A value given as `returns` is no form that an answer can have."""

    wording = "cannot ask for an answer in this form: {0}"

    def __init__(self, problem: str) -> None:
        super().__init__(problem)


class ToolExists(UsageError):
    """Two tools cannot have one name."""

    wording = "a tool named `{0}` is attached already; detach it first, or use `replace_tools`"

    def __init__(self, tool: str) -> None:
        super().__init__(tool)


class SourceExists(UsageError):
    """Two sources of tools cannot have one name."""

    wording = "a source of tools named `{0}` is attached already; detach it first, or use `replace_tools`"

    def __init__(self, source: str) -> None:
        super().__init__(source)


class SourceAlone(UsageError):
    """A source of tools was given together with other tools, but must be attached by a separate call."""

    wording = (
        "cannot attach the source of tools `{0}` together with others: a call attaches all or nothing, and a source is "
        "there only when it has started; attach each by a call of its own"
    )

    def __init__(self, source: str) -> None:
        super().__init__(source)


class UnknownTool(UsageError):
    """No tool has this name."""

    wording = "session has no tool `{0}` (attached: {1})"

    def __init__(self, tool: str, attached: str) -> None:
        super().__init__(tool, attached)

    @classmethod
    def among(cls, tool: str, attached: Iterable[str]) -> UnknownTool:
        """Return an error that lists the *attached* tools."""
        return cls(tool, listed(attached))


class BadEdit(UsageError):
    """The text to replace does not occur, or occurs more than once."""

    wording = "cannot edit `{0}`: the text to replace occurs {1} times where {2} is wanted; nothing was changed"

    def __init__(self, path: str, times: int, wanted: str) -> None:
        super().__init__(path, times, wanted)

    @property
    def times(self) -> int:
        """The number of times that the text occurs."""
        times = self.args[1]
        return times if isinstance(times, int) else 0


class BadPattern(UsageError):
    """A pattern of a search is invalid."""

    wording = "cannot read the pattern {0!r}: {1}"

    def __init__(self, pattern: str, problem: str) -> None:
        super().__init__(pattern, problem)


class BadMcpServer(UsageError):
    """The options given for an MCP server are invalid."""

    wording = "cannot use the MCP server `{0}`: {1}"

    def __init__(self, server: str, problem: str) -> None:
        super().__init__(server, problem)
