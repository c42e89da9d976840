"""`Results`: what came of an experiment; a file of JSON keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from statistics import fmean
from typing import Final

import msgspec

from agentrail.errors import UsageError
from agentrail.evals.replaced_file import replace_file
from agentrail.evals.scores import LARGEST, Score
from agentrail.values.argument_checks import checked

FORMAT: Final = 1
"""Number of the form of the file that is written."""

MOST_REPEATS: Final = 1_000_000
"""How often a case may be run."""


class ScoredRun(msgspec.Struct, frozen=True, omit_defaults=True):
    """One repetition of a case, with its scores; its records are in the session of the journal, if one was given."""

    case: str
    """Name of the case."""
    repeat: int
    """Number of the repetition, from 1."""
    session: str
    """Id of the session."""
    reply: str = ""
    """The last answer; empty if there is none."""
    scores: dict[str, Score] = {}
    """The scores, by scorer; a scorer that had nothing to say is not there."""
    errors: dict[str, str] = {}
    """Why a scorer has no score, by scorer."""
    error: str = ""
    """Why the run itself failed, so that it has no score at all; empty if it did not."""
    unrecorded: tuple[str, ...] = ()
    """Calls to which no answer was recorded, so that their tools answered with an error."""
    usd: float | None = 0.0
    """Cost of the session and of its scorers in US dollars; `None` if a price is unknown."""
    seconds: float = 0.0
    """Time from the first prompt to the last answer."""


class Results(msgspec.Struct, frozen=True):
    """All runs of an experiment, in the order of cases and repetitions."""

    name: str
    """Name of the experiment, with which the ids of its sessions begin."""
    cases: tuple[str, ...]
    """Names of all cases, also of those without a run."""
    scorers: tuple[str, ...]
    """Names of the scorers."""
    repeats: int
    """How often each case was to be run."""
    runs: tuple[ScoredRun, ...]
    """The runs."""
    stopped: str = ""
    """Why not all was run; empty if it was."""
    notes: tuple[str, ...] = ()
    """What the runs left out of the pasts of their cases, in sentences."""
    dataset: str = ""
    """What people call the data set; empty if nobody has said."""
    baseline: str = ""
    """Name of the experiment with which these results were compared; empty if they were not."""
    verdict: str = ""
    """What that came to: `worse` if a scorer is, else `better` if one is, else the verdict of all; empty if nothing."""
    format: int = FORMAT
    """Number of the form of the file."""

    @property
    def usd(self) -> float | None:
        """Cost of all runs in US dollars; `None` if that of one is unknown."""
        return total_usd(self.runs)

    @property
    def failed(self) -> int:
        """Number of runs that failed."""
        return sum(bool(run.error) for run in self.runs)

    @property
    def missing(self) -> int:
        """Number of runs that were not begun or not finished."""
        return len(self.cases) * self.repeats - len(self.runs)

    def values(self, scorer: str) -> dict[str, list[float]]:
        """Return the values that *scorer* gave, by case; cases without one are not there."""
        values: dict[str, list[float]] = {}
        for run in self.runs:
            if scorer in run.scores:
                values.setdefault(run.case, []).append(run.scores[scorer].value)
        return values

    def mean(self, scorer: str) -> float | None:
        """Return the mean of the cases' means, `None` without a score: repetitions are averaged inside a case."""
        means = [fmean(values) for values in self.values(scorer).values()]
        return fmean(means) if means else None

    def problems(self) -> Iterator[str]:
        """Yield what went wrong, a line each: failed runs, scorers that raised, calls without a recorded answer."""
        for run in self.runs:
            where = f"{run.case} #{run.repeat}"
            if run.error:
                yield f"{where}: failed: {run.error}"
            for name, problem in run.errors.items():
                yield f"{where}: no score of `{name}`: {problem}"
            for call in run.unrecorded:
                yield f"{where}: no recorded answer to {call}"

    @checked
    def write(self, path: str | PathLike[str]) -> None:
        """Write the results to the file *path*, which is replaced as a whole."""
        replace_file(path, msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")

    @staticmethod
    @checked
    def read(path: str | PathLike[str]) -> Results:
        """Read results that `write` wrote; raise `UsageError` if the file *path* has none."""
        try:
            results = _RESULTS.decode(Path(path).read_bytes())
        except OSError as error:
            problem = str(error.strerror)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            problem = str(error)
        else:
            problem = _contradiction(results)
            if not problem:
                return results
        raise UsageError("bad-evaluation", f"read the results in {path}", problem)


def _contradiction(results: Results) -> str:
    """Return why no experiment can have written *results*; empty if one can."""
    if results.format != FORMAT:
        return f"its `format` is {results.format}, and this agentrail reads {FORMAT}"
    cases = {*results.cases}
    for run in results.runs:
        if run.case not in cases:
            return f"a run is of the case `{run.case}`, which is not among the `cases`"
        if not all(abs(score.value) <= LARGEST for score in run.scores.values()):
            return f"a score of the case `{run.case}` is beyond {LARGEST:g}"
    if len(cases) < len(results.cases):
        return "two of the `cases` have one name"
    return "" if 1 <= results.repeats <= MOST_REPEATS else f"`repeats` is {results.repeats}, not 1 to {MOST_REPEATS}"


def total_usd(runs: Iterable[ScoredRun]) -> float | None:
    """Return the cost of *runs* in US dollars; `None` if that of one is unknown."""
    total = 0.0
    for run in runs:
        if run.usd is None:
            return None
        total += run.usd
    return total


_RESULTS: Final = msgspec.json.Decoder(Results)
"""Made at the import: msgspec must not learn a class in two threads at once."""
