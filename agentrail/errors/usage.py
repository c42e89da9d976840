"""Errors in a call, which its caller can fix; those about children of supervisors and about tools included."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, Final, Self, cast

from agentrail.errors.agentrail_error import UsageError, advice, error, listed, nearest
from agentrail.other_names import hint_for

_NAME: Final = cast("Callable[[type], str]", vars(type)["__name__"].__get__)
"""Getter of a class's name that a metaclass cannot override."""

LIKE_A_PROVIDER: Final = 0.7
"""Similarity (0 to 1) to the name of a provider or a family of models from which a name counts as misspelt."""


MAX_PATHS: Final = 20
"""The most paths that the text of an error names."""


@error
class NotJson(UsageError):
    """A value was given where only JSON can be stored, and it is not JSON."""

    wording = (
        "{at} is {found}, which JSON cannot hold; use text, finite numbers, booleans, None, lists and text-keyed "
        "objects"
    )

    at: str
    """The place of the value."""
    found: str
    """What is there, in words."""


@error
class BadText(UsageError):
    """A text is not JSON, or JSON in a form that is not accepted."""

    wording = "cannot read this text as JSON: {problem}"

    problem: str
    """Why it cannot be read."""


@error
class BadData(UsageError):
    """JSON data does not fit the type that it is to be read as."""

    wording = "cannot read a `{wanted}`: {at} {problem}"

    wanted: str
    """Name of the type that it was to be read as."""
    at: str
    """Place in the data, as a JSONPath."""
    problem: str
    """What is wrong."""


@error
class BadValue(UsageError):
    """A value cannot be written as JSON that would be read back as the same value."""

    wording = "cannot write a `{given}`: {at} {problem}"

    given: str
    """Name of the value's class."""
    at: str
    """Place in the value, as a JSONPath."""
    problem: str
    """What is wrong."""


@error
class WrongType(UsageError, TypeError):
    """An argument has the wrong type."""

    wording = "cannot take {found} as `{argument}`; give {wanted}"

    argument: str
    """Name of the argument."""
    found: str
    """What was given, in words."""
    wanted: str
    """What to give, in words."""

    @classmethod
    def of(cls, argument: str, found: object, wanted: str) -> WrongType:
        """Return an error that names the type of *found*, the argument that was given."""
        return cls(argument, f"a `{_NAME(type(found))}`", wanted)


class UnknownField(UsageError, TypeError):
    """A field was given that the class does not have."""

    wording = "`{0}` has no field `{1}`; {2}"
    others: ClassVar[str] = "its fields are"

    def __init__(self, cls: str, field: str, advice: str) -> None:
        super().__init__(cls, field, advice)

    @classmethod
    def among(cls, owner: str, field: str, fields: Iterable[str]) -> Self:
        """Return an error that says where *field* belongs, or names the most similar of *fields*, or else all."""
        return cls(owner, field, _field_hint(owner, field) or advice(field, fields, cls.others))


MODEL_OPTIONS: Final = frozenset(
    {
        *("api_key", "base_url", "cache", "connect_timeout", "extra", "first_byte_timeout", "headers", "max_tokens"),
        *("next_byte_timeout", "reasoning_effort", "response_format", "stop", "temperature", "tool_choice"),
        *("tool_search", "region", "project", "profile", "token", "api_version"),
    }
)
"""Names of the options of models: people give them to a `SessionSpec` too."""

_COSTS: Final = frozenset({"budget", "max_budget", "max_cost", "max_cost_usd", "max_dollars", "max_usd"})


def _field_hint(owner: str, field: str) -> str:
    """Return where *field*, which *owner* does not have, belongs; empty if that is not known."""
    if owner == "SessionSpec" and field in MODEL_OPTIONS:
        return f'it is an option of the model; write `model_options={{"{field}": …}}`'
    if owner == "SessionSpec" and field in _COSTS:
        return "costs are limited by a plugin; write `plugins=[BudgetGuard(max_usd=…)]`"
    if owner == "HostLimits" and field in _COSTS:
        return "did you mean `usd_per_day`?"
    return hint_for(owner, field)


@error
class UnknownArgument(UnknownField):
    """A function was given an argument that it does not take."""

    wording = "`{function}` takes no argument `{argument}`; {advice}"
    others = "its arguments are"

    function: str
    """Name of the function."""
    argument: str
    """The name that it does not take."""
    advice: str
    """The nearest argument, or all arguments."""


@error
class BadSpec(UsageError):
    """A session cannot be started from this `SessionSpec`: a field is invalid."""

    wording = "cannot run this SessionSpec: its `{field}` {problem}"

    field: str
    """Name of the field."""
    problem: str
    """What is wrong with it, as the rest of the sentence."""


@error
class BadChoice(UsageError):
    """An argument has a value that is not among its choices."""

    wording = "{argument}={found!r} is not a choice; use one of {choices}"

    argument: str
    """Name of the argument."""
    found: object
    """The value that was given."""
    choices: str
    """The choices, as text."""

    @classmethod
    def among(cls, argument: str, found: object, choices: Iterable[str]) -> BadChoice:
        """Return an error that lists the *choices*."""
        return cls(argument, found, listed(choices))


@error
class BadId(UsageError):
    """An id contains characters that are not allowed, or is too long or empty."""

    wording = (
        "the id {found!r} is not allowed: 1 to 128 letters, digits, `.`, `_`, `-`, beginning with a letter or digit; "
        "for a name with others, such as an address, use a hash of it, and `owner` for the name"
    )

    found: str
    """The id that was given."""


@error
class SessionExists(UsageError):
    """Two sessions cannot have one id."""

    wording = (
        "cannot start `{session}`: the id is taken by a session that is here; use another id, or "
        "`supervisor.session({session!r})`"
    )

    session: str
    """The id of both."""


@error
class UnknownSession(UsageError):
    """No session has this id."""

    wording = "there is no session `{session}` here; `supervisor.sessions()` lists those there are"

    session: str
    """The id that was asked for."""


@error
class SessionNotAlive(UsageError):
    """The session has ended."""

    wording = "session `{session}` has ended ({reason}); spawn a new one"

    session: str
    """Id of the session."""
    reason: str
    """Why it has ended."""


@error
class UnknownCursor(UsageError):
    """The cursor given to `subscribe(since=…)` is not of an event of this session."""

    wording = (
        "session `{session}` has no event {seq}: its last one is {last}, so this cursor is of another session or "
        "another journal; keep the session's id beside a cursor, or subscribe with `since=0`"
    )

    session: str
    """Id of the session."""
    seq: int
    """Number of the event in the cursor."""
    last: int
    """Number of its last event."""


class NotEntered(UsageError):
    """A subscription was read before its `async with` was entered, so it would never get an event."""

    wording = (
        "cannot read these events yet; put the loop into `async with session.stream(text) as turn:`, or into "
        "`async with session.subscribe() as events:` (with `agentrail.sync`: `with`, without `async`)"
    )


class AlreadyLeft(UsageError):
    """A subscription was read after its `async with` was left, so it gets no more events."""

    wording = (
        "cannot read these events any more: their `async with` was left; read inside of it, or subscribe again "
        "with `since=`"
    )


class AlreadyRead(UsageError):
    """Two tasks read one subscription: each would miss the events that the other gets."""

    wording = "another task reads this subscription; subscribe once for each reader"


@error
class NotOpened(UsageError, AttributeError):
    """The result of `open_supervisor`, `connect` or `host.serving` was used without `async with`, which opens it."""

    wording = (
        "cannot use `{attempt}` here: `{function}()` is for `async with` alone; "
        "write `async with {function}({arguments}) as {given}:`, and use `{given}` inside of it"
    )

    attempt: str
    """Name that was used."""
    function: str
    """Name of the function."""
    given: str
    """What `async with` gives, as the advice calls it."""
    arguments: str
    """Arguments of the function, as the advice writes them."""


class BridgeClosed(UsageError):
    """A supervisor of `agentrail.aio` or `agentrail.sync` was called after it was left, or left while a call waited."""

    wording = "the supervisor is closed; open another"


@error
class BridgeForked(UsageError):
    """A supervisor of `agentrail.aio` or `agentrail.sync` was called in a process that was forked from its own."""

    wording = "the supervisor lives in process {process}; this is {here}, forked from it; open one here"

    process: int
    """Id of the process that opened the supervisor."""
    here: int
    """Id of the process of the caller."""


@error
class SupervisorClosed(UsageError):
    """The supervisor is closing or closed."""

    wording = "cannot spawn `{session}`: the supervisor is closing; spawn inside `async with open_supervisor()`"

    session: str
    """Id of the session."""


@error
class UnknownModel(UsageError):
    """No model has this name."""

    wording = (
        "there is no model `{model}`{advice}; known here: {known}; give a `Model` object, or register one with the "
        "supervisor"
    )

    model: str
    """The name that was asked for."""
    known: str
    """The known models, as text."""
    advice: str = ""
    """The model that was probably meant, as a part of the sentence; empty if there is none."""

    @classmethod
    def among(cls, model: str, known: Iterable[str], families: Mapping[str, str]) -> UnknownModel:
        """Return an error that suggests the most similar of *known*, or the provider of a family such as `claude`."""
        return cls(model, listed(sorted(known)), likely_model(model, known, families))


def likely_model(model: str, known: Iterable[str], families: Mapping[str, str]) -> str:
    """Return a remark that suggests the model that *model* was meant for; empty if that is not known.

    It is the most similar of *known*, or one of the provider of a family such as `claude`.
    """
    by_name = {name.partition(":")[0]: name for name in sorted(known)}
    provider, colon, rest = model.partition(":" if ":" in model else "/")  # other libraries write `openai/gpt-5`
    near = nearest(provider.lower(), by_name, LIKE_A_PROVIDER)
    likely = f"{near}:{rest or '…'}" if near and by_name[near] != near else near
    if not colon:
        likely = next((f"{of}:{model}" for family, of in families.items() if model.startswith(family)), likely)
        head, dash, version = model.partition("-")
        family = nearest(head.lower(), families, LIKE_A_PROVIDER) if likely is None else None
        likely = f"{families[family]}:{family}{dash}{version}" if family else likely
    return f" (did you mean `{likely}`?)" if likely else ""


class UnknownApproval(UsageError):
    """No held call and no question with this id waits for a decision."""

    wording = "nothing with the id `{0}` waits for a decision (waiting: {1}); see `session.status().held`"

    def __init__(self, approval: str, waiting: str) -> None:
        super().__init__(approval, waiting)

    @classmethod
    def among(cls, approval: str, waiting: Iterable[str]) -> UnknownApproval:
        """Return an error that lists the ids that are *waiting*."""
        return cls(approval, listed(waiting))


class ResultNotWanted(UnknownApproval):
    """No call waits for this result: it has another one already, its time was over, or its turn has ended."""

    wording = (
        "no call waits for a result with the id `{0}` (waiting: {1}): it has one already, its time was over, or its "
        "turn has ended; see `session.status().held`"
    )


@error
class BadResult(UsageError):
    """A result from elsewhere does not fit the schema that its tool declares for results."""

    wording = (
        "cannot give `{ref}` this result: it does not fit the schema of `{tool}`: {problem}; correct it, or give `Err`"
    )

    ref: str
    """Id of the call."""
    tool: str
    """Name of its tool."""
    problem: str
    """What does not fit."""


@error
class WrongDecision(UnknownApproval):
    """The decision does not fit: a question was approved, a held call was answered, or a stopped call was rejected."""

    wording = "cannot {call} `{approval}`: it is {what}; use {instead}"

    approval: str
    """Id of what waits for a decision."""
    call: str
    """The decision, as a verb."""
    what: str
    """What waits for the decision, in words."""
    instead: str
    """The method to use in its place."""


@error
class NotAsShown(UsageError):
    """The person who decided was shown something else than what is held: the call has changed, or is another one."""

    wording = (
        "cannot {call} `{approval}`: what was shown is not what is held now, a call of `{tool}`; "
        "look at it in `session.status().held`, and decide about that"
    )

    approval: str
    """Id of the held call."""
    call: str
    """The decision, as a verb."""
    tool: str
    """Name of the tool of the call that is held."""


@error
class UnknownPlugin(UsageError):
    """No plugin of this session has this key."""

    wording = "session has no plugin `{plugin}`{advice} (attached: {attached})"

    plugin: str
    """The key that was asked for."""
    attached: str
    """The keys of the attached plugins, as text."""
    advice: str = ""
    """The nearest key, as a part of the sentence; empty if there is none."""

    @classmethod
    def among(cls, plugin: str, attached: Iterable[str]) -> UnknownPlugin:
        """Return an error that lists the keys of the *attached* plugins, and suggests the most similar one."""
        keys = list(attached)
        near = nearest(plugin, keys)
        return cls(plugin, listed(keys), f"; did you mean `{near}`?" if near else "")


@error
class BadOptions(UsageError):
    """A plugin or a model does not take its options."""

    wording = "`{whose}` does not take these options: {problem}"

    whose: str
    """Name of the plugin or model."""
    problem: str
    """Why it does not take them."""


@error
class BadPlugin(UsageError):
    """A plugin, or its class, does not follow the contract of plugins."""

    wording = "plugin class `{plugin}`: {problem}"

    plugin: str
    """Name of its class."""
    problem: str
    """What is wrong."""


@error
class UnknownPrompt(UsageError):
    """No prompt with this ref is queued."""

    wording = "no queued prompt has the ref `{ref}`; it was taken, dropped or never queued; see `session.queued()`"

    ref: str
    """The ref that was asked for."""


@error
class CommandConflict(UsageError):
    """A command id was used for two different commands."""

    wording = "the command id `{command}` was used before for another command; a resend must be the same command"

    command: str
    """The command id."""


@error
class Busy(UsageError):
    """The call needs a session with no open turn."""

    wording = "cannot {call} now: a turn is open; wait for its end, or abort it"

    call: str
    """The call, as a verb."""


@error
class FilesEdited(UsageError):
    """Somebody changed files after the agent did, so bringing back their former content would lose the change."""

    wording = (
        "cannot bring back these files, because somebody has changed them after the agent: {paths}; nothing was "
        "changed; leave them out by `files=…`, or bring them back all the same by `over_edits=True`"
    )

    paths: tuple[str, ...]
    """Paths of these files."""

    def _text(self) -> str:
        more = len(self.paths) - MAX_PATHS
        return self.wording.format(paths=listed(self.paths[:MAX_PATHS]) + (f" and {more} more" if more > 0 else ""))


@error
class IllegalInput(UsageError):
    """The session cannot handle this input in its present state."""

    wording = "`{input_}` cannot be handled in state `{phase}`: {why}"

    phase: str
    """Phase of the session."""
    input_: str
    """Kind of the input."""
    why: str
    """Why it cannot be handled."""


@error
class ExtraMissing(UsageError):
    """A feature needs packages of an extra that are not installed."""

    wording = "cannot {what}: it needs packages of the extra `{extra}`, which are not installed; run `{command}`"

    what: str
    """What needs the packages, as a verb."""
    extra: str
    """Name of the extra."""
    command: str
    """The command that installs them."""


@error
class NotReady(UsageError):
    """A service has ended before it was ready."""

    wording = "`{child}` ended before it was ready; call `task_status.started()`, or start it again if it was stopped"

    child: str
    """Name of the service."""


@error
class UnknownChild(UsageError):
    """No child of the supervisor has this name."""

    wording = "there is no child `{child}` here (there are: {there})"

    child: str
    """The name that was asked for."""
    there: str
    """The children there are, as text."""

    @classmethod
    def among(cls, child: str, there: Iterable[str]) -> UnknownChild:
        """Return an error that lists the existing children."""
        return cls(child, listed(there))


@error
class UnknownTask(UsageError):
    """No sub-agent of the session has this id."""

    wording = "no sub-agent `{child}` is known here (known are: {there}); what ended long ago is in the journal only"

    child: str
    """The id that was asked for."""
    there: str
    """The known sub-agents, as text."""

    @classmethod
    def among(cls, child: str, there: Iterable[str]) -> UnknownTask:
        """Return an error that lists the known sub-agents."""
        return cls(child, listed(there))


@error
class BadTool(UsageError):
    """A function or object cannot be used as a tool, or its declaration is invalid."""

    wording = "cannot make a tool of `{tool}`: {problem}"

    tool: str
    """Name of the function, object or tool."""
    problem: str
    """What is wrong."""


@error
class BadReturns(UsageError):
    """A value given as `returns` is no form that an answer can have."""

    wording = "cannot ask for an answer in this form: {problem}"

    problem: str
    """Why it is no form."""


@error
class ToolExists(UsageError):
    """Two tools cannot have one name."""

    wording = "a tool named `{tool}` is attached already; detach it first, or use `replace_tools`"

    tool: str
    """Name of the tool."""


@error
class UnknownTool(UsageError):
    """No tool has this name."""

    wording = "session has no tool `{tool}` (attached: {attached})"

    tool: str
    """The name that was asked for."""
    attached: str
    """The names of the attached tools, as text."""

    @classmethod
    def among(cls, tool: str, attached: Iterable[str]) -> UnknownTool:
        """Return an error that lists the *attached* tools."""
        return cls(tool, listed(attached))


@error
class BadEdit(UsageError):
    """The text to replace does not occur, or occurs more than once."""

    wording = (
        "cannot edit `{path}`: the text to replace occurs {times} times where {wanted} is wanted; nothing was changed"
    )

    path: str
    """Path of the file."""
    times: int
    """The number of times that the text occurs."""
    wanted: str
    """The number of times that is wanted, in words."""


@error
class BadPattern(UsageError):
    """A pattern of a search is invalid."""

    wording = "cannot read the pattern {pattern!r}: {problem}"

    pattern: str
    """The pattern."""
    problem: str
    """What is wrong."""
