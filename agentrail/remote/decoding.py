"""Converts the answers of a host to the values that local handles return."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeVar, cast

from agentrail.api import views
from agentrail.api.session_values import Asking, Background, ChildView, Compacting, HeldCall
from agentrail.codec.values import decode
from agentrail.errors import BadData, HostFailed
from agentrail.ports.journal import About, StoredSession
from agentrail.ports.tool import Task
from agentrail.values.json import Json
from agentrail.values.usage import Usage
from agentrail.values.value import Value

T = TypeVar("T")
V = TypeVar("V", bound=Value)

_VALUES: Final[Mapping[type[Value], type[Value]]] = MappingProxyType(
    {
        views.AskingView: Asking,
        views.BackgroundView: Background,
        views.ChildShown: ChildView,
        views.CompactingView: Compacting,
        views.HeldView: HeldCall,
        views.TaskView: Task,
        views.UsageView: Usage,
    }
)
"""The class of the value for each class of nested views; the fields have the same names."""


def answer_of(kind: type[T], answer: Json) -> T:
    """Convert *answer*, the JSON of a call's answer, to *kind*; raise `HostFailed` if it does not fit."""
    try:
        return decode(kind, answer)
    except BadData as bad:
        _, at, problem = bad.args
        problem_text = f"its answer cannot be read: {at} {problem}"
        raise HostFailed(problem_text) from None


def value_of(kind: type[V], view: Value, **more: object) -> V:
    """Convert *view* back to the value that it shows, of the class *kind*; *more* are fields that the view lacks."""
    names = [name for name in kind.__struct_fields__ if hasattr(view, name)]
    return kind(**{**{name: _inner(getattr(view, name)) for name in names}, **more})


def _inner(value: object) -> object:
    """Convert a field of a view to the field of the value."""
    if isinstance(value, tuple):
        return tuple(map(_inner, cast("tuple[object, ...]", value)))
    kind = _VALUES.get(type(value)) if isinstance(value, Value) else None
    return value if kind is None else value_of(kind, cast("Value", value))


def stored_of(view: views.SessionView) -> StoredSession:
    """Return *view* as a summary of a session; its tenant is empty, because hosts do not tell it."""
    about = About("", view.owner, view.agent, view.title, view.labels, view.created)
    return StoredSession(
        view.session,
        view.records,
        due=view.due,
        at_work=view.at_work,
        ended=view.ended,
        problem=view.problem,
        about=about,
        active=view.active,
    )
