"""Converts the answers of a host to the values that local handles return."""

from __future__ import annotations

from typing import TypeVar, cast

import msgspec

from agentrail.api import views
from agentrail.codec.values import decode
from agentrail.errors import BadData, HostFailed
from agentrail.ports.journal import About, StoredSession
from agentrail.values.json import Json
from agentrail.values.value import Value, learned

T = TypeVar("T")
V = TypeVar("V", bound=Value)


def answer_of(kind: type[T], answer: Json) -> T:
    """Convert *answer*, the JSON of a call's answer, to *kind*; raise `HostFailed` if it does not fit."""
    try:
        return decode(kind, answer)
    except BadData as bad:
        _, at, problem = bad.args
        problem_text = f"its answer cannot be read: {at} {problem}"
        raise HostFailed(problem_text) from None


def value_of(kind: type[V], view: object) -> V:
    """Convert a view, or the fields of one, back to the value that it shows, of the class *kind*."""
    return cast("V", msgspec.convert(view, learned(kind), from_attributes=True))


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
