"""The base class of all errors, and its five subclasses, one for each answer to the question: who has to act?

An error class declares the fields that it is made with, and has the text itself, in `wording`, a template with the
names of the fields: what was attempted, what was found, what to do. Two errors of one class with the same fields are
equal, so an error can be stored as an answer and compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from inspect import Parameter, Signature, get_annotations
from typing import ClassVar, Final, TypeVar, cast

from typing_extensions import dataclass_transform


def listed(names: Iterable[str]) -> str:
    """Return *names* as one text for an error message, each in backquotes; `none` if there are no names."""
    return ", ".join(f"`{name}`" for name in names) or "none"


ALIKE: Final = 0.6
"""Similarity of two names, from 0 to 1, from which one counts as misspelt, unless the caller gives another."""


MAX_NAME: Final = 1_000
"""The most characters of a name for which a similar one is looked for."""


def nearest(name: str, names: Iterable[str], alike: float = ALIKE) -> str | None:
    """Return the most similar of *names* to *name*; `None` if none has a similarity of at least *alike*."""
    from difflib import get_close_matches  # noqa: PLC0415 - only an error needs it

    if len(name) > MAX_NAME:
        return None
    return next(iter(get_close_matches(name, list(names), 1, alike)), None)


def suggestion(name: str, names: Iterable[str], alike: float = ALIKE) -> str:
    """Return a remark that suggests the most similar of *names* to an unknown *name*; empty if none is similar."""
    near = nearest(name, names, alike)
    return f" (did you mean `{near}`?)" if near else ""


def advice(name: str, names: Iterable[str], all_of_them: str) -> str:
    """Return advice for an unknown *name*: the most similar of *names*, or else *all_of_them* and all the names."""
    sorted_names = sorted(names)
    near = nearest(name, sorted_names)
    return f"did you mean `{near}`?" if near else f"{all_of_them} {listed(sorted_names)}"


class AgentrailError(Exception):
    """Base class of all errors that agentrail raises on purpose; catch it to catch them all."""

    wording: ClassVar[str] = ""

    __match_args__: ClassVar[tuple[str, ...]] = ()
    """The names of the fields, in the order of `args`."""

    told: str = ""
    """What a host said in place of the wording, because it keeps some of the facts to itself; else empty."""

    def __init__(self, *facts: object) -> None:
        super().__init__(*facts)

    def __str__(self) -> str:
        return self.told or self._text()

    def _text(self) -> str:
        """Return the text of the error; overridden by classes whose text needs more than their template."""
        return filled(self.wording, self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AgentrailError) and type(self) is type(other) and self.args == other.args

    def __hash__(self) -> int:
        return hash((type(self).__name__, len(self.args)))


E = TypeVar("E", bound=AgentrailError)


def filled(template: str, raised: AgentrailError) -> str:
    """Return *template* with its placeholders, names or numbers, replaced by the fields of *raised*."""
    return template.format(*raised.args, **dict(zip(raised.__match_args__, raised.args, strict=False)))


MAX_SHOWN: Final = 80
"""The most characters of what a client sent that an error repeats."""

_SHORTENED: Final = cast("str", object())


def shortened() -> str:
    """Declare a field for a text that a client has sent; only its first `MAX_SHOWN` characters are kept."""
    return _SHORTENED


@dataclass_transform(eq_default=False, frozen_default=True, field_specifiers=(shortened,))
def error(cls: type[E]) -> type[E]:
    """Decorate a class of errors: its annotated fields become arguments, in this order, and properties.

    Their values are in `args` alone, so copies and pickles have them too. A class with the fields of its base needs no
    decorator. Types of fields are built-in ones: whoever reads the hints of `__init__` finds no others.
    """
    if cls.__match_args__:
        raise TypeError(f"`{cls.__name__}` has the fields of its base, and cannot have others")
    fields = [
        _parameter(name, hint, vars(cls).get(name, Parameter.empty)) for name, hint in get_annotations(cls).items()
    ]
    names = tuple([field.name for field in fields])
    cut = frozenset(name for name in names if vars(cls).get(name) is _SHORTENED)
    signature = Signature([Parameter("self", Parameter.POSITIONAL_OR_KEYWORD), *fields], return_annotation="None")

    def __init__(self: AgentrailError, *facts: object, **named: object) -> None:  # noqa: N807 - it becomes a method
        if named or len(facts) != len(names):
            facts = _bound(signature, cls, (self, *facts), named)
        if cut:
            facts = tuple([_cut(fact) if name in cut else fact for name, fact in zip(names, facts, strict=True)])
        AgentrailError.__init__(self, *facts)

    __init__.__qualname__ = f"{cls.__qualname__}.__init__"
    __init__.__module__ = cls.__module__
    __init__.__annotations__ = {field.name: field.annotation for field in fields} | {"return": "None"}
    setattr(__init__, "__signature__", signature)  # noqa: B010 - type checkers know no such attribute of a function
    properties = {name: _property(index) for index, name in enumerate(names)}
    for name, value in {"__init__": __init__, "__match_args__": names, **properties}.items():
        setattr(cls, name, value)
    return cls


def _parameter(name: str, hint: object, default: object) -> Parameter:
    required = Parameter.empty if default is _SHORTENED else default
    return Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=required, annotation=hint)


def _bound(
    signature: Signature, cls: type, args: tuple[object, ...], named: Mapping[str, object]
) -> tuple[object, ...]:
    """Return the values of all fields, in order; raise `TypeError` if the arguments do not match the fields."""
    try:
        bound = signature.bind(*args, **named)
    except TypeError as why:
        raise TypeError(f"`{cls.__name__}` cannot be made: {why}") from None
    bound.apply_defaults()
    return bound.args[1:]


def _cut(text: object) -> object:
    return f"{text[: MAX_SHOWN - 1]}…" if isinstance(text, str) and len(text) > MAX_SHOWN else text


def _property(index: int) -> property:
    def read(raised: AgentrailError) -> object:
        return cast("object", raised.args[index])

    return property(read)


class UsageError(AgentrailError):
    """The call was wrong: its caller can fix it."""


class RefusedError(AgentrailError):
    """A person, a plugin or a limit has refused; the error has their reason."""


class OutsideError(AgentrailError):
    """Something outside of agentrail failed: a model, a tool, a process."""


class InfrastructureError(AgentrailError):
    """The journal failed, or its disk or server: the operator of the program can fix it."""


class BrokenContractError(AgentrailError):
    """The code of agentrail, of a plugin or of an adapter breaks its contract; please report it to its author."""


def fresh(raised: E) -> E:
    """Return a copy of *raised*, so that each caller who gets the error has a traceback of its own."""
    return type(raised)(*raised.args)
