"""The call was wrong: whoever made it can fix it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Self

from agentrail.errors.branches import UsageError, listed, meant, nearest


class NotJson(UsageError):
    """A value was given where only JSON can be kept."""

    wording = (
        "{0} is {1}, which JSON cannot hold; use text, finite numbers, booleans, None, lists and text-keyed objects"
    )

    def __init__(self, at: str, found: str) -> None:
        super().__init__(at, found)


class BadText(UsageError):
    """A text is not JSON that we read."""

    wording = "cannot read this text as JSON: {0}"

    def __init__(self, problem: str) -> None:
        super().__init__(problem)


class BadData(UsageError):
    """JSON does not hold the value that is wanted."""

    wording = "cannot read a `{0}`: {1} {2}"

    def __init__(self, wanted: str, at: str, problem: str) -> None:
        super().__init__(wanted, at, problem)


class BadValue(UsageError):
    """A value cannot be written as JSON that would be read back as the same value."""

    wording = "cannot write a `{0}`: {1} {2}"

    def __init__(self, given: str, at: str, problem: str) -> None:
        super().__init__(given, at, problem)


class BadMessage(UsageError):
    """What a caller says cannot be kept."""

    wording = "cannot say this: {0} is {1}; use text, or a list of `Text`, `Image` and `Data`"

    def __init__(self, what: str, found: str) -> None:
        super().__init__(what, found)


class WrongType(UsageError, TypeError):
    """An argument is not of its type."""

    wording = "cannot take {1} as `{0}`; give {2}"

    def __init__(self, argument: str, found: str, wanted: str) -> None:
        super().__init__(argument, found, wanted)

    @classmethod
    def of(cls, argument: str, found: object, wanted: str) -> WrongType:
        """Make one that names the type of what was *found*."""
        return cls(argument, f"a `{type(found).__name__}`", wanted)


class UnknownField(UsageError, TypeError):
    """A field was given that is not there."""

    wording = "`{0}` has no field `{1}`; {2}"
    others: ClassVar[str] = "its fields are"

    def __init__(self, cls: str, field: str, advice: str) -> None:
        super().__init__(cls, field, advice)

    @classmethod
    def among(cls, owner: str, field: str, fields: Iterable[str]) -> Self:
        """Make one that names the nearest of *fields*, or all if none is near."""
        return cls(owner, field, meant(field, fields, cls.others))


class UnknownArgument(UnknownField):
    """A function was given an argument that it does not take."""

    wording = "`{0}` takes no argument `{1}`; {2}"
    others = "its arguments are"

    def __init__(self, function: str, argument: str, advice: str) -> None:
        super().__init__(function, argument, advice)


class BadSpec(UsageError):
    """A `SessionSpec` cannot be run."""

    wording = "cannot run this SessionSpec: its `{0}` {1}"

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(field, problem)


class BadChoice(UsageError):
    """An argument takes one of a few words."""

    wording = "{0}={1!r} is not a choice; use one of {2}"

    def __init__(self, argument: str, found: object, choices: str) -> None:
        super().__init__(argument, found, choices)

    @classmethod
    def among(cls, argument: str, found: object, choices: Iterable[str]) -> BadChoice:
        """Make one that lists the *choices*."""
        return cls(argument, found, listed(choices))


class BadId(UsageError):
    """An id does not follow the grammar."""

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


class NotEntered(UsageError):
    """A subscription was read before it was entered: it would never hear anything."""

    wording = "cannot read this subscription yet; put the `async for` into `async with session.subscribe() as events:`"


class AlreadyLeft(UsageError):
    """A subscription was read after it was left: it hears nothing any more."""

    wording = (
        "cannot read this subscription any more: its `async with` was left; read inside of it, or subscribe again "
        "with `since=`"
    )


class AlreadyRead(UsageError):
    """Two tasks read one subscription: each would miss what the other gets."""

    wording = "another task reads this subscription; subscribe once for each reader"


class NoTrioRun(UsageError):
    """A supervisor was opened outside of Trio."""

    wording = "cannot open a supervisor here: no Trio run; call your main function by `trio.run(main)`, not by asyncio"


class NotInItsRun(UsageError):
    """A session was called from outside the Trio run that it lives in."""

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
        """Make one that names the nearest of the *known*, or the provider of the family that *model* is of."""
        names = sorted(known)
        provider, colon, rest = model.partition(":")
        by_name = {name.partition(":")[0]: name for name in names}
        near = nearest(provider.lower(), by_name)
        likely = f"{near}:{rest or '…'}" if near and by_name[near] != near else near
        if not colon:
            likely = next((f"{of}:{model}" for family, of in families.items() if model.startswith(family)), likely)
            head, dash, version = model.partition("-")
            family = nearest(head.lower(), families) if likely is None else None
            likely = f"{families[family]}:{family}{dash}{version}" if family else likely
        return cls(model, listed(names), f" (did you mean `{likely}`?)" if likely else "")


class ModelExists(UsageError):
    """Two models of one session cannot have one name."""

    wording = "this session knows another model named `{0}`; give the new one a name of its own"

    def __init__(self, model: str) -> None:
        super().__init__(model)


class UnknownApproval(UsageError):
    """Nothing with this id waits for a decision."""

    wording = "nothing with the id `{0}` waits for a decision (waiting: {1}); see `session.status().held`"

    def __init__(self, approval: str, waiting: str) -> None:
        super().__init__(approval, waiting)

    @classmethod
    def among(cls, approval: str, waiting: Iterable[str]) -> UnknownApproval:
        """Make one that lists what is *waiting*."""
        return cls(approval, listed(waiting))


class WrongDecision(UnknownApproval):
    """A question was approved or rejected, or a held call answered."""

    wording = "cannot {1} `{0}`: it is {2}; use {3}"

    def __init__(self, approval: str, call: str, what: str, instead: str) -> None:
        super(UnknownApproval, self).__init__(approval, call, what, instead)


class NoFamily(UsageError):
    """The word `always` has no meaning for this call."""

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
        """Make one that names the nearest of what is *attached*, and all of it."""
        known = list(attached)
        near = nearest(plugin, known)
        return cls(plugin, listed(known), f"; did you mean `{near}`?" if near else "")


class PluginExists(UsageError):
    """One plugin of each class per session, unless it has a key."""

    wording = "a plugin `{0}` is attached already; give the second one a `key`"

    def __init__(self, plugin: str) -> None:
        super().__init__(plugin)


class BadOptions(UsageError):
    """A plugin or a model does not take its options."""

    wording = "`{0}` does not take these options: {1}"

    def __init__(self, whose: str, problem: str) -> None:
        super().__init__(whose, problem)


class BadPlugin(UsageError):
    """A plugin class is not written as the contract asks."""

    wording = "plugin class `{0}`: {1}"

    def __init__(self, plugin: str, problem: str) -> None:
        super().__init__(plugin, problem)


class UnknownPrompt(UsageError):
    """No such prompt is queued."""

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
    """An input came in a state that has no use for it."""

    wording = "`{1}` cannot be handled in state `{0}`: {2}"

    def __init__(self, phase: str, input_: str, why: str) -> None:
        super().__init__(phase, input_, why)


class ExtraMissing(UsageError):
    """What is wanted needs packages that are not installed."""

    wording = "cannot {0}: it needs packages of the extra `{1}`, which are not installed; run `{2}`"

    def __init__(self, what: str, extra: str, command: str) -> None:
        super().__init__(what, extra, command)
