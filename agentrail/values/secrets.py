"""`Secret` names a secret in options; the adapter that needs it looks up its value, which is never stored."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, final

from agentrail.values.argument_checks import checked
from agentrail.values.json import FrozenObject, Json

_TELLTALE: Final = re.compile(
    r"(?:.*[-_])?(?:(?:api|access|private|secret)[-_]?key|secret|token|password|authorization|credentials?|cookie)",
    re.IGNORECASE,
)
_FIELD: Final = "secret"


@final
class Secret(FrozenObject):
    """Name of a secret, such as an environment variable: `{"api_key": Secret("ACME_KEY")}`.

    It is a JSON object, `{"secret": "ACME_KEY"}`, so it can be stored with the options; the secret itself is not.
    """

    __slots__ = ()

    @checked
    def __init__(self, name: str) -> None:
        super().__init__({_FIELD: name})


def secret_name(value: Json) -> str | None:
    """Return the name of the secret if *value* is a `Secret` or its JSON form; `None` otherwise."""
    if isinstance(value, Mapping) and len(value) == 1:
        name = value.get(_FIELD)
        return name if isinstance(name, str) else None
    return None


def named_secret(value: Json) -> str | None:
    """Return the name of the first secret in *value*, at any depth; `None` if there is none."""
    name = secret_name(value)
    if name is not None or isinstance(value, str):
        return name
    inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return next((name for name in map(named_secret, inside) if name is not None), None)


def plain_secret(value: Json, path: str = "") -> str | None:
    """Return the path of the first plain text under a key such as "api_key", where a `Secret` belongs; else `None`."""
    if isinstance(value, Mapping):
        if secret_name(value) is not None:
            return None
        for key, item in value.items():
            item_path = f"{path}.{key}" if path else key
            if isinstance(item, str) and item and _TELLTALE.fullmatch(key):
                return item_path
            if (deeper := plain_secret(item, item_path)) is not None:
                return deeper
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            if (deeper := plain_secret(item, f"{path}[{index}]")) is not None:
                return deeper
    return None
