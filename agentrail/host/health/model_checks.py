"""The models that the profiles of a host name: whether there are such, and whether their keys are set."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Final

from agentrail.app.model_chain import chain_of
from agentrail.app.model_registry import check_set_up
from agentrail.app.spec import SessionSpec
from agentrail.errors import BadModelOptions, BadProfile, KeyMissing, UnknownModel
from agentrail.host.profiles import Profile
from agentrail.values.json import EMPTY, JsonObject

log: Final = logging.getLogger("agentrail.host")


def check_models(profiles: Iterable[Profile]) -> None:
    """Raise `BadProfile` for the first of *profiles* with a model of no provider; warn of those that lack a key.

    Of models that a session may be switched to, each is warned of: the profile can do without it.
    A specification that is built by a function is built for a request, and looked at then.
    """
    for profile in profiles:
        told: set[str] = set()
        for name, options in _named_in(profile):
            try:
                check_set_up(name, options)
            except (UnknownModel, KeyMissing, BadModelOptions) as problem:
                if isinstance(problem, UnknownModel) and name not in profile.models:
                    raise BadProfile(profile.id, str(problem)) from problem
                if name not in told:
                    log.warning("the profile `%s` cannot use its model `%s`: %s", profile.id, name, problem)
                told.add(name)


def _named_in(profile: Profile) -> Iterator[tuple[str, JsonObject]]:
    """Return the models that *profile* names, each with its options."""
    if isinstance(profile.spec, SessionSpec):
        yield from _of_spec(profile.spec)
    for name in profile.models:
        yield name, EMPTY


def _of_spec(spec: SessionSpec) -> Iterator[tuple[str, JsonObject]]:
    for model, options in chain_of(spec.model, spec.model_options) if spec.model else ():  # else its parent's
        if isinstance(model, str):
            yield model, options
    for agent in spec.agents.values():
        yield from _of_spec(agent)
