"""`read_cases`: the cases in a file of Pydantic Evals, as YAML or JSON. Its evaluators are code of others: not read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import msgspec

from agentrail.errors import UsageError
from agentrail.evals.cases import Case, name_of

if TYPE_CHECKING:
    import yaml

_OTHERS: Final = re.compile(r"[^A-Za-z0-9._-]+")
"""What the name of a case cannot have."""

MOST_REPEATED: Final = 1_000_000
"""The most characters that all aliases together stand for: some lines of aliases of aliases stand for any number."""

PLAIN: Final = (str, int, float, bool)
"""Types of the metadata that become tags."""


class _FileCase(msgspec.Struct):
    """A case as the file has it; what else it has, such as evaluators, is left out."""

    inputs: object
    """What the task is given."""
    name: str | None = None
    """Its name; `None` if it has none."""
    expected_output: object = None
    """What is expected; `None` if nothing is."""
    metadata: object = None
    """Whatever is noted of the case."""


class _File(msgspec.Struct):
    """A file of Pydantic Evals."""

    cases: list[_FileCase]
    """The cases."""


_FILE: Final = msgspec.json.Decoder(_File)
"""Made at the import, as that of cases."""


def read_cases(path: Path, prompt: Callable[[object], str] | None) -> Iterator[Case]:
    """Yield the cases of the file; *prompt* makes a text of inputs that are none."""
    names = set[str]()
    for number, case in enumerate(_file(path).cases, 1):
        what = f"case {number} ({case.name})" if case.name else f"case {number}"
        inputs: object = prompt(case.inputs) if prompt is not None else case.inputs
        if not isinstance(inputs, str):
            problem = f"the inputs of {what} are a `{type(inputs).__name__}`, and a prompt is a text"
            raise UsageError("bad-case-file", str(path), f"{problem}; give a function `prompt` of the inputs")
        name = _OTHERS.sub("-", case.name or name_of(inputs, number)).strip("._-")[:64]
        if not case.name and name in names:
            name = f"{name[:58]}-{number}"
        names.add(name)
        try:
            yield Case(name, (inputs,), expected=case.expected_output, tags=_tags(case.metadata))
        except UsageError as error:
            raise UsageError("bad-case-file", str(path), f"{what}: {error}") from None


def _file(path: Path) -> _File:
    import yaml  # noqa: PLC0415 - only these files need it

    try:
        text = path.read_text("utf-8")
        _check_aliases(yaml.parse(text, yaml.SafeLoader))
        file: _File = msgspec.convert(yaml.safe_load(text), _FILE.type, str_keys=True)
        return file
    except OSError as error:
        problem = str(error.strerror)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # msgspec's and Unicode's errors are `ValueError`
        problem = " ".join(str(error).split())
    raise UsageError("bad-case-file", str(path), problem)


def _check_aliases(events: Iterable[yaml.Event]) -> None:
    """Raise `ValueError` if the aliases in *events* repeat more than `MOST_REPEATED`, or one is inside its value."""
    import yaml  # noqa: PLC0415 - as above

    length, repeated = 0, 0
    lengths = dict[str | None, int]()
    open_values = list[tuple[str | None, int]]()
    for event in events:
        match event:
            case yaml.AliasEvent(anchor=anchor):
                if any(anchor == name for name, _ in open_values):
                    raise ValueError(f"the value of the anchor `{anchor}` has an alias of itself")
                repeated += lengths.get(anchor, 0)
                length += lengths.get(anchor, 0)
                if repeated > MOST_REPEATED:
                    raise ValueError(f"its aliases repeat more than {MOST_REPEATED} characters")
            case yaml.CollectionStartEvent(anchor=anchor):
                open_values.append((anchor, length))
                length += 1
            case yaml.CollectionEndEvent():
                anchor, before = open_values.pop()
                lengths[anchor] = length - before
            case yaml.ScalarEvent(anchor=anchor, value=value):
                lengths[anchor] = 1 + len(value)
                length += lengths[anchor]
            case _:
                pass


def _tags(metadata: object) -> tuple[str, ...]:
    """Return the plain metadata as words, such as `difficulty=easy`."""
    if not isinstance(metadata, Mapping):
        return ()
    fields = cast("Mapping[object, object]", metadata)
    return tuple(f"{key}={value}" for key, value in fields.items() if isinstance(value, PLAIN))
