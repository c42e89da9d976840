"""The base class of all errors, and its five subclasses, one for each answer to the question: who has to act?

An error class declares the fields that it is made with, and has the text itself, in `wording`, a template with the
names of the fields: what was attempted, what was found, what to do. Two errors of one class with the same fields are
equal, so an error can be stored as an answer and compared.

A class of its own is for an error that a program acts on in another way than on the rest of its branch. Any other is
an error of the branch itself, such as `UsageError("unknown-turn", session, ref)`: `errors.codes` has what it says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from inspect import Parameter, Signature, get_annotations
from string import Formatter
from types import MappingProxyType
from typing import ClassVar, Final, TypeVar, cast

from typing_extensions import dataclass_transform

from agentrail.errors.codes import OUTSIDE, REFUSED, USAGE, Texts


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

    coded: ClassVar[Mapping[str, Texts]] = MappingProxyType({})
    """What errors of this very class say, by their code, which is the first of their `args`; the facts follow."""

    told: str = ""
    """What a host said in place of the wording, because it keeps some of the facts to itself; else empty."""

    def __init__(self, *facts: object) -> None:
        super().__init__(*facts)

    def __str__(self) -> str:
        return self.told or self._text()

    @cached_property
    def code(self) -> str:
        """Short name of the kind of error, such as `queue-full`; it never changes for a kind.

        A class of a program may set a `code` of its own.
        """
        if self.is_coded:
            return str(self.args[0])
        return slug(next(cls.__name__ for cls in type(self).__mro__ if cls.__module__.startswith("agentrail.errors")))

    @property
    def is_coded(self) -> bool:
        """Whether this is an error of a branch itself, with a code and the facts that errors of this code have."""
        code = self.args[0] if self.args and "coded" in vars(type(self)) else None
        texts = self.coded.get(code) if isinstance(code, str) else None
        return texts is not None and len(self.args) == 1 + len(named_in(texts.says))

    def _text(self) -> str:
        """Return the text of the error; overridden by classes whose text needs more than their template."""
        return filled(template_of(self), self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AgentrailError) and type(self) is type(other) and self.args == other.args

    def __hash__(self) -> int:
        return hash((type(self).__name__, len(self.args)))


E = TypeVar("E", bound=AgentrailError)


_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def slug(name: str) -> str:
    """Return the code of errors of the class *name*: `queue-full` for `QueueFull`."""
    return _CAPITAL.sub("-", name).lower()


def filled(template: str, raised: AgentrailError) -> str:
    """Return *template* with its placeholders, names or numbers, replaced by the fields of *raised*."""
    facts = raised.args[1:] if raised.is_coded else raised.args
    return template.format(*facts, **dict(zip(names_of_facts(raised), facts, strict=False)))


def template_of(raised: AgentrailError) -> str:
    """Return the text of *raised* with the names of facts in the place of the facts."""
    return raised.coded[raised.code].says if raised.is_coded else raised.wording


def names_of_facts(raised: AgentrailError) -> tuple[str, ...]:
    """Return the names of the facts of *raised*, in their order."""
    return named_in(template_of(raised)) if raised.is_coded else raised.__match_args__


@cache
def named_in(template: str) -> tuple[str, ...]:
    """Return the names in *template*, each once, in their order."""
    return tuple(dict.fromkeys([name for _, name, _, _ in Formatter().parse(template) if name]))


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
    shorts = frozenset(name for name in names if vars(cls).get(name) is _SHORTENED)
    signature = Signature([Parameter("self", Parameter.POSITIONAL_OR_KEYWORD), *fields], return_annotation="None")

    def __init__(self: AgentrailError, *facts: object, **named: object) -> None:  # noqa: N807 - it becomes a method
        if named or len(facts) != len(names):
            facts = _bound(signature, cls, (self, *facts), named)
        if shorts:
            facts = tuple([_cut(fact) if name in shorts else fact for name, fact in zip(names, facts, strict=True)])
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
    return cut(text) if isinstance(text, str) else text


def cut(text: str) -> str:
    """Return the first `MAX_SHOWN` characters of a *text* that a client has sent."""
    return f"{text[: MAX_SHOWN - 1]}…" if len(text) > MAX_SHOWN else text


def _property(index: int) -> property:
    def read(raised: AgentrailError) -> object:
        return cast("object", raised.args[index])

    return property(read)


class UsageError(AgentrailError):
    """The call was wrong: its caller can fix it."""

    coded = USAGE


class RefusedError(AgentrailError):
    """A person, a plugin or a limit has refused; the error has their reason."""

    coded = REFUSED


class OutsideError(AgentrailError):
    """Something outside of agentrail failed: a model, a tool, a process."""

    coded = OUTSIDE


class InfrastructureError(AgentrailError):
    """The journal failed, or its disk or server: the operator of the program can fix it."""


class BrokenContractError(AgentrailError):
    """The code of agentrail, of a plugin or of an adapter breaks its contract; please report it to its author."""


CODED: Final[tuple[type[AgentrailError], ...]] = (UsageError, RefusedError, OutsideError)
"""The branches of which some errors have a code in place of a class."""

BRANCHES: Final[Mapping[str, type[AgentrailError]]] = {code: branch for branch in CODED for code in branch.coded}
"""The class of the errors of each code."""


def kind_of(raised: BaseException) -> str:
    """Return the name of the class of *raised*; for a code in place of a class such a name: `TaskDone` for `task-done`.

    Records, problem documents and reports have it, whether or not the version that reads them has such a class.
    """
    if isinstance(raised, AgentrailError) and raised.is_coded:
        return "".join(map(str.capitalize, raised.code.split("-")))
    return type(raised).__name__


def coded_of(name: str, facts: Iterable[object]) -> AgentrailError | None:
    """Return the error with a code whose `kind_of` is *name*; `None` if there is none, or if its facts are others."""
    branch = BRANCHES.get(slug(name))
    error = None if branch is None else branch(slug(name), *facts)
    return error if error is not None and error.is_coded else None


def fresh(raised: E) -> E:
    """Return a copy of *raised*, so that each caller who gets the error has a traceback of its own."""
    return type(raised)(*raised.args)
