"""Values are read in several threads at once: by each journal's reader, and in the loop."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

import agentrail
from agentrail import SessionSpec, open_supervisor
from agentrail.adapters.journals.message_index import MessageReferences
from agentrail.adapters.journals.stored_form import stored_record
from agentrail.codec.values import write
from agentrail.journals import MemoryJournal
from agentrail.testing import ScriptedModel, say

AT_ONCE: Final = """
import sys, threading
from functools import partial
from pathlib import Path
from agentrail.adapters.journals.stored_form import StoredRecord
from agentrail.codec.values import decoder, read
from agentrail.core.vocabulary.state import State
from agentrail.ports.journal import Snapshot

sys.setswitchinterval(1e-6)
texts = Path(sys.argv[1]).read_bytes().splitlines()
together = threading.Barrier(4)

def records():
    together.wait()
    for text in texts:
        read(StoredRecord, text)

def made(wanted):
    together.wait()
    decoder(wanted)

threads = [threading.Thread(target=each) for each in (records, partial(made, State), records, partial(made, Snapshot))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""
"""Reads records in two threads of a new process, while two others make decoders."""

PROCESSES: Final = 6
"""Without the lock, more than half of them ended with a segmentation fault."""


@pytest.mark.long
async def test_the_first_values_may_be_read_in_several_threads(tmp_path: Path) -> None:
    journal, places = MemoryJournal(), MessageReferences()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel([say("Good day."), say("And again.")])))
        await session.ask("hello")
        await session.ask("hello again")
        records = await journal.read(session.id, 0, 1_000)
    texts = tmp_path / "records"
    texts.write_bytes(b"\n".join(write(stored_record(record, places)) for record in records))
    command = (sys.executable, "-c", AT_ONCE, str(texts))
    processes = [subprocess.Popen(command) for _ in range(PROCESSES)]  # noqa: ASYNC220, S603 - our own program
    assert [process.wait() for process in processes] == [0] * PROCESSES


def test_each_type_that_msgspec_reads_is_learned_first() -> None:
    package = Path(agentrail.__file__).parent
    found = [
        str(path.relative_to(package))
        for path in sorted(package.rglob("*.py"))
        if any(
            re.search(r"msgspec\.(?:\w+\.)?(?:convert|decode|Decoder)\(", line) and "learned(" not in line
            for line in path.read_text().splitlines()
        )
    ]
    read_plain_values_alone = [
        "adapters/models/remote_embedder.py",
        "core/answers.py",
        "core/vocabulary/errors_as_data.py",
        "host/cluster/forwarded_events.py",
        "host/operations/call.py",
        "host/operations/record_views.py",
        "host/operations/sse_reading.py",
    ]
    learned_by_one_thread = [  # at an import, for a scorer
        "evals/checked_struct.py",
        "evals/cases.py",
        "evals/pydantic_evals_file.py",
        "evals/results.py",
        "evals/scorers.py",
    ]
    assert found == sorted([*read_plain_values_alone, *learned_by_one_thread, "values/value.py"])
