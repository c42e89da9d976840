"""An agent that writes what it is told into files, with snapshots; a candidate would let it write less."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from agentrail import SessionSpec
from agentrail.host import Host, Profile
from agentrail.models import ModelRequest, ToolMessage
from agentrail.sandboxes import LocalSandbox
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools.builtin import write_file
from tests.host.console.scenes import LIMITS
from tests.kit import Element
from tests.what_if.stories import Closed

WORK: Final = Path("work").absolute()
WORK.mkdir(exist_ok=True)


def answer(request: ModelRequest) -> Element:
    """Write a file of the name and the content that the last message says."""
    last = request.messages[-1]
    if isinstance(last, ToolMessage):
        return "Done."
    name, _, content = last.text.partition(" ")
    return say(calls=[call("write_file", {"path": name, "content": content})])


os.environ["AGENTRAIL_HOME"] = str(WORK.parent / "agentrail-home")  # snapshots are kept there, and not in the user's

SPEC: Final = SessionSpec(
    model=ScriptedModel([answer], repeat_last=True, name="clerk"),
    tools=[write_file],
    sandbox=LocalSandbox(WORK, snapshots=True),
    working_dir=str(WORK),
)

files: Final = Host([Profile("files", SPEC)], limits=LIMITS, candidates={"strict": [Closed("secret.txt")]})
