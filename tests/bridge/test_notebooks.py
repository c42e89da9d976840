"""Notebooks: one supervisor lives across cells, sessions are shown, and an interrupt ends a cell.

What a session shows there without a kernel is in `test_shown_sessions`.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import cast

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from tests.patience import PATIENCE

pytestmark = pytest.mark.long

OPENING = """
from agentrail import SessionSpec, aio, sync
from agentrail.testing import ScriptedModel, say, stall
supervisor = sync.open_supervisor()
session = supervisor.spawn(SessionSpec(model=ScriptedModel(["hello <b>", stall()], repeat_last=True)), "talk")
"""


def run(*cells: str, interrupt: bool = False) -> Iterator[nbformat.NotebookNode]:
    """Run the cells in a kernel, and yield each with its outputs; interrupt the last one, once it says `now`."""
    new_cell = cast("Callable[..., nbformat.NotebookNode]", nbformat.v4.new_code_cell)
    new_notebook = cast("Callable[..., nbformat.NotebookNode]", nbformat.v4.new_notebook)
    notebook = new_notebook(cells=list(map(new_cell, cells)))
    client = NotebookClient(notebook, timeout=PATIENCE, kernel_name="python3", interrupt_on_timeout=False)
    event = threading.Event()

    def hear(cell_index: int, **_: object) -> None:
        if cell_index == len(cells) - 1:
            event.set()

    client.on_cell_execute = hear
    with client.setup_kernel():
        thread = threading.Thread(target=_interrupt, args=(client, event))
        if interrupt:
            thread.start()
        for index, cell in enumerate(notebook.cells):
            yield client.execute_cell(cell, index)
        if interrupt:
            thread.join()


def _interrupt(client: NotebookClient, event: threading.Event) -> None:
    event.wait(PATIENCE)
    threading.Event().wait(1.0)  # the kernel begins with the cell by then; sooner, there would be nothing to end
    os.kill(cast("int", attrgetter("provisioner.pid")(client.km)), signal.SIGINT)


def text_of(cell: nbformat.NotebookNode) -> str:
    return "".join(output.get("text", "") for output in cell.outputs)


def test_sessions_live_across_cells_and_are_shown() -> None:
    cells = list(run(OPENING, 'print(session.ask("hi").text)', "session", "supervisor.close()\nprint('closed')"))
    assert text_of(cells[1]) == "hello <b>\n"
    (output,) = cells[2].outputs
    assert "hello &lt;b&gt;" in output["data"]["text/html"]
    assert "> hello <b>" in output["data"]["text/markdown"]
    assert text_of(cells[3]) == "closed\n"


BLOCKING = """
try:
    session.ask("hi")
    session.ask("and now")
except KeyboardInterrupt:
    print("interrupted")
"""

AWAITING = """
aio_supervisor = await aio.open_supervisor()
talk = await aio_supervisor.spawn(SessionSpec(model=ScriptedModel([stall()], repeat_last=True)))
await talk.ask("hi")
"""


def test_an_interrupt_ends_a_cell_that_blocks() -> None:
    assert text_of(list(run(OPENING, BLOCKING, interrupt=True))[1]) == "interrupted\n"


@pytest.mark.campaign
def test_an_interrupt_ends_a_cell_that_awaits() -> None:
    with pytest.raises(CellExecutionError, match=r"KeyboardInterrupt|CancelledError"):
        list(run(OPENING, AWAITING, interrupt=True))
