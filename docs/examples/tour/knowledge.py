"""Documents: what is found for a question, by words alone and without a model.

Each passage has its citation and its place.

    [[leave.md#0]] characters 0 to 48: # Leave
    [[travel.md#1]] characters 10 to 52: ## Trains
"""

import tempfile
from pathlib import Path

import trio

from agentrail.knowledge import Knowledge

DOCUMENTS = {
    "leave.md": "# Leave\n\nEveryone has 30 days of leave a year.\n\n# Sickness\n\nCall before nine.\n",
    "travel.md": "# Travel\n\n## Trains\n\nThe second class is paid for.\n\n## Planes\n\nAsk before you book.\n",
}


async def main(folder: Path) -> None:
    async with Knowledge(folder / "handbook.sqlite") as knowledge:
        for name, text in DOCUMENTS.items():
            await knowledge.add(name, text)
        for query in ("How many days of leave do I have?", "which class in trains"):
            (passage,) = await knowledge.search(query, limit=1)
            first_line = passage.text.splitlines()[0]
            print(f"[[{passage.citation}]] characters {passage.start} to {passage.end}: {first_line}")


with tempfile.TemporaryDirectory() as folder:
    trio.run(main, Path(folder))
