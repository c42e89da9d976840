"""Checks what callers give to supervisors, handles and commands: host and local handle refuse with the same words.

`HandleCommand`: commands with live objects, such as a tool or a model; the handle converts them to others that can be
stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, TypeAlias, cast, get_type_hints

from agentrail.api.session_values import HeldCall
from agentrail.core.machine.configuration import MAX_LABELS
from agentrail.core.vocabulary.commands import ActorCommand, Command
from agentrail.core.vocabulary.state import State
from agentrail.errors import BadChoice, NotJson, UsageError, WrongType
from agentrail.hooks.plugin import Attachable
from agentrail.ports.journal import ALL_SESSIONS, SLOTS, SessionFilter, StoredSession
from agentrail.ports.model import ModelChain
from agentrail.values.content import Data, File, Image, Part, Text
from agentrail.values.events.envelope import Cursor, Event
from agentrail.values.json import EMPTY, INT_MAX, JsonObject, freeze
from agentrail.values.untrusted_values import brief, number
from agentrail.values.value import Value, quick

_text = quick(Text)

TEXT = "the text"
PART = "a part"


class _PlainFields(dict[type[Value], tuple[tuple[str, object], ...]]):
    """Cache, by class: the fields that are text, text or `None`, or a boolean, each with its type."""

    def __missing__(self, kind: type[Value]) -> tuple[tuple[str, object], ...]:
        plain = (str, str | None, bool)
        fields = self[kind] = tuple((name, hint) for name, hint in get_type_hints(kind).items() if hint in plain)
        return fields


_PLAIN_FIELDS = _PlainFields()


def check_fields(message: Value, command: str | None) -> int:
    """Check the fields of *message*; return the size of its texts in bytes.

    Raise `UsageError` or `BadChoice` if a field cannot be stored.

    Parts of a prompt, and JSON, are checked where they are made.
    """
    if command is not None:
        kept_text(command, "the command id")
    size = 0
    for name, kind in _PLAIN_FIELDS[type(message)]:
        value = getattr(message, name)
        if kind is bool:
            check_flag(name, value)
        elif value is not None or kind is str:
            size += len(kept_text(value, f"the {name}").encode())
    return size


def check_flag(name: str, value: object) -> None:
    """Raise `BadChoice` if *value*, the argument called *name*, is not a boolean."""
    if not isinstance(value, bool):
        raise BadChoice.among(name, value, ("True", "False"))


def kept_text(text: object, what: str) -> str:
    """Return *text* if it can be stored; raise `UsageError` otherwise."""
    if not isinstance(text, str):
        raise UsageError("bad-message", what, f"a `{type(text).__name__}`")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UsageError("bad-message", what, "text with half a surrogate pair") from None
    return text


def kept_parts(content: object) -> tuple[Part, ...]:
    """Return a caller's text or parts as a tuple of parts; raise `UsageError` if they cannot be stored."""
    if isinstance(content, str):
        return (_text(kept_text(content, TEXT)),)
    if not isinstance(content, Iterable):
        raise UsageError("bad-message", TEXT, f"a `{type(content).__name__}`")
    return tuple(_kept_part(part) for part in cast("Iterable[object]", content))


def _kept_part(part: object) -> Part:
    match part:
        case Text(text=text):
            return _text(kept_text(text, PART))
        case Image(media_type=media_type, data=data):
            return Image(kept_text(media_type, "a media type"), kept_text(data, "an image"))
        case File():
            file = File(*(kept_text(getattr(part, name), "a file") for name in File.__struct_fields__))
            if file.problem is not None:
                raise UsageError("bad-message", PART, file.problem)
            return file
        case Data(data=found):
            try:
                return Data(freeze(found))
            except NotJson as error:
                raise UsageError("bad-message", PART, str(error)) from None
        case _:
            raise UsageError("bad-message", PART, f"a `{type(part).__name__}`")


CURSOR_WANTED: Final = "the `cursor` of an envelope: a pair of whole numbers from 0 on, or the first of them"
TYPES_WANTED: Final = "a list of classes of events, such as `[AgentEnd]`"
PLUGIN_WANTED: Final = "its class, or the key that it was given"


def cursor_of(since: object) -> Cursor | None:
    """Return *since* as a cursor; `None` if it is `None`. Raise `WrongType` unless it is one number or two."""
    if since is None:
        return None
    is_pair = type(since) in (tuple, list, Cursor)
    parts = cast("Sequence[object]", since) if is_pair else (since,)
    numbers = [plain for plain in map(number, parts) if type(plain) is int and plain >= 0]
    if not 1 <= len(parts) == len(numbers) <= len(Cursor._fields):
        raise WrongType("since", brief(since), CURSOR_WANTED)
    return Cursor(*numbers)


def kinds_of(types: object) -> tuple[type[Event], ...]:
    """Return *types* as a tuple; raise `WrongType` if they are no iterable of classes of events."""
    is_many = isinstance(types, Iterable)
    event_types = tuple(cast("Iterable[object]", types)) if is_many else (None,)
    if not all(isinstance(kind, type) and issubclass(kind, Event) for kind in event_types):
        raise WrongType.of("types", types, TYPES_WANTED)
    return cast("tuple[type[Event], ...]", event_types)


def key_of(plugin: object) -> str:
    """Return the key of a plugin given by its key or its class; raise `WrongType` for anything else."""
    if isinstance(plugin, str):
        return plugin
    if isinstance(plugin, type):
        return plugin.__name__
    raise WrongType.of("plugin", plugin, PLUGIN_WANTED)


def held_id(call: object, argument: str) -> str:
    """Return the id of a held call, given by itself or by its id; raise `WrongType` for anything else."""
    if isinstance(call, str):
        return call
    if isinstance(call, HeldCall):
        return call.id
    raise WrongType.of(argument, call, HELD_WANTED)


LONGEST_NAME: Final = 200
"""The most characters of a tenant, an owner, a title or a label."""

HELD_WANTED: Final = "one of the calls in `reply.held`, or its id"
NAME_WANTED: Final = f"text of at most {LONGEST_NAME} characters"
LABELS_WANTED: Final = f"a list of texts of 1 to {LONGEST_NAME} characters"


def name_of(argument: str, name: object) -> str:
    """Return *name*, the text given as *argument*; raise `WrongType` if it is too long, or no text."""
    if not isinstance(name, str) or len(name) > LONGEST_NAME:
        raise WrongType(argument, brief(name), NAME_WANTED)
    return kept_text(name, f"the {argument}")


def labels_of(argument: str, texts: object) -> tuple[str, ...]:
    """Return the labels given as *argument*, sorted; raise `WrongType` if one is empty or too long, or no text."""
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise WrongType.of(argument, texts, LABELS_WANTED)
    labels = {name_of(argument, label) for label in cast("Iterable[object]", texts)}
    if "" in labels:
        raise WrongType(argument, "an empty text", LABELS_WANTED)
    return tuple(sorted(labels))


# For supervisors: names of a new session, filters of stored ones, counts

FILTER_WANTED: Final = "a `SessionFilter`, or nothing for all sessions"
EVERY_SLOT: Final = frozenset(range(SLOTS))
SLOTS_WANTED: Final = f"a `frozenset` of numbers from 0 to {SLOTS - 1}, or nothing for all slots"
LISTED_WANTED: Final = "the last of the sessions that were listed before, or nothing for the first page"


def counted(name: str, value: object) -> int:
    """Return *value* if it is a whole number from 1 on; raise `WrongType` otherwise."""
    plain = number(value)
    if type(plain) is not int or plain < 1:
        raise WrongType(name, brief(value), "a whole number from 1 on")
    return plain


def named(state: State, tenant: object, owner: object, title: object, labels: object) -> State:
    """Return *state*, of a new session, with the names and labels that the caller of `spawn` gave."""
    if (tenant, owner, title, labels) == ("", "", "", ()):
        return state
    setup = state.setup.but(tenant=name_of("tenant", tenant), owner=name_of("owner", owner))
    kept_labels = labels_of("labels", labels)
    if len(kept_labels) > MAX_LABELS:
        raise UsageError("too-many-labels", len(kept_labels), MAX_LABELS)
    return state.but(setup=setup, title=name_of("title", title), labels=kept_labels)


def filter_of(value: object) -> SessionFilter:
    """Return *value* as a filter; raise `WrongType` if it, or one of its fields, is of a wrong type."""
    if value is None:
        return ALL_SESSIONS
    if not isinstance(value, SessionFilter):
        raise WrongType.of("wanted", value, FILTER_WANTED)
    for name in ("tenant", "owner", "label"):
        if getattr(value, name) is not None:
            name_of(name, getattr(value, name))
    for name in ("at_work", "ended"):
        if getattr(value, name) is not None:
            check_flag(name, getattr(value, name))
    slots = value.slots
    if slots is not None and not (type(cast("object", slots)) is frozenset and slots <= EVERY_SLOT):
        raise WrongType("slots", brief(slots), SLOTS_WANTED)
    due = value.due_before
    if due is not None and not (type(cast("object", due)) is int and abs(due) <= INT_MAX):
        raise WrongType("due_before", brief(due), "milliseconds since 1970")
    return value


def listed_of(value: object) -> StoredSession | None:
    """Return *value*, the last session of the previous page or `None`; raise `WrongType` for anything else."""
    if value is not None and not isinstance(value, StoredSession):
        raise WrongType.of("after", value, LISTED_WANTED)
    return value


class HandleCommand(Value, gc=True):
    """Base class of commands that the handle converts, so that the machine gets another command."""


class UseModel(HandleCommand):
    """Another model, from the next turn on."""

    model: ModelChain
    """Name of the model; or names: the first is asked, the others in its place if it fails."""
    options: JsonObject = EMPTY
    """Options for the provider, without secrets and without those that say where requests go."""


class EditTools(HandleCommand):
    """Tools that are added, removed or replaced, all or none."""

    do: Literal["attach", "detach", "replace"]
    """What is done."""
    tools: tuple[object, ...]
    """To attach or replace: names under which the host knows tools; to detach: names of the session's tools."""


class AttachPlugin(HandleCommand):
    """A plugin is added as soon as no turn is open."""

    plugin: Attachable | str
    """The name under which the host knows the plugin."""


class UpdatePlugin(HandleCommand):
    """Options of a plugin are changed as soon as no turn is open."""

    plugin: str
    """Key of the plugin in the session."""
    options: Mapping[str, object]
    """The options that change."""
    pin: bool = False
    """Whether the options survive changes of the code."""


class MessageTask(HandleCommand):
    """A message to a sub-agent that runs."""

    child: str
    """Id of the sub-agent's session."""
    text: str
    """The message."""


class CancelTask(HandleCommand):
    """A sub-agent is to be stopped."""

    child: str
    """Id of the sub-agent's session."""


AnyCommand: TypeAlias = Command | ActorCommand | HandleCommand
"""What `send` of a handle takes."""
