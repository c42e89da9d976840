"""Makes the functions that turn values into JSON text, from type hints; those of a class are made at its first use.

They return text directly. To make dicts and lists first, and text of them after, would take twice as long.

A writer refuses a value that its type hint does not allow, since it could not be read back. Most writers are made with
the path of their value (*at*), so that an error can name it at no cost for values without error.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, cast

from msgspec import UNSET

from agentrail.codec.classes import Alone, ByType, Part, Written, written_by
from agentrail.codec.envelopes import row_writer
from agentrail.codec.faults import ERRORS, facts_of
from agentrail.codec.hints import MISSING, Field, fields_of, is_class
from agentrail.codec.leaves import LEAVES, wrong
from agentrail.codec.lines import IN_LINE, Writer, in_line, leaf_writer
from agentrail.codec.misfit import TAG, MisfitError, one, shortened
from agentrail.codec.shapes import SEQUENCES, Choice, Chosen, Instance, Items, Leaf, Row, Shape, Table, named, shape_of
from agentrail.codec.states import CONSTANTS, MAPPINGS, SCALARS, in_order, kept
from agentrail.codec.text import from_text, to_text
from agentrail.core.vocabulary.changes import NO_CHANGE
from agentrail.core.vocabulary.options import Options
from agentrail.errors import AgentrailError
from agentrail.hooks.ruling import NOTHING_GATHERED, START
from agentrail.values.events import EVENTS
from agentrail.values.events.envelope import Envelope, Event
from agentrail.values.events.plugins import UnknownEvent
from agentrail.values.json import Json
from agentrail.values.messages import History
from agentrail.values.stream import NOTHING_YET
from agentrail.values.usage import NOTHING_USED

KNOWN_EVENTS: Final = frozenset(cls.__name__ for cls in EVENTS)

_VOID: Final = (
    *(None, False, 0, 0.0, "", (), frozenset[object]()),
    *(NO_CHANGE, NOTHING_GATHERED, NOTHING_USED, NOTHING_YET, START),
)
_IN_FULL: Final = frozenset[type[object]]({Options})
"""Classes whose fields are written even at their defaults, because a later version may change those defaults."""

_made: Final[dict[tuple[type[object], bool], Written]] = {}
_facts: Final[dict[type[object], Writer]] = {}
_by_type: Final[dict[type[object], Writer]] = {}


def write(found: object) -> str:
    """Return *found* as JSON text; an instance of a class is written with the name of its class."""
    kind = type(found)
    writer = _by_type.get(kind)
    if writer is None:
        writer = _by_type[kind] = _for_type(kind)
    return writer(found)


def writer_for(hint: object, at: str = "") -> Writer:
    """Return the function that writes a value of type *hint*; *at* is the value's path, for errors."""
    try:
        return _for_shape(shape_of(hint), at)
    except MisfitError as misfit:
        misfit.under(at)
        raise


def is_void(default: object) -> bool:
    """Whether *default* need not be written: `UNSET`, or an empty or zero value, which no later version changes."""
    if default is UNSET:
        return True
    if isinstance(default, History | Mapping):
        return not default
    return any(type(default) is type(void) and default == void for void in _VOID)


def omitted(cls: type[object], field: Field) -> bool:
    """Whether *field* of *cls* is left out of the JSON when it has its default."""
    return cls not in _IN_FULL and is_void(field.default)


def _for_type(kind: type[object]) -> Writer:
    if kind in SCALARS or issubclass(kind, Enum):
        return writer_for(kind)
    if is_class(kind):
        return _instance(kind, tagged=True)
    if kind is tuple or kind is list or kind in SEQUENCES:
        return _array(write, "", frozenset({kind}))
    if kind is frozenset:
        return _frozenset(write, "")
    if kind is dict or kind in MAPPINGS:
        return _table(write, "")
    if issubclass(kind, AgentrailError):
        return _error("")
    raise MisfitError("", f"is {one(kind)}, which has no form in JSON")


def _for_shape(shape: Shape, at: str) -> Writer:
    match shape:
        case Leaf.STATE:
            return _state(at)
        case Leaf.ERROR:
            return _error(at)
        case Leaf():
            return leaf_writer(shape, at)
        case Chosen():
            return _chosen(shape, at)
        case Items(container=container, item=item):
            if item is Envelope:
                return row_writer(writer_for(Envelope), writer_for(Event, ".event"), at)
            if container is frozenset:
                return _frozenset(writer_for(item), at)
            return _array(writer_for(item), at, frozenset({container, tuple}))
        case Row(items=items):
            return _row(tuple(writer_for(item, f"[{place}]") for place, item in enumerate(items)), at)
        case Table(item=item):
            return _table(writer_for(item), at)
        case Instance() | Choice():
            return _one_of(Writers(shape), at)


def _state(at: str) -> Writer:
    def write_state(found: object) -> str:
        try:
            return to_text(kept(found))
        except MisfitError as misfit:
            misfit.under(at)
            raise

    return write_state


def _error(at: str) -> Writer:
    def write_error(found: object) -> str:
        kind = type(found)
        if not isinstance(found, AgentrailError) or ERRORS.get(kind.__name__) is not kind:
            raise wrong(at, found, "an error of ours")
        try:
            facts = (_facts.get(kind) or _make_facts(type(found)))(found.args)
        except MisfitError as misfit:
            misfit.under(at)
            raise
        return f'{{"error":"{kind.__name__}","facts":{facts}}}'

    return write_error


def _make_facts(cls: type[AgentrailError]) -> Writer:
    """Make, and store in `_facts`, the function that writes the arguments of *cls*."""
    hints = facts_of(cls)
    shape = Items(tuple, Json) if hints is None else Row(hints)
    _facts[cls] = rule = _for_shape(shape, ".facts")
    return rule


def _chosen(shape: Chosen, at: str) -> Writer:
    written = {(type(means), means): to_text(cast("Json", plain)) for plain, means in shape.options}

    def write_chosen(found: object) -> str:
        try:
            return written[type(found), found]
        except (KeyError, TypeError):
            raise wrong(at, found, named(shape)) from None

    return write_chosen


def _array(write_item: Writer, at: str, containers: frozenset[type[object]]) -> Writer:
    def write_array(found: object) -> str:
        if type(found) not in containers:
            raise wrong(at, found, "a tuple")
        written: list[str] = []
        try:
            for item in cast("tuple[object, ...]", found):
                written.append(write_item(item))  # noqa: PERF401 - for an error, its length is the index
        except MisfitError as misfit:
            misfit.under(f"{at}[{len(written)}]")
            raise
        return f"[{','.join(written)}]"

    return write_array


def _frozenset(write_item: Writer, at: str) -> Writer:
    def write_frozenset(found: object) -> str:
        if type(found) is not frozenset:
            raise wrong(at, found, "a frozenset")
        try:
            return to_text(in_order(from_text(write_item(item)) for item in cast("frozenset[object]", found)))
        except MisfitError as misfit:
            misfit.under(f"{at}[]")
            raise

    return write_frozenset


def _row(writers: tuple[Writer, ...], at: str) -> Writer:
    def write_row(found: object) -> str:
        if type(found) is not tuple:
            raise wrong(at, found, "a tuple")
        items = cast("tuple[object, ...]", found)
        if len(items) != len(writers):
            raise MisfitError(at, f"holds {len(items)} things where {len(writers)} are wanted")
        try:
            written = [write_item(item) for write_item, item in zip(writers, items, strict=True)]
        except MisfitError as misfit:
            misfit.under(at)
            raise
        return f"[{','.join(written)}]"

    return write_row


def _table(write_item: Writer, at: str) -> Writer:
    write_key = leaf_writer(Leaf.TEXT, "")

    def write_table(found: object) -> str:
        if not isinstance(found, Mapping):
            raise wrong(at, found, "a mapping")
        written: list[str] = []
        key: object = None
        try:
            for key, item in cast("Mapping[object, object]", found).items():
                written.append(f"{write_key(key)}:{write_item(item)}")
        except MisfitError as misfit:
            misfit.under(f"{at}[{shortened(repr(key))}]")
            raise
        return f"{{{','.join(written)}}}"

    return write_table


class Writers(dict[type[object], Writer]):
    """Writers of the values of *shape*, by the value's type; each is made at its first use."""

    def __init__(self, shape: Instance | Choice) -> None:
        super().__init__()
        self._shape = shape
        self._tagged = isinstance(shape, Choice) and shape.tagged
        self._all = shape.shapes if isinstance(shape, Choice) else (shape,)
        self._shapes = {kind: each for each in reversed(self._all) for kind in _types_of(each)}
        if isinstance(shape, Choice) and shape.optional:
            self[type(None)] = _write_nothing

    def __missing__(self, kind: type[object]) -> Writer:
        shape = self._shapes.get(kind)
        if shape is None:
            return self._otherwise()
        writer = _instance(shape.cls, tagged=self._tagged) if isinstance(shape, Instance) else _for_shape(shape, "")
        self[kind] = writer = _untagged(writer) if self._tagged and kind in MAPPINGS else writer
        return writer

    def _otherwise(self) -> Writer:
        """Return the writer for a value of a type that is not in the shape: an error's writer, or one that refuses."""
        if Leaf.ERROR in self._all:
            return _error("")

        def refuse(found: object) -> str:
            raise wrong("", found, named(self._shape))

        return refuse


def _write_nothing(_: object) -> str:
    return "null"


def _one_of(writers: Writers, at: str) -> Writer:
    def write_one(found: object) -> str:
        try:
            return writers[type(found)](found)
        except MisfitError as misfit:
            misfit.under(at)
            raise

    return write_one


def _untagged(write_mapping: Writer) -> Writer:
    def write_untagged(found: object) -> str:
        if TAG in cast("Mapping[str, object]", found):
            raise MisfitError("", f"has the key `{TAG}`, which would name a class")
        return write_mapping(found)

    return write_untagged


def _instance(cls: type[object], *, tagged: bool) -> Writer:
    return _write_unknown if cls is UnknownEvent else _written(cls, tagged=tagged)


def _write_unknown(found: object) -> str:
    """Write an event of a newer version as it was read, or as an `UnknownEvent` if it would look like a known one."""
    event = cast("UnknownEvent", found)
    body = cast("Mapping[str, Json]", _body(event.body))
    if _kind(event.kind) in KNOWN_EVENTS or TAG in body:
        return _written(UnknownEvent, tagged=True)(found)
    return to_text({TAG: event.kind, **body})


_kind: Final = LEAVES[Leaf.TEXT](".kind")
_body: Final = LEAVES[Leaf.OBJECT](".body")


def _types_of(shape: Shape) -> tuple[type[object], ...]:
    """Return the Python types that values of *shape* have."""
    match shape:
        case Leaf():
            return _LEAF_TYPES[shape]
        case Chosen(options=options):
            return tuple({type(means) for _, means in options})
        case Items(container=container):
            return (container, tuple) if container in SEQUENCES else (container,)
        case Row():
            return (tuple,)
        case Table():
            return (*MAPPINGS, dict)
        case Instance(cls=cls):
            return (cls,)
        case Choice(shapes=shapes):
            return tuple(kind for each in shapes for kind in _types_of(each))


_LEAF_TYPES: Final[Mapping[Leaf, tuple[type[object], ...]]] = {
    Leaf.NOTHING: (type(None),),
    Leaf.BOOL: (bool,),
    Leaf.INT: (int,),
    Leaf.FLOAT: (float, int),
    Leaf.TEXT: (str,),
    Leaf.JSON: (*MAPPINGS, dict, tuple, list, str, int, float, bool),
    Leaf.OBJECT: (*MAPPINGS, dict),
    Leaf.STATE: (),
    Leaf.ERROR: (),
    Leaf.UNSET: (),
}


def _written(cls: type[object], *, tagged: bool) -> Written:
    """Return the function that writes instances of *cls*, with its name if *tagged*; it is made once."""
    made = _made.get((cls, tagged))
    if made is None:
        head = {**({TAG: cls.__name__} if tagged else {}), **CONSTANTS.get(cls, {})}
        made = _made[cls, tagged] = written_by([_part(cls, field) for field in fields_of(cls)], head)
    return made


def _part(cls: type[object], field: Field) -> Part:
    default = field.default if omitted(cls, field) else MISSING
    try:
        return Part(field.name, _how(shape_of(field.hint), f".{field.name}"), default)
    except MisfitError as misfit:
        misfit.under(f".{field.name}")
        raise


def _how(shape: Shape, at: str) -> Alone | ByType:
    """Return how a field of *shape* is written, whole or item by item; *at* is the field's path, for errors."""
    if isinstance(shape, Items) and shape.container is not frozenset and shape.item is not Envelope:
        each, holders = shape_of(shape.item), frozenset[type[object]]({shape.container, tuple})
    else:
        each, holders = shape, frozenset[type[object]]()
    if isinstance(each, Instance) or (isinstance(each, Choice) and not IN_LINE.issuperset(each.shapes)):
        return ByType(Writers(each), holders)
    return Alone(_for_shape(shape, at), in_line(shape))
