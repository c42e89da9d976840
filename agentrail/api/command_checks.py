"""Checks what callers give to supervisors, handles and commands: host and local handle refuse with the same words.

`HandleCommand`: commands with live objects, such as a tool or a model; the handle converts them to others that can be
stored.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import islice
from operator import is_
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, TypeVar, cast, get_args, get_type_hints

from agentrail.api.session_values import HeldCall
from agentrail.core.machine.configuration import MAX_LABELS
from agentrail.core.vocabulary.commands import (
    KILLS,
    AbortSent,
    ActorCommand,
    AttachPluginSent,
    ChangeToolsSent,
    Command,
    LabelSent,
    PromptSent,
    SteerSent,
    StopSent,
    SwitchModelSent,
    UpdatePluginSent,
)
from agentrail.core.vocabulary.state import State
from agentrail.errors import AgentrailError, BadChoice, NotJson, UsageError, WrongType
from agentrail.hooks.plugin import Attachable
from agentrail.ports.journal import ALL_SESSIONS, SLOTS, SessionFilter, StoredSession
from agentrail.ports.model import ModelChain
from agentrail.values.content import Data, File, Image, Part, Text
from agentrail.values.events.envelope import Cursor, Event
from agentrail.values.events.people import ApprovalRequired, ResultRequired
from agentrail.values.json import EMPTY, INT_MAX, JsonObject, freeze, freeze_object
from agentrail.values.stream import NOTHING_YET
from agentrail.values.tools import Err, Ok
from agentrail.values.untrusted_values import PLAIN, brief, class_name, described, number, plain_text, type_name
from agentrail.values.value import Value, quick

Choice = TypeVar("Choice", bound=str)
V = TypeVar("V", bound=Value)

_text = quick(Text)

TEXT = "the text"
PART = "a part"


PARTS_WANTED: Final = "text, or a list of `Text`, `Image`, `File` and `Data`"
"""What a prompt is made of, as an error says it."""


# Single values: each is returned as a plain one, so that no code of a subclass runs in the session


@contextmanager
def looking_at(argument: str, value: object) -> Generator[None, None, None]:
    """Raise `UsageError` if the code of the object given as *argument* raises while this is open."""
    try:
        yield
    except AgentrailError:
        raise
    except Exception as why:
        raise UsageError("argument-raised", type_name(value), argument, described(why)) from why


def text_of(argument: str, value: object) -> str:
    """Return the text given as *argument* as a plain `str`; raise `WrongType` if it is none."""
    text = plain_text(value)
    if text is None:
        raise WrongType.of(argument, value, "text")
    return text


def choice_of(argument: str, value: object, choices: Sequence[Choice]) -> Choice:
    """Return the one of *choices* that was given as *argument*; raise `BadChoice` if it is none of them."""
    text = plain_text(value)
    for choice in choices:
        if choice == text:
            return choice
    raise BadChoice.among(argument, _plain_or_words(value), choices)


def check_flag(name: str, value: object) -> None:
    """Raise `BadChoice` if *value*, the argument called *name*, is not a boolean."""
    if type(value) is not bool:
        raise BadChoice.among(name, _plain_or_words(value), ("True", "False"))


def _plain_or_words(value: object) -> object:
    """Return *value* as an error may hold it: itself if it is plain, else words for it."""
    return value if type(value) is str or type(value) in PLAIN else brief(value)


def bounded_items(argument: str, values: object, most: int, expected: str) -> Sequence[object]:
    """Return the items of the iterable given as *argument*; raise `WrongType` if it is none, or a text.

    Raise it too for more than *most* items, as an iterator may never end, and if the iterator raises.
    """
    if plain_text(values) is not None:
        raise WrongType.of(argument, values, expected)
    if type(values) is tuple or type(values) is list:
        items = cast("Sequence[object]", values)
    else:
        try:
            items = list(islice(cast("Iterable[object]", values), most + 1))
        except Exception as why:  # it is no iterable, or its code is broken
            raise WrongType.of(argument, values, expected) from why
    if len(items) > most:
        raise WrongType(argument, f"more than {most} items", expected)
    return items


def kept_text(value: object, what: str) -> str:
    """Return *value* as a plain text that can be stored; raise `UsageError` otherwise."""
    text = plain_text(value)
    if text is None:
        raise UsageError("bad-message", what, f"a `{type_name(value)}`")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UsageError("bad-message", what, "text with half a surrogate pair") from None
    return text


def command_id_of(command: object) -> str | None:
    """Return the id that the caller gave a command, as a plain text; raise `UsageError` if it cannot be stored."""
    return None if command is None else kept_text(command, "the command id")


# Commands


class _PlainFields(dict[type[Value], tuple[tuple[str, object], ...]]):
    """Cache, by class: the fields that are text, text or `None`, or a boolean, each with its type."""

    def __missing__(self, kind: type[Value]) -> tuple[tuple[str, object], ...]:
        plain = (str, str | None, bool)
        fields = self[kind] = tuple((name, hint) for name, hint in get_type_hints(kind).items() if hint in plain)
        return fields


_PLAIN_FIELDS = _PlainFields()


def with_plain_fields(message: V) -> tuple[V, int]:
    """Return *message* with plain texts in its fields, and the size of them in bytes.

    Raise `UsageError` or `BadChoice` if a field cannot be stored.

    Parts of a prompt, and JSON, are checked where they are made.
    """
    size = 0
    plain: dict[str, object] = {}
    for name, kind in _PLAIN_FIELDS[type(message)]:
        value = getattr(message, name)
        if kind is bool:
            check_flag(name, value)
        elif value is not None or kind is str:
            text = kept_text(value, f"the {name}")
            size += len(text.encode())
            if text is not value:
                plain[name] = text
    return message.but(**plain) if plain else message, size


SENT_WANTED: Final = "a command of a session, such as `CompactSent()`; for a text use `prompt`"

MADE_BY: Final[Mapping[type[Value], str]] = MappingProxyType(
    {
        PromptSent: "prompt",
        SteerSent: "steer",
        SwitchModelSent: "switch_model",
        ChangeToolsSent: "attach_tools",
        UpdatePluginSent: "update_plugin",
        AttachPluginSent: "attach_plugin",
    }
)
"""Commands that only the handle makes, because they need more than their value: by class, the method that does."""


def command_of(value: object) -> AnyCommand:
    """Return *value*, which a caller sends as a command, with plain values; raise `UsageError` if it cannot be sent.

    An input of the machine that is no command of a caller is refused, whatever its fields are.
    """
    kind: type = type(value)
    if kind in MADE_BY:
        raise WrongType.of("given", value, f"its arguments to `{MADE_BY[kind]}`")
    if kind in _HANDLE_COMMANDS:
        return _handle_command_of(cast("HandleCommand", value))
    if kind not in _COMMANDS:
        raise WrongType.of("given", value, SENT_WANTED)
    plain, _ = with_plain_fields(cast("Command | ActorCommand", value))
    command = plain if _has_plain_fields(kind) else _read_back(plain)
    match command:
        case AbortSent(kill_tools=kill_tools):
            return command.but(kill_tools=choice_of("kill_tools", kill_tools, KILLS), partial=NOTHING_YET)
        case StopSent():
            return command.but(partial=NOTHING_YET)
        case LabelSent(add=add, remove=remove, title=title):
            title = None if title is None else name_of("title", title)
            return LabelSent(labels_of("add", add), labels_of("remove", remove), title)
        case _:
            return command


@cache  # of classes of our own
def _has_plain_fields(kind: type[Value]) -> bool:
    """Whether `with_plain_fields` has checked all of a command of class *kind*; its `partial` is the machine's."""
    return {"partial", *(name for name, _ in _PLAIN_FIELDS[kind])}.issuperset(kind.__struct_fields__)


def _read_back(command: Command | ActorCommand) -> Command | ActorCommand:
    """Return *command* as it is after it was stored, with plain values; raise `UsageError` if it cannot be stored."""
    from agentrail.codec.values import read, write  # noqa: PLC0415 - a program that sends no commands need not pay for it

    with looking_at("given", command):
        return read(type(command), write(command))


def _handle_command_of(command: HandleCommand) -> HandleCommand:
    """Return *command* with plain values in all fields but those that hold live objects; raise if one is invalid."""
    command, _ = with_plain_fields(command)
    match command:
        case UseModel(options=options):
            return command.but(options=freeze_object(options))
        case EditTools(do=do, tools=tools):
            items = bounded_items("tools", tools, MAX_ITEMS, TOOLS_WANTED)
            names = [kept_text(item, "the name of a tool") for item in items] if do == "detach" else items
            return EditTools(choice_of("do", do, EDITS), tuple(names))
        case UpdatePlugin(options=options):
            return command.but(options=options_of(options))
        case _:
            return command


OPTIONS_WANTED: Final = "a mapping of names to values"


def options_of(options: object) -> Mapping[str, object]:
    """Return the options of a plugin, by name, in a plain `dict`; raise `WrongType` if they are none."""
    if not issubclass(type(options), Mapping):
        raise WrongType.of("options", options, OPTIONS_WANTED)
    mapping = cast("Mapping[object, object]", options)
    try:
        items = [(name, mapping[name]) for name in bounded_items("options", mapping, MAX_ITEMS, OPTIONS_WANTED)]
    except LookupError as why:
        raise WrongType.of("options", options, OPTIONS_WANTED) from why
    return {text_of("a name in `options`", name): value for name, value in items}


# Contents of prompts


def kept_parts(content: object) -> tuple[Part, ...]:
    """Return a caller's text or parts as a tuple of parts; raise `UsageError` if they cannot be stored."""
    text = plain_text(content)
    if text is not None:
        return (_text(kept_text(text, TEXT)),)
    return tuple(map(_kept_part, _parts(content)))


def _parts(content: object) -> Sequence[object]:
    """Return the parts in *content*, which is no text; raise `UsageError` if it is none that can be iterated over."""
    if type(content) is dict:  # it can be, but its names are no parts
        raise UsageError("bad-message", TEXT, "a `dict`")
    try:
        return bounded_items(TEXT, content, MAX_ITEMS, PARTS_WANTED)
    except WrongType as why:
        raise UsageError("bad-message", TEXT, why.args[1]) from why


def _kept_part(part: object) -> Part:
    kind = type(part)
    if kind is Text:
        return _text(kept_text(cast("Text", part).text, PART))
    if kind is Image:
        image = cast("Image", part)
        return Image(kept_text(image.media_type, "a media type"), kept_text(image.data, "an image"))
    if kind is File:
        file = File(*(kept_text(getattr(part, name), "a file") for name in File.__struct_fields__))
        if file.problem is not None:
            raise UsageError("bad-message", PART, file.problem)
        return file
    if kind is Data:
        try:
            return Data(freeze(cast("Data", part).data))
        except NotJson as error:
            raise UsageError("bad-message", PART, str(error)) from None
    raise UsageError("bad-message", PART, f"a `{type_name(part)}`")


# Arguments of methods


CURSOR_WANTED: Final = "the `cursor` of an envelope: a pair of whole numbers from 0 on, or the first of them"
POINT_WANTED: Final = "the number of a record, or the ref of a prompt"
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


def point_of(value: object, argument: str = "at") -> int | str | None:
    """Return up to where a fork has the past of its origin; raise `WrongType` if *value* is no number and no ref."""
    if value is None:
        return None
    point = number(value) if (text := plain_text(value)) is None else text
    if isinstance(point, float) or point is None or (isinstance(point, int) and abs(point) > INT_MAX):
        raise WrongType(argument, brief(value), POINT_WANTED)
    return point


def kinds_of(types: object) -> tuple[type[Event], ...]:
    """Return *types* as a tuple; raise `WrongType` if they are no iterable of classes of events."""
    event_types = bounded_items("types", types, MAX_ITEMS, TYPES_WANTED)
    if not all(isinstance(kind, type) and issubclass(kind, Event) for kind in event_types):
        raise WrongType.of("types", types, TYPES_WANTED)
    return tuple(cast("Sequence[type[Event]]", event_types))


def key_of(plugin: object) -> str:
    """Return the key of a plugin given by its key or its class; raise `WrongType` for anything else."""
    key = plain_text(plugin)
    if key is None and issubclass(type(plugin), type):
        key = class_name(cast("type", plugin))
    if key is None:
        raise WrongType.of("plugin", plugin, PLUGIN_WANTED)
    return key


def held_id(call: object, argument: str) -> str:
    """Return the id of a held call, given by itself or by its id; raise `WrongType` for anything else."""
    approval_id = plain_text(call.id if type(call) is HeldCall else call)
    if approval_id is None:
        raise WrongType.of(argument, call, HELD_WANTED)
    return approval_id


def awaited_call(call: object) -> str:
    """Return the id of a call that waits for its result, given by itself, by its event or by its id."""
    return call.ref if type(call) is ResultRequired else held_id(call, "call")


def result_of(value: object) -> Ok | Err:
    """Return the result of a call with plain values; raise `WrongType` or `UsageError` if it cannot be stored."""
    if type(value) is not Ok and type(value) is not Err:
        raise WrongType.of("result", value, "`Ok` or `Err`, as `ok(text)` makes one")
    details = None if value.details is None else freeze_object(value.details)
    return type(value)(kept_parts(value.content), details)


def shown_call(call: object) -> tuple[str, str]:
    """Return id and digest of a held call, given by itself, by its event or by its id; raise `WrongType` otherwise."""
    if type(call) is ApprovalRequired:
        return call.approval_id, call.digest
    return held_id(call, "approval_id"), call.digest if type(call) is HeldCall else ""


LONGEST_NAME: Final = 200
"""The most characters of a tenant, an owner, a title or a label."""

MAX_ITEMS: Final = 10_000
"""The most items that an iterable among the arguments of a call may have."""

HELD_WANTED: Final = "one of the calls in `reply.held`, or its id"
NAME_WANTED: Final = f"text of at most {LONGEST_NAME} characters"
LABELS_WANTED: Final = f"a list of texts of 1 to {LONGEST_NAME} characters"


def name_of(argument: str, value: object) -> str:
    """Return the text given as *argument*; raise `WrongType` if it is too long, or no text."""
    name = plain_text(value)
    if name is None or len(name) > LONGEST_NAME:
        raise WrongType(argument, brief(value), NAME_WANTED)
    return kept_text(name, f"the {argument}")


def labels_of(argument: str, texts: object) -> tuple[str, ...]:
    """Return the labels given as *argument*, sorted; raise `WrongType` if one is empty or too long, or no text."""
    labels = {name_of(argument, label) for label in bounded_items(argument, texts, MAX_ITEMS, LABELS_WANTED)}
    if "" in labels:
        raise WrongType(argument, "an empty text", LABELS_WANTED)
    return tuple(sorted(labels))


PATHS_WANTED: Final = "a list of paths, as `preview_rewind` names them"


def rewind_point_of(value: object) -> int | str:
    """Return since when changes of files are taken back; raise `WrongType` if *value* is no number and no ref."""
    point = None if value is None else point_of(value, "since")
    if point is None:
        raise WrongType("since", brief(value), POINT_WANTED)
    return point


def paths_of(files: object) -> tuple[str, ...] | None:
    """Return *files* as paths; `None` if it is `None`. Raise `WrongType` if one is no text, or if there is none."""
    if files is None:
        return None
    paths = [plain_text(path) for path in bounded_items("files", files, MAX_ITEMS, PATHS_WANTED)]
    if None in paths:
        raise WrongType.of("files", files, PATHS_WANTED)
    if not paths:
        raise WrongType("files", "an empty list", PATHS_WANTED)
    return tuple([path for path in paths if path is not None])


# For supervisors: names of a new session, filters of stored ones, counts

FILTER_WANTED: Final = "a `SessionFilter`, or nothing for all sessions"
EVERY_SLOT: Final = frozenset(range(SLOTS))
SLOTS_WANTED: Final = f"a `frozenset` of numbers from 0 to {SLOTS - 1}, or nothing for all slots"
LISTED_WANTED: Final = "the last of the sessions that were listed before, or nothing for the first page"


NO_NAMES: Final = ("", "", "", ())
"""Tenant, owner, title and labels of most sessions."""


def counted(name: str, value: object) -> int:
    """Return *value* if it is a whole number from 1 on; raise `WrongType` otherwise."""
    plain = number(value)
    if type(plain) is not int or plain < 1:
        raise WrongType(name, brief(value), "a whole number from 1 on")
    return plain


def named(state: State, tenant: object, owner: object, title: object, labels: object) -> State:
    """Return *state*, of a new session, with the names and labels that the caller of `spawn` gave."""
    if all(map(is_, (tenant, owner, title, labels), NO_NAMES)):
        return state
    names = name_of("tenant", tenant), name_of("owner", owner), name_of("title", title)
    kept_labels = labels_of("labels", labels)
    if not any((*names, kept_labels)):
        return state
    if len(kept_labels) > MAX_LABELS:
        raise UsageError("too-many-labels", len(kept_labels), MAX_LABELS)
    return state.but(setup=state.setup.but(tenant=names[0], owner=names[1]), title=names[2], labels=kept_labels)


def filter_of(value: object) -> SessionFilter:
    """Return *value* as a filter; raise `WrongType` if it, or one of its fields, is of a wrong type."""
    if value is None:
        return ALL_SESSIONS
    if type(value) is not SessionFilter:
        raise WrongType.of("wanted", value, FILTER_WANTED)
    texts = {
        name: name_of(name, getattr(value, name))
        for name in ("tenant", "owner", "label")
        if getattr(value, name) is not None
    }
    for name in ("at_work", "ended"):
        if getattr(value, name) is not None:
            check_flag(name, getattr(value, name))
    slots = value.slots
    if slots is not None and not (type(cast("object", slots)) is frozenset and slots <= EVERY_SLOT):
        raise WrongType("slots", brief(slots), SLOTS_WANTED)
    due = value.due_before
    if due is not None and not (type(cast("object", due)) is int and abs(due) <= INT_MAX):
        raise WrongType("due_before", brief(due), "milliseconds since 1970")
    return value.but(**texts) if texts else value


def listed_of(value: object) -> StoredSession | None:
    """Return *value*, the last session of the previous page or `None`; raise `WrongType` for anything else."""
    if value is None:
        return None
    if type(value) is not StoredSession:
        raise WrongType.of("after", value, LISTED_WANTED)
    return value.but(session_id=text_of("after", value.session_id))


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

_HANDLE_COMMANDS: Final = frozenset(HandleCommand.__subclasses__())
_COMMANDS: Final = frozenset(get_args(Command | ActorCommand))
"""Classes of the commands whose values the machine takes."""

EDITS: Final[tuple[Literal["attach", "detach", "replace"], ...]] = ("attach", "detach", "replace")
"""What `EditTools` does."""
TOOLS_WANTED: Final = "a tuple of tools, or of names of tools"
