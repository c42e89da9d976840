"""`blueprint`: makes a function that builds a `SessionSpec` reusable, with a name and a purpose."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, cast

from agentrail.app.spec import SPEC_WANTED, SessionSpec
from agentrail.errors import WrongType
from agentrail.hooks.plugin_checks import indirect
from agentrail.values.argument_checks import checked
from agentrail.values.untrusted_values import brief

P = ParamSpec("P")


@checked
def blueprint(name: str, *, purpose: str) -> Callable[[Callable[P, SessionSpec]], Callable[P, SessionSpec]]:
    """Return a decorator for a function that builds a `SessionSpec`: a kind of agent with *name* and *purpose*.

    Name and purpose follow the `system` of the function, so that the model reads them. What the function leaves out is
    filled in: `name`, and `description` (by which another agent chooses this one). Give your own options by `but`: they
    come before all that the blueprint says, such as `reviewer().but(model="demo")`.
    """
    for argument, text in (("name", name), ("purpose", purpose)):
        if not text.strip():
            raise WrongType(argument, brief(text), "a text that is not empty")

    def decorated(build: Callable[P, SessionSpec]) -> Callable[P, SessionSpec]:
        """Return the builder *build*, with name and purpose in its specifications."""
        if not callable(cast("object", build)) or indirect(build):
            raise WrongType("build", brief(build), "a plain function that returns a `SessionSpec`")

        @wraps(build)
        def built(*args: P.args, **kwargs: P.kwargs) -> SessionSpec:
            return _fill(build(*args, **kwargs), name, purpose)

        return built

    return decorated


def _fill(spec: SessionSpec, name: str, purpose: str) -> SessionSpec:
    """Return *spec* with name and purpose in its `system`, and with a name and a description if it has none."""
    if not isinstance(cast("object", spec), SessionSpec):
        raise WrongType.of("build", spec, SPEC_WANTED)
    identity = f"Your name: {name}\nYour purpose: {purpose}"
    return spec.but(
        name=spec.name or name,
        system=f"{spec.system}\n\n{identity}" if spec.system.strip() else identity,
        description=spec.description or purpose,
    )
