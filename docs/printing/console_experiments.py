"""The experiments that the pictures of the console show: two prompts of an agent for invoices, on the same cases."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
import trio

from agentrail import SessionSpec
from agentrail.evals import Case, Dataset, compare, contains, exact, experiment
from agentrail.models import EmitChunk, ModelRequest, Response
from agentrail.testing import say
from agentrail.values.usage import Usage

CASES: Final = (
    "refund-without-order", "refund-of-somebody-else", "partial-refund", "wrong-iban", "supplier-renamed",
    "credit-note-too-large", "open-items", "reminder-in-polish", "double-payment", "vat-of-three-countries",
    "early-payment", "invoice-of-last-year",
)  # fmt: skip
ANSWER: Final = "asks first"
REPEATS: Final = 5


class Clerk:
    """A model that is wrong in the first runs of some cases."""

    name = "clerk"

    def __init__(self, wrong: dict[str, int]) -> None:
        self._wrong = wrong
        """How many runs of a case go wrong, by its name."""
        self._runs: dict[str, int] = {}
        """How often each case was run, by its name."""

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:  # noqa: ARG002 - a model has it
        """Answer the prompt of a case."""
        await trio.lowlevel.checkpoint()
        prompt = request.messages[-1].text
        run = self._runs[prompt] = self._runs.get(prompt, 0) + 1
        is_right = run > self._wrong.get(prompt, 0)
        return say(ANSWER if is_right else "pays at once", usage=Usage(800, 40, cost_usd=0.0052)).response


async def write_experiments(folder: Path) -> None:
    """Write the results of two experiments into *folder*."""
    cases = Dataset([Case(name, (name,), ANSWER) for name in CASES])
    lax = {CASES[0]: 5, CASES[1]: 5, CASES[2]: 4, CASES[4]: 4, CASES[5]: 3, CASES[7]: 4, CASES[8]: 5, CASES[9]: 3}
    strict = {CASES[3]: 2, CASES[9]: 1}
    scorers = [contains, exact]
    before = await experiment(cases, SessionSpec(model=Clerk(strict)), scorers, repeats=REPEATS, name="v13")
    after = await experiment(cases, SessionSpec(model=Clerk(lax)), scorers, repeats=REPEATS, name="v14")
    before = msgspec.structs.replace(before, dataset="accounts-12")
    verdict = compare(before, after).verdict
    after = msgspec.structs.replace(after, dataset="accounts-12", baseline=before.name, verdict=verdict)
    before.write(folder / "Prompt v13.json")
    after.write(folder / "Prompt v14, shorter.json")
