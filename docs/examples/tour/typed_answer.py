"""A typed answer: a class says what the answer has to be, and the model is told what does not fit.

Fields and types become the schema for the model; what the class itself checks is told to the model as text.

    Invoice(number=7, total=12.5)
    the model was asked 2 times
"""

import attrs
import trio

from agentrail import SessionSpec, open_supervisor
from agentrail.testing import ScriptedModel


@attrs.frozen
class Invoice:
    """An invoice, as it is printed."""

    number: int
    total: float

    def __attrs_post_init__(self) -> None:
        if self.total <= 0:
            raise ValueError("`total` must be more than 0")


async def main() -> None:
    model = ScriptedModel(['{"number": 7, "total": -12.5}', '{"number": 7, "total": 12.5}'])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model))
        invoice = await session.ask("Read the invoice: …", returns=Invoice)
        print(invoice)
        print("the model was asked", len(model.requests), "times")


trio.run(main)
