"""Errors in a call, which its caller can fix; those about children of supervisors and about tools included."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final, Self

from agentrail.errors.branches import UsageError, listed, meant, nearest

LIKE_A_PROVIDER: Final = 0.7
"""Similarity (0 to 1) to the name of a provider or a family of models from which a name counts as misspelt."""


class NotJson(UsageError):
    """A value was given where only JSON can be stored, and it is not JSON."""

    wording = (
        "{0} is {1}, which JSON cannot hold; use text, finite numbers, booleans, None, lists and text-keyed objects"
    )

    def __init__(self, at: str, found: str) -> None:
        super().__init__(at, found)


class BadText(UsageError):
    """A text is not JSON, or JSON in a form that is not accepted."""

    wording = "cannot read this text as JSON: {0}"

    def __init__(self, problem: str) -> None:
        super().__init__(problem)


class BadData(UsageError):
    """JSON data does not fit the type that it is to be read as."""

    wording = "cannot read a `{0}`: {1} {2}"

    def __init__(self, wanted: str, at: str, problem: str) -> None:
        super().__init__(wanted, at, problem)


class BadValue(UsageError):
    """A value cannot be written as JSON that would be read back as the same value."""

    wording = "cannot write a `{0}`: {1} {2}"

    def __init__(self, given: str, at: str, problem: str) -> None:
        super().__init__(given, at, problem)


class BadMessage(UsageError):
    """The content of a prompt or of steering is not text, image, file or data that can be stored."""

    wording = "cannot use this content: {0} is {1}; use text, or a list of `Text`, `Image`, `File` and `Data`"

    def __init__(self, what: str, found: str) -> None:
        super().__init__(what, found)


class WrongType(UsageError, TypeError):
    """An argument has the wrong type."""

    wording = "cannot take {1} as `{0}`; give {2}"

    def __init__(self, argument: str, found: str, wanted: str) -> None:
        super().__init__(argument, found, wanted)

    @classmethod
    def of(cls, argument: str, found: object, wanted: str) -> WrongType:
        """Return an error that names the type of *found*, the argument that was given."""
        return cls(argument, f"a `{type(found).__name__}`", wanted)


class UnknownField(UsageError, TypeError):
    """A field was given that the class does not have."""

    wording = "`{0}` has no field `{1}`; {2}"
    others: ClassVar[str] = "its fields are"

    def __init__(self, cls: str, field: str, advice: str) -> None:
        super().__init__(cls, field, advice)

    @classmethod
    def among(cls, owner: str, field: str, fields: Iterable[str]) -> Self:
        """Return an error that names the most similar of *fields*, or all if none is similar."""
        return cls(owner, field, meant(field, fields, cls.others))


class UnknownArgument(UnknownField):
    """A function was given an argument that it does not take."""

    wording = "`{0}` takes no argument `{1}`; {2}"
    others = "its arguments are"

    def __init__(self, function: str, argument: str, advice: str) -> None:
        super().__init__(function, argument, advice)


class BadSpec(UsageError):
    """A session cannot be started from this `SessionSpec`: a field is invalid."""

    wording = "cannot run this SessionSpec: its `{0}` {1}"

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(field, problem)


class BadChoice(UsageError):
    """An argument has a value that is not among its choices."""

    wording = "{0}={1!r} is not a choice; use one of {2}"

    def __init__(self, argument: str, found: object, choices: str) -> None:
        super().__init__(argument, found, choices)

    @classmethod
    def among(cls, argument: str, found: object, choices: Iterable[str]) -> BadChoice:
        """Return an error that lists the *choices*."""
        return cls(argument, found, listed(choices))


class BadId(UsageError):
    """An id contains characters that are not allowed, or is too long or empty."""

    wording = "the id {0!r} is not allowed: 1 to 128 letters, digits, `.`, `_`, `-`, beginning with a letter or digit"

    def __init__(self, found: str) -> None:
        super().__init__(found)


class SessionExists(UsageError):
    """Two sessions cannot have one id."""

    wording = (
        "cannot start `{0}`: the id is taken by a session that is here; use another id, or `supervisor.session({0!r})`"
    )

    def __init__(self, session: str) -> None:
        super().__init__(session)


class UnknownSession(UsageError):
    """No session has this id."""

    wording = "there is no session `{0}` here; `supervisor.sessions()` lists those there are"

    def __init__(self, session: str) -> None:
        super().__init__(session)


class SessionNotAlive(UsageError):
    """The session has ended."""

    wording = "session `{0}` has ended ({1}); spawn a new one"

    def __init__(self, session: str, reason: str) -> None:
        super().__init__(session, reason)


class UnknownCursor(UsageError):
    """The cursor given to `subscribe(since=…)` is not of an event of this session."""

    wording = (
        "session `{0}` has no event {1}: its last one is {2}, so this cursor is of another session or another journal; "
        "keep the session's id beside a cursor, or subscribe with `since=0`"
    )

    def __init__(self, session: str, seq: int, last: int) -> None:
        super().__init__(session, seq, last)


class NotEntered(UsageError):
    """A subscription was read before its `async with` was entered, so it would never get an event."""

    wording = "cannot read this subscription yet; put the `async for` into `async with session.subscribe() as events:`"


class AlreadyLeft(UsageError):
    """A subscription was read after its `async with` was left, so it gets no more events."""

    wording = (
        "cannot read this subscription any more: its `async with` was left; read inside of it, or subscribe again "
        "with `since=`"
    )


class AlreadyRead(UsageError):
    """Two tasks read one subscription: each would miss the events that the other gets."""

    wording = "another task reads this subscription; subscribe once for each reader"


class NoTrioRun(UsageError):
    """A supervisor, a host or a connection to one was opened outside of Trio."""

    wording = "cannot {0} here: no Trio run; call your main function by `trio.run(main)`, not by asyncio"

    def __init__(self, attempt: str) -> None:
        super().__init__(attempt)


class NotOpened(UsageError, AttributeError):
    """The result of `open_supervisor`, `connect` or `host.serving` was used without `async with`, which opens it."""

    wording = (
        "cannot use `{0}` here: `{1}()` is for `async with` alone; "
        "write `async with {1}({3}) as {2}:`, and use `{2}` inside of it"
    )

    def __init__(self, attempt: str, function: str, given: str, arguments: str) -> None:
        super().__init__(attempt, function, given, arguments)


class NotInItsRun(UsageError):
    """A session was called from outside of the Trio run of its supervisor."""

    wording = (
        "cannot talk to session `{0}` from here: this is another thread or another event loop; "
        "call it inside the Trio run of its supervisor, from a thread by `trio.from_thread.run`"
    )

    def __init__(self, session: str) -> None:
        super().__init__(session)


class SupervisorClosed(UsageError):
    """The supervisor is closing or closed."""

    wording = "cannot spawn `{0}`: the supervisor is closing; spawn inside `async with open_supervisor()`"

    def __init__(self, session: str) -> None:
        super().__init__(session)


class UnknownModel(UsageError):
    """No model has this name."""

    wording = "there is no model `{0}`{2}; known here: {1}; give a `Model` object, or register one with the supervisor"

    def __init__(self, model: str, known: str, advice: str = "") -> None:
        super().__init__(model, known, advice)

    @classmethod
    def among(cls, model: str, known: Iterable[str], families: Mapping[str, str]) -> UnknownModel:
        """Return an error that suggests the most similar of *known*, or the provider of a family such as `claude`."""
        names = sorted(known)
        provider, colon, rest = model.partition(":")
        by_name = {name.partition(":")[0]: name for name in names}
        near = nearest(provider.lower(), by_name, LIKE_A_PROVIDER)
        likely = f"{near}:{rest or '…'}" if near and by_name[near] != near else near
        if not colon:
            likely = next((f"{of}:{model}" for family, of in families.items() if model.startswith(family)), likely)
            head, dash, version = model.partition("-")
            family = nearest(head.lower(), families, LIKE_A_PROVIDER) if likely is None else None
            likely = f"{families[family]}:{family}{dash}{version}" if family else likely
        return cls(model, listed(names), f" (did you mean `{likely}`?)" if likely else "")


class ModelExists(UsageError):
    """Two models of one session cannot have one name."""

    wording = "this session knows another model named `{0}`; give the new one a name of its own"

    def __init__(self, model: str) -> None:
        super().__init__(model)


class UnknownApproval(UsageError):
    """No held call and no question with this id waits for a decision."""

    wording = "nothing with the id `{0}` waits for a decision (waiting: {1}); see `session.status().held`"

    def __init__(self, approval: str, waiting: str) -> None:
        super().__init__(approval, waiting)

    @classmethod
    def among(cls, approval: str, waiting: Iterable[str]) -> UnknownApproval:
        """Return an error that lists the ids that are *waiting*."""
        return cls(approval, listed(waiting))


class WrongDecision(UnknownApproval):
    """The decision does not fit: a question was approved, a held call was answered, or a stopped call was rejected."""

    wording = "cannot {1} `{0}`: it is {2}; use {3}"

    def __init__(self, approval: str, call: str, what: str, instead: str) -> None:
        super(UnknownApproval, self).__init__(approval, call, what, instead)


class NoFamily(UsageError):
    """A call cannot be approved for always, because the plugin that holds it named no family of commands."""

    wording = "cannot always approve `{0}`: the plugin that holds it named no family; approve it once"

    def __init__(self, approval: str) -> None:
        super().__init__(approval)


class BadArguments(UsageError):
    """Arguments do not fit a tool's schema."""

    wording = "these arguments do not fit `{0}`: {1}"

    def __init__(self, tool: str, problem: str) -> None:
        super().__init__(tool, problem)


class UnknownPlugin(UsageError):
    """No plugin of this session has this key."""

    wording = "session has no plugin `{0}`{2} (attached: {1})"

    def __init__(self, plugin: str, attached: str, advice: str = "") -> None:
        super().__init__(plugin, attached, advice)

    @classmethod
    def among(cls, plugin: str, attached: Iterable[str]) -> UnknownPlugin:
        """Return an error that lists the keys of the *attached* plugins, and suggests the most similar one."""
        known = list(attached)
        near = nearest(plugin, known)
        return cls(plugin, listed(known), f"; did you mean `{near}`?" if near else "")


class PluginExists(UsageError):
    """Two plugins of a session cannot have one key, which by default is the name of the class."""

    wording = "a plugin `{0}` is attached already; give the second one a `key`"

    def __init__(self, plugin: str) -> None:
        super().__init__(plugin)


class BadOptions(UsageError):
    """A plugin or a model does not take its options."""

    wording = "`{0}` does not take these options: {1}"

    def __init__(self, whose: str, problem: str) -> None:
        super().__init__(whose, problem)


class BadPlugin(UsageError):
    """A plugin, or its class, does not follow the contract of plugins."""

    wording = "plugin class `{0}`: {1}"

    def __init__(self, plugin: str, problem: str) -> None:
        super().__init__(plugin, problem)


class UnknownPrompt(UsageError):
    """No prompt with this ref is queued."""

    wording = "no queued prompt has the ref `{0}`; it was taken, dropped or never queued; see `session.queued()`"

    def __init__(self, ref: str) -> None:
        super().__init__(ref)


class CommandConflict(UsageError):
    """A command id was used for two different commands."""

    wording = "the command id `{0}` was used before for another command; a resend must be the same command"

    def __init__(self, command: str) -> None:
        super().__init__(command)


class Busy(UsageError):
    """The call needs a session with no open turn."""

    wording = "cannot {0} now: a turn is open; wait for its end, or abort it"

    def __init__(self, call: str) -> None:
        super().__init__(call)


class IllegalInput(UsageError):
    """The session cannot handle this input in its present state."""

    wording = "`{1}` cannot be handled in state `{0}`: {2}"

    def __init__(self, phase: str, input_: str, why: str) -> None:
        super().__init__(phase, input_, why)


class ExtraMissing(UsageError):
    """A feature needs packages of an extra that are not installed."""

    wording = "cannot {0}: it needs packages of the extra `{1}`, which are not installed; run `{2}`"

    def __init__(self, what: str, extra: str, command: str) -> None:
        super().__init__(what, extra, command)


class ChildExists(UsageError):
    """Two children of a supervisor cannot have one name."""

    wording = "a child `{0}` is there already; use another name, or stop that one first"

    def __init__(self, child: str) -> None:
        super().__init__(child)


class NotReady(UsageError):
    """A service has ended before it was ready."""

    wording = "`{0}` ended before it was ready; call `task_status.started()`, or start it again if it was stopped"

    def __init__(self, child: str) -> None:
        super().__init__(child)


class EndedTooOften(UsageError):
    """A child that is to run for ever has ended, without an error, more often than it may be restarted."""

    wording = "`{0}` has ended too often, without an error; let it run until it is cancelled, or use `transient`"

    def __init__(self, child: str) -> None:
        super().__init__(child)


class BadSupervisor(UsageError):
    """The numbers for the restarts of a supervisor are invalid."""

    wording = "cannot supervise with max_restarts={0} and period={1}; give 0 or more restarts in more than 0 seconds"

    def __init__(self, max_restarts: int, period: float) -> None:
        super().__init__(max_restarts, period)


class UnknownChild(UsageError):
    """No child of the supervisor has this name."""

    wording = "there is no child `{0}` here (there are: {1})"

    def __init__(self, child: str, there: str) -> None:
        super().__init__(child, there)

    @classmethod
    def among(cls, child: str, there: Iterable[str]) -> UnknownChild:
        """Return an error that lists the existing children."""
        return cls(child, listed(there))


class UnknownTask(UsageError):
    """No sub-agent of the session has this id."""

    wording = "no sub-agent `{0}` is known here (known are: {1}); what ended long ago is in the journal only"

    def __init__(self, child: str, there: str) -> None:
        super().__init__(child, there)

    @classmethod
    def among(cls, child: str, there: Iterable[str]) -> UnknownTask:
        """Return an error that lists the known sub-agents."""
        return cls(child, listed(there))


class TaskDone(UsageError):
    """A message came too late: the sub-agent has given its answer."""

    wording = (
        "the task of `{0}` is done, so it reads no messages; take its answer, and give a new task if more is to do"
    )

    def __init__(self, child: str) -> None:
        super().__init__(child)


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
