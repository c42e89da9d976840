"""The scorers that ship, except `judge`: each reads one run, and asks nobody."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final, cast

import msgspec
from typing_extensions import TypeForm

from agentrail.errors import UsageError
from agentrail.evals.call_matching import Arguments, Order, match_share
from agentrail.evals.calls import is_same_json
from agentrail.evals.runs import Run
from agentrail.evals.scores import Score, Scorer, scorer
from agentrail.models import JsonObject
from agentrail.tools import ToolSpec, validator_for
from agentrail.values.argument_checks import checked

SHOWN: Final = 200
"""The most characters of a reply that a reason quotes."""


def _json_of(text: str) -> object:
    """Return the JSON that *text* is; `None` if it is none, as for the word `null`."""
    try:
        return cast("object", json.loads(text))
    except ValueError:
        return None


@scorer
def exact(run: Run) -> Score | None:
    """Whether the reply is the expected one: the same text but for spaces around it, or the same JSON."""
    expected = run.case.expected
    if expected is None:
        return None
    is_equal = (
        run.reply.strip() == expected.strip()
        if isinstance(expected, str)
        else is_same_json(_json_of(run.reply), expected)
    )
    return Score(float(is_equal), "" if is_equal else f"the reply is {run.reply[:SHOWN]!r}")


@scorer
def contains(run: Run) -> Score | None:
    """Which share of the expected texts, one or a list, is in the reply; upper and lower case are the same."""
    expected = run.case.expected
    texts = [expected] if isinstance(expected, str) else expected
    if not isinstance(texts, list | tuple) or not texts:
        return None
    wanted_texts = [str(text) for text in cast("list[object]", texts)]
    missing = [text for text in wanted_texts if text.casefold() not in run.reply.casefold()]
    return Score(1 - len(missing) / len(wanted_texts), f"not in the reply: {', '.join(missing)}" if missing else "")


@scorer
def matches(run: Run) -> Score | None:
    """Whether the regular expression that is expected matches somewhere in the reply."""
    expected = run.case.expected
    if not isinstance(expected, str):
        return None
    is_match = re.search(expected, run.reply) is not None
    return Score(float(is_match), "" if is_match else f"the reply is {run.reply[:SHOWN]!r}")


@checked
def fits(form: TypeForm[object] | Mapping[str, object]) -> Scorer:
    """Return the scorer whether the reply is JSON that fits a type, such as a dataclass, or a JSON Schema."""
    if isinstance(form, Mapping):
        schema = cast("JsonObject", form)
        problem_of = validator_for(ToolSpec("fits", "", schema))

        def fits_schema(run: Run) -> Score:
            """Check the reply by the schema."""
            answer = _json_of(run.reply)
            problem = problem_of(cast("JsonObject", answer)) if isinstance(answer, dict) else "it is no JSON object"
            return Score(float(problem is None), problem or "")

        return Scorer("fits", fits_schema)
    try:
        decoder = msgspec.json.Decoder(form)
    except TypeError as error:
        raise UsageError("bad-evaluation", "score by a type", f"{form!r} is none that JSON can have: {error}") from None

    def fits_type(run: Run) -> Score:
        """Check the reply by the type."""
        try:
            decoder.decode(run.reply)
        except (msgspec.MsgspecError, UnicodeError) as error:
            return Score(0.0, str(error))
        return Score(1.0)

    return Scorer("fits", fits_type)


@checked
def calls_match(order: Order = "in order", arguments: Arguments = "named") -> Scorer:
    """Return the scorer how well the calls match the expected ones, with partial credit; ids are not compared.

    *order* is `any`, `in order` (others may be between), `exact` (no others), or `some` (one of them is enough).
    *arguments* that count are the `named` ones, `all`, `none`, or what a function of both says, from 0 to 1.
    """
    if order not in ("any", "in order", "exact", "some"):
        raise UsageError("bad-evaluation", "match calls", f"there is no order `{order}`: any, in order, exact, some")
    if not callable(arguments) and arguments not in ("named", "all", "none"):
        raise UsageError("bad-evaluation", "match calls", f"arguments are named, all, none or a function: {arguments}")

    def match_calls(run: Run) -> Score | None:
        """Compare the calls of the run with those of its case."""
        if not run.case.calls:
            return None
        share = match_share(run.case.calls, run.calls, order, arguments)
        names = ", ".join(f"{call.name}({json.dumps(call.args, default=str)})" for call in run.calls) or "none"
        return Score(share, "" if share == 1 else f"calls: {names}"[: SHOWN * 2])

    return Scorer(f"calls_match {order}", match_calls)


@checked
def no_call(name: str = "") -> Scorer:
    """Return the scorer whether no call of the tool *name* ran; without a name, no call at all."""

    def has_no_call(run: Run) -> Score:
        """Look for a call."""
        names = [call.name for call in run.calls if not name or call.name == name]
        return Score(float(not names), f"{len(names)} calls: {', '.join(sorted(set(names)))}" if names else "")

    return Scorer(f"no_call {name}".strip(), has_no_call)


@checked
def held(name: str) -> Scorer:
    """Return the scorer whether a call of the tool *name* was held for a person."""
    return Scorer(f"held {name}", lambda run: name in run.held_tools)


@checked
def within(*, usd: float | None = None, seconds: float | None = None, rounds: int | None = None) -> Scorer:
    """Return the scorer whether a run kept to all given limits; a cost that is unknown is an error."""
    limits = {"usd": usd, "seconds": seconds, "rounds": rounds}
    if all(limit is None for limit in limits.values()):
        raise UsageError("bad-evaluation", "score limits", "`within` needs `usd`, `seconds` or `rounds`")

    def is_within(run: Run) -> Score:
        """Compare what the run took with the limits."""
        if usd is not None and run.cost is None:
            raise ValueError("the cost of the run is unknown; give prices by `SessionSpec(prices=…)`")
        amounts = {"usd": run.cost or 0.0, "seconds": run.seconds, "rounds": run.rounds}
        over = [
            f"{amounts[unit]:.4g} {unit}"
            for unit, limit in limits.items()
            if limit is not None and amounts[unit] > limit
        ]
        return Score(float(not over), f"it took {', '.join(over)}" if over else "")

    named = ", ".join(f"{unit}={limit:g}" for unit, limit in limits.items() if limit is not None)
    return Scorer(f"within {named}", is_within)
