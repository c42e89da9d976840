"""The page of errors: grouped by who must act, with the wording of each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from inspect import signature
from typing import Final

from agentrail.errors import (
    AgentrailError,
    BrokenContractError,
    InfrastructureError,
    OutsideError,
    RefusedError,
    UsageError,
)
from docs.printing.fields_page import summary
from docs.printing.markdown import code, joined, section

BRANCHES: Final = (UsageError, RefusedError, OutsideError, InfrastructureError, BrokenContractError)

_FACT: Final = re.compile(r"\{(\w+)(?:![rsa])?\}")


def by_branch() -> list[str]:
    """Return all errors by branch, each with its message; names in braces stand for the error's fields."""
    return joined(_branch(branch) for branch in BRANCHES)


def _branch(branch: type[AgentrailError]) -> list[str]:
    own = [_line(_placed(error, branch), summary(error.__doc__), wording(error)) for error in leaves(branch)]
    coded = [_line(code(name), f"{texts.about}.", shown(texts.says)) for name, texts in sorted(branch.coded.items())]
    return section(
        code(branch.__name__),
        [summary(branch.__doc__)],
        own,
        [f"All others are a `{branch.__name__}` themselves, told apart by their `code`:"] if coded else [],
        coded,
        level=2,
    )


def _line(name: str, about: str, says: str) -> str:
    return f"- {name}: {about} *{says}*"


def _placed(error: type[AgentrailError], branch: type[AgentrailError]) -> str:
    """Return the name of *error*, and which error it is a kind of, if that is not the branch itself."""
    kind = error.__mro__[1]
    return code(error.__name__) if kind is branch else f"{code(error.__name__)}, a {code(kind.__name__)}"


def leaves(branch: type[AgentrailError]) -> Iterator[type[AgentrailError]]:
    """Yield the errors of *branch* that come with agentrail's errors, in the order of their names."""
    for error in sorted(branch.__subclasses__(), key=lambda cls: cls.__name__):
        if error.__module__.startswith("agentrail.errors."):
            yield error
            yield from leaves(error)


def wording(error: type[AgentrailError]) -> str:
    """Return the message of *error*, with the names of its fields in braces in place of their values."""
    return shown(error.wording, tuple(signature(error).parameters))


def shown(template: str, names: Sequence[str] = ()) -> str:
    """Return *template* with the *names* of facts in braces; numbers in it are places of them."""

    def named(found: re.Match[str]) -> str:
        return f"{{{names[int(found[1])] if found[1].isdigit() else found[1]}}}"

    return _FACT.sub(named, template)
