"""`Dataset`: cases in a file of JSON lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import cast

import msgspec

from agentrail.errors import UsageError, WrongType
from agentrail.evals.cases import CASE_DECODER, Case
from agentrail.evals.pydantic_evals_file import read_cases
from agentrail.evals.replaced_file import replace_file
from agentrail.values.argument_checks import checked


class Dataset:
    """Cases with unique names, and the folder in which the files of their pasts are."""

    @checked
    def __init__(self, cases: Iterable[Case], folder: str | PathLike[str] = ".") -> None:
        self.cases = tuple(cases)
        """The cases, in order."""
        self.folder = Path(folder)
        """Folder of the files that cases name."""
        for case in self.cases:
            if not isinstance(cast("object", case), Case):
                raise WrongType.of("cases", case, "an iterable of `Case`")
        twice = [name for name, count in Counter(case.name for case in self.cases).items() if count > 1]
        if twice:
            raise UsageError("bad-case", twice[0], "another case has this name too; names are unique in a data set")

    def __iter__(self) -> Iterator[Case]:
        return iter(self.cases)

    def __len__(self) -> int:
        return len(self.cases)

    def __repr__(self) -> str:
        return f"<Dataset of {len(self)} cases>"

    @checked
    def tagged(self, tag: str) -> Dataset:
        """Return the data set of the cases that have *tag*."""
        return Dataset([case for case in self.cases if tag in case.tags], self.folder)

    @classmethod
    @checked
    def read(cls, path: str | PathLike[str]) -> Dataset:
        """Read the cases in the file *path*, one JSON object a line; raise `UsageError` that names a broken line."""
        try:
            lines = Path(path).read_bytes().splitlines()
        except OSError as error:
            raise UsageError("bad-case-file", str(path), str(error.strerror)) from None
        lines_of = dict[str, int]()
        cases = list[Case]()
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                case = CASE_DECODER.decode(line)
            except (msgspec.MsgspecError, UsageError, UnicodeDecodeError, RecursionError) as error:
                raise UsageError("bad-case-file", str(path), f"line {number}: {error}") from None
            if case.name in lines_of:
                problem = f"line {number}: the case of line {lines_of[case.name]} is called `{case.name}` too"
                raise UsageError("bad-case-file", str(path), problem)
            lines_of[case.name] = number
            cases.append(case)
        if not cases:
            raise UsageError("bad-case-file", str(path), "it has no case; each line is one, as a JSON object")
        return cls(cases, Path(path).parent)

    @classmethod
    @checked
    def from_pydantic_evals(cls, path: str | PathLike[str], prompt: Callable[[object], str] | None = None) -> Dataset:
        """Read the cases of a data set that Pydantic Evals has written to *path*, as YAML or JSON.

        Inputs are prompts, expected outputs are expected, plain metadata become tags such as `difficulty=easy`; its
        evaluators are not read. *prompt* makes the prompt of inputs that are no text.
        """
        return cls(read_cases(Path(path), prompt), Path(path).parent)

    @checked
    def write(self, path: str | PathLike[str]) -> None:
        """Write the cases to the file *path*, which is replaced if it exists; nothing of it is lost if that fails."""
        replace_file(path, b"".join(msgspec.json.encode(case) + b"\n" for case in self.cases))
