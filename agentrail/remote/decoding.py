"""Makes of what a host answers the values that local handles give back."""

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
"""The class of the value that a view in another was made of; its fields have the same names."""


def answer_of(kind: type[T], answer: Json) -> T:
    """Return what a call has given, as *kind*; raise `HostFailed` if it is something else."""
    try:
        return decode(kind, answer)
    except BadData as bad:
        _, at, problem = bad.args
        problem_text = f"its answer cannot be read: {at} {problem}"
        raise HostFailed(problem_text) from None


def value_of(kind: type[V], view: Value, **more: object) -> V:
    """Return the value that a view *view* was made of; *more* are fields that it has not."""
    names = [name for name in kind.__struct_fields__ if hasattr(view, name)]
    return kind(**{**{name: _inner(getattr(view, name)) for name in names}, **more})


def _inner(value: object) -> object:
    """Return a field of a view as the value has it."""
    if isinstance(value, tuple):
        return tuple(map(_inner, cast("tuple[object, ...]", value)))
    kind = _VALUES.get(type(value)) if isinstance(value, Value) else None
    return value if kind is None else value_of(kind, cast("Value", value))


def stored_of(view: views.SessionView) -> StoredSession:
    """Return the summary of a session; its tenant is not told."""
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
