"""`Cloud`: where the models of a cloud are, and with what its requests prove who sends them.

A provider that is no cloud has one address and a key in a header. A cloud has an address for each region or customer,
and its own credentials, which end and are renewed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias, cast
from urllib.parse import urlsplit

from agentrail.adapters.extras import need_extra
from agentrail.adapters.models.settings import address_problem
from agentrail.adapters.url_origin import origin_of
from agentrail.errors import BadModelOptions, CredentialsMissing, ExtraMissing

if TYPE_CHECKING:
    from agentrail.adapters.models.settings import Settings

Environment: TypeAlias = Callable[[str], str | None]
"""Returns the value of an environment variable, or `None`."""


LABEL: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,98}[A-Za-z0-9])?")
"""Names of regions and projects."""

LABELS: Final = frozenset({"region", "project"})
"""The options whose values become part of a host or of a path."""


class NamedCredentials(NamedTuple):
    """The credentials that environment variables and files name; a server or a program may have others."""

    where: str
    """Where they are, in words; empty if none are named."""
    configured: str
    """The region or the project that is named beside them, as in `CloudAccount.configured`."""


UNNAMED: Final = NamedCredentials("", "")
"""Stands for a machine whose environment and files name no credentials of a cloud."""


class CloudAccount(Protocol):
    """The credentials that this machine has for a cloud."""

    @property
    def configured(self) -> str:
        """The region or the project that the files of the cloud's tools name; empty if they name none."""
        ...

    @property
    def is_fresh(self) -> bool:
        """Whether the credentials hold for five minutes more. It takes no time."""
        ...

    def refresh(self) -> None:
        """Get credentials that hold, or raise a `ModelError`. It blocks, on files, servers and programs."""
        ...

    def sign(self, url: str, body: bytes, region: str, /) -> Mapping[str, str]:
        """Return the headers that prove who sends *body* to *url*, in the *region* of the options. It takes no time."""
        ...

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets in what `sign` returns."""
        ...


OpenAccount: TypeAlias = Callable[[str], CloudAccount]
"""Returns the account of a profile, without credentials yet; it takes no time."""


class Cloud(NamedTuple):
    """A cloud, as functions."""

    base_url: Callable[[str, Settings, Environment, str], str]
    """Returns the URL before the wire format's path: of a model, options, environment and the account's `configured`.

    Raise `BadModelOptions` if none of them says where.
    """
    is_own: Callable[[str, Environment], bool]
    """Whether a URL is of the cloud, or the one that the environment names: there the machine's credentials may go."""
    example_headers: Mapping[str, str]
    """The headers of the machine's credentials, as `render` shows them."""
    open_account: OpenAccount | None = None
    """`None` if a key is all there is."""
    named: Callable[[], NamedCredentials] = lambda: UNNAMED
    """Returns the credentials that environment and files name. No server is asked, and no program is run.

    Raise `CredentialsMissing` if what they name is not there. The extra need not be installed.
    """


def cloud_of(name: str) -> Cloud | None:
    """Return the cloud whose module in `agentrail.adapters.models.clouds` is called *name*; `None` if it is empty."""
    if not name:
        return None
    return cast("Cloud", import_module(f"agentrail.adapters.models.clouds.{name}").CLOUD)


def need_cloud_extra(extra: str, package: str, purpose: str) -> None:
    """Raise `CredentialsMissing` unless *package*, which the extra *extra* brings for *purpose*, is installed."""
    try:
        need_extra(extra, package, purpose)
    except ExtraMissing as missing:
        raise CredentialsMissing(str(missing)) from None


def none_for_machine(cloud: str, reason: str, to_do: str) -> CredentialsMissing:
    """Return the error for a machine without credentials of *cloud*; of *reason*, the first line alone is told."""
    first_line = next(iter(reason.splitlines()), "")
    return CredentialsMissing(f"{cloud} has none for this machine: {first_line:.300}".rstrip(".") + f"; {to_do}")


def is_at(url: str, hosts: re.Pattern[str], endpoint: str | None) -> bool:
    """Whether *url* is at one of a cloud's *hosts*, or is the *endpoint* that the environment names in their place."""
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.port in {None, 443} and hosts.fullmatch(parts.hostname or ""):
        return True
    return is_same_address(url, (endpoint or "").strip())


def check_label(option: str, value: str) -> None:
    """Raise `BadModelOptions` for a *value* that would not stay one label of a host, or one part of a path."""
    if not LABEL.fullmatch(value):
        problem = f"`{option}` is {value!r:.80}; it must be letters, digits and `-`, as the cloud names it"
        raise BadModelOptions(problem)


def named_address(variable: str, environment: Environment) -> str:
    """Return the address in the environment's *variable*, without a slash at its end; empty if there is none.

    Raise `BadModelOptions` if it is no address.
    """
    address = (environment(variable) or "").strip()
    problem = address_problem(address) if address else None
    if problem is not None:
        text = f"the environment variable `{variable}` cannot be used: {problem}"
        raise BadModelOptions(text)
    return address.rstrip("/")


def is_same_address(url: str, other: str) -> bool:
    """Whether two addresses are the same: upper case in the host and the usual port make no difference."""
    if not (url and other) or address_problem(url) or address_problem(other):
        return False
    paths = [urlsplit(address).path.rstrip("/") for address in (url, other)]
    return origin_of(url) == origin_of(other) and paths[0] == paths[1]


def unknown_address(option: str, example: str, *variables: str) -> BadModelOptions:
    """Return the error for requests of which nobody knows where they go, for want of *option*."""
    others = " or ".join(f"`{variable}`" for variable in variables)
    problem = f"nothing says where the model is: give `{option}`, as in `{{{option!r}: {example!r}}}`, or set {others}"
    return BadModelOptions(problem)
