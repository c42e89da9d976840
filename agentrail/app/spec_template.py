"""`SpecTemplate`: state and code of a session that never starts; sessions of the same specification are copies."""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from types import MappingProxyType
from typing import Final

from agentrail.app.build import new_session
from agentrail.app.model_chain import links_of
from agentrail.app.model_registry import check_options
from agentrail.app.session_code import (
    LateValidator,
    WhyNot,
    deps_here,
    environment_told,
    refuse_missing_folder,
    sources_of,
    surroundings,
)
from agentrail.app.spec import SessionSpec
from agentrail.app.subagent_code import HERE
from agentrail.core.vocabulary.state import State
from agentrail.hooks.attachments import refuse_unknown_models
from agentrail.ports.model import Model
from agentrail.ports.protocol_members import has_members
from agentrail.ports.sandbox import HidesPaths
from agentrail.runtime.resources import SessionCode

NOWHERE: Final = surroundings(SessionSpec(), HERE)
"""The surroundings of all templates, in which no tool works; those of a specification would keep it in memory."""


class SpecTemplate:
    """State and code that all sessions of a specification begin with; it does not keep the specification.

    What may have changed since is looked at for each copy: whether its folder is there, its models can be used.
    """

    __slots__ = ("_code", "_items", "_model_of", "_state")

    def __init__(self, spec: SessionSpec, model_of: Callable[[str], Model]) -> None:
        self._items = _items(spec)
        """What the state and the code were made of, to be compared by identity."""
        self._model_of = model_of
        self._state, code = new_session("", spec, model_of, shared=NOWHERE)
        code.tools = MappingProxyType(code.tools)
        self._code = code

    def fits(self, spec: SessionSpec) -> bool:
        """Whether *spec*, whose own fields are the same, still has the same items."""
        items = _items(spec)
        return len(items) == len(self._items) and all(map(is_, items, self._items))

    def session(self, session_id: str, spec: SessionSpec) -> tuple[State, SessionCode]:
        """Return the first state and the code of a new session of *spec*."""
        code, state = self._code, self._state.but(session_id=session_id)
        refuse_missing_folder(spec)
        models, around = dict(code.models), surroundings(spec, spec.working_dir)
        hook_runner = code.hook_runner.copy(WhyNot(models, self._model_of))
        copy = SessionCode(hook_runner, code.tools, models, code.services, around, LateValidator, code.prices)
        copy.compactor, copy.revision, copy.shadow = code.compactor, code.revision, code.shadow
        if code.sources:
            copy.sources = sources_of(spec)  # each says for each session whether it can be used
        for name, options in links_of(state):
            check_options(models.get(name) or self._model_of(name), options)
        if code.environment or spec.working_dir != HERE:
            tools = {name: code.tools[name, attached.revision] for name, attached in state.tools.items()}
            copy.environment = environment_told(spec, tools)
        if spec.deps is not None:
            copy.deps = deps_here(spec, code.tools.values())
        for attached in state.plugins:
            refuse_unknown_models(attached.key, hook_runner.plugin(attached), hook_runner.why_no_model)
        return state, copy


def _items(spec: SessionSpec) -> tuple[object, ...]:
    """Return what is in the lists of *spec*, and what a program can replace in that: specs of tools, hidden paths."""
    tools, model = tuple(spec.tools), spec.model
    sandbox: object = spec.sandbox
    hidden = sandbox.hidden if spec.plugins and has_members(sandbox, HidesPaths) else ()
    specs = (getattr(tool, "spec", None) for tool in tools)
    return (*tools, *specs, *spec.plugins, *spec.shadow, *hidden, model, getattr(model, "name", None))
