"""Derives the bodies of requests from the classes of commands; converts bodies to commands, and back.

Some fields of a command are not for clients, and some have other names in bodies, so the fields for clients are listed
one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeAlias, cast, get_type_hints

import msgspec

from agentrail.api.bodies import CallBody, Query
from agentrail.api.handle_commands import AnyCommand
from agentrail.values.json import Json, freeze
from agentrail.values.value import Value, defaults_of

IdKind: TypeAlias = Literal["held", "child"]
"""An id that a client sees, and the journal has another: of what waits for a person, or of a sub-agent."""

OfferKind: TypeAlias = Literal["models", "tools", "plugins"]
"""What clients name, and a program may give as objects: things that the profile of a session has by name."""


DO: Final = "do"
"""Field of bodies that stand beside others, which says what is done."""


class As(Value, gc=True):
    """How a field of a command appears in the body of a request."""

    hint: object = None
    """Type that is narrower than that of the field; `None`: the same."""
    name: str = ""
    """Name; empty: the same."""
    holds: IdKind | None = None
    """What kind of id it has, which the host translates; `None`: it stands for itself."""
    offer: OfferKind | None = None
    """What kind of thing it names; `None`: no thing."""


class Spelled(Value, gc=True):
    """A class of commands, and the class of the body or query in which clients send it."""

    command: type[AnyCommand]
    """Class of the command."""
    body: type[CallBody | Query] | None = None
    """Class of the body or query; `None`: the command has no field that clients may give."""
    fields: tuple[tuple[str, As], ...] = ()
    """Those fields of the command that clients may give, and how."""

    def read(self, body: object) -> AnyCommand:
        """Return the command that a *body* or query stands for."""
        values = {name: getattr(body, how.name or name) for name, how in self.fields}
        return cast("Callable[..., AnyCommand]", self.command)(**values)

    def encode(self, command: AnyCommand) -> dict[str, Json]:
        """Return *command* as a body or query in JSON; fields that are `None` are left out."""
        values = {how.name or name: getattr(command, name) for name, how in self.fields}
        tag = None if self.body is None else self.body.__struct_config__.tag
        return {name: freeze(value) for name, value in {DO: tag, **values}.items() if value is not None}


def spelled(
    command: type[AnyCommand],
    about: str | None = None,
    *,
    name: str | None = None,
    tag: str | None = None,
    **fields: As,
) -> Spelled:
    """Make the body class of *command*, with only these *fields*, and return both.

    *about* is the description of the body, and *name* its name; by default they are those of the command. *tag* is the
    value of the field `DO`, which tells bodies of one call apart.
    """
    hints, defaults = get_type_hints(command, include_extras=True), defaults_of(command)
    body_fields: list[tuple[str, type] | tuple[str, type, object]] = []
    for field, how in fields.items():
        hint = cast("type", hints[field] if how.hint is None else how.hint)
        place = how.name or field, hint
        body_fields.append((*place, defaults[field]) if field in defaults else place)
    body = msgspec.defstruct(
        name or f"{command.__name__.removesuffix('Sent')}Body",
        body_fields,
        bases=(CallBody,),
        namespace={"__doc__": about or command.__doc__},
        module=CallBody.__module__,
        tag=tag,
        tag_field=None if tag is None else DO,
    )
    return Spelled(command, cast("type[CallBody]", body), tuple(fields.items()))
