"""`Cuts`: values of a session as JSON for clients: what is long is cut, and ids of sessions are as clients see them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Final, cast

import msgspec

from agentrail.api.insight_views import FoldedView
from agentrail.api.public_ids import without_tenant
from agentrail.codec.plugin_states import Stored, data_of
from agentrail.codec.values import encode_in_order
from agentrail.core.vocabulary.tool_calls import CallList
from agentrail.errors import BadValue
from agentrail.values.json import Json, JsonObject
from agentrail.values.messages import History
from agentrail.values.untrusted_values import type_name
from agentrail.values.value import Value

TEXT: Final = 1_000
"""Characters of a text that are shown if it is cut."""

ITEMS: Final = 100
"""Items of a list or an object that are shown if it is cut."""

KEY: Final = 200
"""The most characters of a key; an object with a longer one is cut before it."""

BUDGET: Final = 16 * 1024
"""Characters from which on each further text is cut to `BRIEF` characters, and each list to none."""

BRIEF: Final = 40
NODE: Final = 8
"""Characters that each value counts beside its text."""


class Cuts:
    """Cuts what is long in one thing that is shown, and notes what it has cut."""

    def __init__(self, tenant: str, *, whole: bool, budget: int = BUDGET) -> None:
        self._tenant = tenant
        self._whole = whole
        self._left = budget
        self.made: list[FoldedView] = []

    def values(self, values: Iterable[Value], at: str) -> tuple[JsonObject, ...]:
        """Return *values* as JSON, cut."""
        return tuple([self.value(value, f"{at}.{place}") for place, value in enumerate(values)])

    def value(self, value: Value, at: str) -> JsonObject:
        """Return *value* as JSON, cut."""
        return cast("JsonObject", self.json(value, at))

    def mapping(self, value: Mapping[str, object], at: str) -> JsonObject:
        """Return a mapping as JSON, cut."""
        return cast("JsonObject", self.json(value, at))

    def json(self, value: object, at: str) -> Json:
        """Return *value*, a part of a session, as JSON, cut."""
        return cast("Json", self._cut(plain(value), at))

    def text(self, text: str, at: str) -> str:
        """Return *text*, cut, with ids of sessions as clients see them."""
        most = TEXT if self._left > 0 else BRIEF
        self._left -= min(len(text), most) + NODE
        if self._whole or len(text) <= most:
            return without_tenant(text, self._tenant)
        self.made.append(FoldedView(at, len(text)))
        return without_tenant(text[:most], self._tenant)

    def _cut(self, value: object, at: str) -> object:
        if isinstance(value, str):
            return self.text(value, at)
        self._left -= NODE
        if isinstance(value, dict):
            return self._object(cast("Mapping[str, object]", value), at)
        if isinstance(value, list):
            items = cast("list[object]", value)
            shown_items = items if self._whole else items[: ITEMS if self._left > 0 else 0]
            if len(shown_items) < len(items):
                self.made.append(FoldedView(at, len(items)))
            return [self._cut(item, f"{at}.{place}") for place, item in enumerate(shown_items)]
        return value

    def _object(self, value: Mapping[str, object], at: str) -> object:
        most = len(value) if self._whole else ITEMS
        shown_items: dict[str, object] = {}
        for key, item in value.items():
            if len(shown_items) == most or (len(key) > KEY and not self._whole):
                self.made.append(FoldedView(at, len(value)))
                break
            self._left -= len(key)
            shown_items[key] = self._cut(item, f"{at}.{key}")
        return shown_items


def plain(value: object) -> object:
    """Return *value*, a part of a session, as lists, dictionaries and scalars; of a class of its own, the name."""
    match value:
        case Stored(data=data):
            return plain(data)
        case Value():
            return msgspec.json.decode(encode_in_order(value))
        case None | bool() | int() | float() | str():
            return value
        case Enum():
            return plain(value.value)
        case Mapping():
            return {str(key): plain(item) for key, item in cast("Mapping[object, object]", value).items()}
        case tuple() | list() | History() | CallList() | AbstractSet():
            return [plain(item) for item in cast("Iterable[object]", value)]
        case _:
            return _own(value)


def _own(value: object) -> object:
    """Return a value of a plugin's own class, which a journal in memory keeps as it is; its name if it is no data."""
    try:
        return plain(data_of(value))
    except BadValue:
        return type_name(value)
