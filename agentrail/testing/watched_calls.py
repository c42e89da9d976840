"""Watches what a plugin reads of tool calls: its `before_tool` is called with arguments that note each look-up.

Bytecode does not tell what a name is in: the keys of `hook.args["to"][key]` may come from a loop, a helper or a
pattern. So the hook is called some times with arguments that are made of what it has asked for so far: objects, words,
and values that it compared others with.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, KeysView, Sequence, ValuesView
from random import Random
from typing import Final, SupportsIndex, TypeAlias, cast

from agentrail.hooks.attachments import implemented
from agentrail.hooks.context import Context
from agentrail.hooks.hook_types import BeforeTool
from agentrail.hooks.plugin import AnyPlugin, Plugin
from agentrail.testing.impure_calls import refusing
from agentrail.values.json import FrozenObject, Json, freeze_object
from agentrail.values.untrusted_values import pass_interrupt

CALLS: Final = 250
"""How often the hook of one plugin is called."""

MAX_KEYS: Final = 12
"""How many keys of one object are kept at most."""

MAX_OTHERS: Final = 3
"""How many keys an object has at most, beside those that were looked up in it."""

MAX_ITEMS: Final = 2
"""How many items a list has at most."""

MAX_DEPTH: Final = 4
"""How deep objects are watched."""

MAX_VALUES: Final = 8
"""How many values of one key are kept at most, of those that it was compared with."""

MAX_OBJECTS: Final = 40
"""How many sample objects are made for one argument at most."""

OFTEN: Final = 0.8
"""The chance of each key to be in an object, and of a text to be one that it was compared with."""

Values: TypeAlias = "Callable[[str, Watched], Sequence[Json]]"
"""Returns values, one at least, for a key that is neither an object nor a list."""


class Watched:
    """What a plugin did with one value of a call: the keys that it looked up in it, and what it compared it with."""

    def __init__(self, depth: int = 0) -> None:
        self.depth = depth
        """How many objects it is in."""
        self.keys: dict[str, Watched] = {}
        """What it did with each key that it looked up."""
        self.texts: dict[str, None] = {}
        """The texts with which it compared the value, in this order."""
        self.others: Watched | None = None
        """What it did with the values of keys that it did not name; `None` unless it goes through all keys."""
        self.item: Watched | None = None
        """What it did with each item of the value; `None` unless it took one for a list."""
        self.is_hashed = False
        """Whether it looked the value up in a set or a dictionary."""

    @property
    def is_read(self) -> bool:
        """Whether it did more with the value than to pass it on."""
        return self.is_object or self.is_list or self.is_hashed or bool(self.texts)

    @property
    def is_object(self) -> bool:
        """Whether it took the value for an object."""
        return bool(self.keys) or (self.others is not None and self.others.is_read)

    @property
    def is_list(self) -> bool:
        """Whether it took the value for a list, and read items of it."""
        return self.item is not None and self.item.is_read

    def look_up(self, key: object) -> None:
        """Note that *key* was looked up."""
        if type(key) is str and key not in self.keys and len(self.keys) < MAX_KEYS and self.depth < MAX_DEPTH:
            self.keys[key] = Watched(self.depth + 1)

    def compare(self, other: object) -> None:
        """Note that the value was compared with *other*."""
        if type(other) is str and len(self.texts) < MAX_VALUES:
            self.texts.setdefault(other)

    def go_through(self) -> None:
        """Note that the plugin goes through all keys."""
        if self.others is None and self.depth < MAX_DEPTH:
            self.others = Watched(self.depth + 1)

    def go_through_items(self) -> None:
        """Note that the plugin reads items."""
        if self.item is None and self.depth < MAX_DEPTH:
            self.item = Watched(self.depth + 1)

    def parts(self) -> Iterator[Watched]:
        """Yield what it did with each part of the value."""
        yield from self.keys.values()
        yield from (part for part in (self.others, self.item) if part is not None)

    def names(self) -> Iterator[str]:
        """Yield the names of all keys in it, those of objects within it included."""
        yield from self.keys
        for part in self.parts():
            yield from part.names()

    def compared(self) -> Iterator[str]:
        """Yield the texts with which values in it were compared."""
        yield from self.texts
        for part in self.parts():
            yield from part.compared()

    def samples(self, name: str, values: Values, words: Sequence[str]) -> tuple[Json, ...]:
        """Return sample values, for the key *name*: objects and lists if it was taken for one, else those of *values*.

        Of the objects, the first has all keys; *words* are the keys if all are gone through, and none is known by name.
        """
        objects = self._objects(values, words) if self.is_object else ()
        items = self.item.samples(name, values, words)[:MAX_OBJECTS] if self.item is not None and self.is_list else ()
        return (*objects, *((item,) for item in items)) or tuple(values(name, self))

    def _objects(self, values: Values, words: Sequence[str]) -> tuple[Json, ...]:
        keys = self.keys or dict.fromkeys(words[:MAX_KEYS], self.others or Watched())
        samples = {name: inner.samples(name, values, words) for name, inner in keys.items()}
        full = {name: several[0] for name, several in samples.items()}
        changed = [{**full, name: value} for name, several in samples.items() for value in several[1:]]
        alone = [{name: value} for name, several in samples.items() for value in several[:MAX_VALUES]]
        draw = Random(0)  # noqa: S311 - no secret
        drawn = [
            {name: draw.choice(several) for name, several in samples.items() if draw.random() < OFTEN}
            for _ in range(MAX_OBJECTS)
        ]
        objects = [full]
        for group in (alone, changed, drawn):
            objects += draw.sample(group, min(len(group), MAX_OBJECTS // 3))
        return tuple(dict.fromkeys(map(freeze_object, objects)))


class WatchedCall:
    """What a plugin reads of a call."""

    def __init__(self) -> None:
        self.tool = Watched()
        """What its name was compared with."""
        self.args = Watched()
        """What was looked up in its arguments."""

    @property
    def arguments(self) -> dict[str, Watched]:
        """What it did with each argument; `value` stands for any, if it goes through all and names none."""
        others = self.args.others
        return self.args.keys or ({} if others is None or not others.is_read else {"value": others})


def watched_call(plugin: AnyPlugin, words: Sequence[str]) -> WatchedCall:
    """Return what `before_tool` of *plugin* reads of calls; *words* are texts of its code, to draw values from."""
    watched = WatchedCall()
    if BeforeTool.hook_name in implemented(plugin):
        refusing(lambda: _Watching(plugin, words, watched).run(), [])
    return watched


class _Watching:
    """Calls the hook of one plugin, each time with other arguments."""

    def __init__(self, plugin: AnyPlugin, words: Sequence[str], watched: WatchedCall) -> None:
        self._plugin = cast("Plugin[object]", plugin)
        self._words = tuple(words) or ("a",)
        """Texts of the plugin's code."""
        self._watched = watched
        """What was seen so far."""
        self._random = Random(0)  # noqa: S311 - no secret

    def run(self) -> None:
        """Call the hook `CALLS` times; an exception of it, or of `init`, ends only that call."""
        for _ in range(CALLS):
            ctx = Context()
            name = _Text.of(self._watched.tool, self._text(self._watched.tool))
            hook = BeforeTool(name=name, args=self._object(self._watched.args), call_id="c1")
            try:
                self._plugin.before_tool(hook, self._plugin.init(ctx), ctx)
            # A plugin's code may raise anything at values that it never met.
            except BaseException as error:  # noqa: BLE001, ASYNC103
                pass_interrupt(error)

    def _object(self, watched: Watched) -> FrozenObject:
        """Draw an object with most of the keys that were looked up in it."""
        names = [name for name in watched.keys if self._random.random() < OFTEN]
        items = {name: self._value(watched.keys[name]) for name in names}
        others = watched.others or Watched(watched.depth + 1)
        # Also for a pattern, which looks nothing up in an object that has too few keys
        for _ in range(self._random.randrange(MAX_OTHERS + 1)):
            items.setdefault(self._random.choice(self._words), self._value(others))
        return _Object.of(watched, items)

    def _value(self, watched: Watched) -> Json:
        """Draw a value: most often an object or a list if parts of it were read, else a text or another value."""
        weights = (6 if watched.is_object else 2, 6 if watched.is_list else 1, 3, 1)
        if watched.depth >= MAX_DEPTH:
            weights = (0, 0, 3, 1)
        (draw,) = self._random.choices((self._object, self._list, self._leaf, self._other), weights)
        return draw(watched)

    def _leaf(self, watched: Watched) -> Json:
        return _Text.of(watched, self._text(watched))

    def _other(self, _: Watched) -> Json:
        return self._random.choice((1, 1_000, True, None))

    def _list(self, watched: Watched) -> tuple[Json, ...]:
        """Draw a list with at least one item."""
        item = watched.item or Watched(watched.depth + 1)
        return _List.of(watched, [self._value(item) for _ in range(self._random.randint(1, MAX_ITEMS))])

    def _text(self, watched: Watched) -> str:
        """Draw a text: most often one that the value was compared with, else a word of the code."""
        return self._random.choice(
            tuple(watched.texts) if watched.texts and self._random.random() < OFTEN else self._words
        )


class _Object(FrozenObject):
    """An object that notes each look-up of a key."""

    __slots__ = ("watched",)
    watched: Watched
    """Where look-ups are noted."""

    @classmethod
    def of(cls, watched: Watched, items: dict[str, Json]) -> _Object:
        """Return an object of *items* that notes in *watched*."""
        noting = cls(items)
        noting.watched = watched
        return noting

    def __getitem__(self, key: str) -> Json:
        self.watched.look_up(key)
        return super().__getitem__(str(key))

    def __contains__(self, key: object) -> bool:
        self.watched.look_up(key)
        return super().__contains__(key)

    def get(self, key: str, default: object = None) -> object:  # type: ignore[override]  # with one default for all types
        self.watched.look_up(key)
        return super().get(key, cast("Json", default))

    def __iter__(self) -> Iterator[str]:
        self.watched.go_through()
        return iter([_Name.of(self.watched, name) for name in super().__iter__()])

    def __hash__(self) -> int:  # type: ignore[override]  # as of `FrozenObject`
        return hash(tuple(sorted(super().__iter__())))

    def __eq__(self, other: object) -> bool:
        return super(FrozenObject, self).__eq__(other)

    # Views of `collections.abc` look keys up by the methods above; those of `dict` do not
    def keys(self) -> KeysView[str]:  # type: ignore[override]  # as of any mapping
        return KeysView(self)

    def items(self) -> ItemsView[str, Json]:  # type: ignore[override]  # as of any mapping
        return ItemsView(self)

    def values(self) -> ValuesView[Json]:  # type: ignore[override]  # as of any mapping
        return ValuesView(self)


class _List(tuple[Json, ...]):  # noqa: SLOT001 - a tuple can have none
    """A list that notes whether its items are read."""

    watched: Watched
    """Where it is noted."""

    @classmethod
    def of(cls, watched: Watched, items: Sequence[Json]) -> _List:
        """Return a list of *items* that notes in *watched*."""
        noting = cls(items)
        noting.watched = watched
        return noting

    def __iter__(self) -> Iterator[Json]:
        self.watched.go_through_items()
        return super().__iter__()

    def __getitem__(self, index: SupportsIndex | slice) -> Json:  # type: ignore[override]  # one type for all
        self.watched.go_through_items()
        return super().__getitem__(index)


class _Text(str):
    """A text that notes with which texts it is compared."""

    __slots__ = ("watched",)
    watched: Watched
    """Where comparisons are noted."""

    @classmethod
    def of(cls, watched: Watched, text: str) -> _Text:
        """Return *text* so that it notes in *watched*."""
        noting = cls(text)
        noting.watched = watched
        return noting

    def note(self, other: object) -> None:
        """Note a comparison with *other*."""
        self.watched.compare(other)

    def __eq__(self, other: object) -> bool:
        is_equal = super().__eq__(other) is True
        # An equal text tells nothing new, and may be that of a dictionary in which this one is looked up
        if not is_equal:
            self.note(other)
        return is_equal

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        self.watched.is_hashed = True
        return super().__hash__()

    def __contains__(self, part: str) -> bool:  # type: ignore[override]  # as of `str`
        self.note(part)
        return super().__contains__(part)

    def startswith(self, prefix: str | tuple[str, ...], *bounds: SupportsIndex | None) -> bool:
        self._note_each(prefix)
        return super().startswith(prefix, *bounds)

    def endswith(self, suffix: str | tuple[str, ...], *bounds: SupportsIndex | None) -> bool:
        self._note_each(suffix)
        return super().endswith(suffix, *bounds)

    def lower(self) -> str:
        return self.of(self.watched, super().lower())

    def casefold(self) -> str:
        return self.of(self.watched, super().casefold())

    def upper(self) -> str:
        return self.of(self.watched, super().upper())

    def strip(self, chars: str | None = None, /) -> str:
        return self.of(self.watched, super().strip(chars))

    def _note_each(self, others: str | tuple[str, ...]) -> None:
        for other in others if isinstance(others, tuple) else (others,):
            self.note(other)


class _Name(_Text):
    """The name of a key, which notes other names as keys that are looked up."""

    __slots__ = ()

    def note(self, other: object) -> None:
        """Note *other* as a key of the object."""
        self.watched.look_up(other)
