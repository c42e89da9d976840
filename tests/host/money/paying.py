"""Sessions of tenants whose money is limited, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from functools import partial, wraps
from typing import Final, ParamSpec

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from agentrail import SessionSpec, Supervisor, open_supervisor
from agentrail.host.tenant_money import keep_money
from agentrail.journals import Balance, Expense, Journal, MemoryJournal, MoneyJournal
from agentrail.models import Price, Usage
from agentrail.ports.money import DAY_MS
from agentrail.runtime.shared.clock import Clock
from agentrail.testing import ScriptedModel, say
from tests.kit import Element

P = ParamSpec("P")

PRICE: Final = Price(input=0.0, output=100.0)
DOLLAR: Final = 10_000
"""The tokens that are written for a dollar."""

MODEL: Final = "priced"


def in_virtual_time(test: Callable[P, Coroutine[object, object, None]]) -> Callable[P, None]:
    """Run an async test on a clock that jumps."""

    @wraps(test)
    def run(*args: P.args, **named: P.kwargs) -> None:
        trio.run(partial(test, *args, **named), clock=MockClock(autojump_threshold=0))

    return run


def cost(dollars: int, text: str = "fine", delay: float = 0.0) -> Element:
    """Return an answer that costs so much, a while later."""
    return say(text, usage=Usage(output_tokens=dollars * DOLLAR), delay=delay)


def paid(
    script: Iterable[Element], most: int | None = 10, name: str = MODEL, *, repeat_last: bool = False, **fields: object
) -> SessionSpec:
    """Return a specification whose requests may cost *most* dollars each; `None`: they may cost its whole window."""
    model = ScriptedModel(script, name=name, repeat_last=repeat_last)
    options = {} if most is None else {"max_tokens": most * DOLLAR}
    return SessionSpec(model=model, model_options=options, prices={name: PRICE}, name="paid").but(**fields)


@asynccontextmanager
async def open_paying(usd: float, journal: Journal | None = None) -> AsyncGenerator[Supervisor]:
    """Open a supervisor whose tenants may spend *usd* a day each."""
    async with open_supervisor(journal=journal or MemoryJournal()) as supervisor:
        keep_money(supervisor, usd)
        yield supervisor


async def balance(journal: MoneyJournal, tenant: str = "acme", days: int = 0) -> Balance:
    """Return what *tenant* has spent today, or *days* later, once what has ended is written."""
    await wait_all_tasks_blocked()
    day = Clock().now_ms() // DAY_MS + days
    return await journal.reserve_money(Expense(tenant, day, "nobody", "nobody", 1, 10**18), 0)
