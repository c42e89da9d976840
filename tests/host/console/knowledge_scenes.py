"""An agent that cites the documents of a store, as it is told."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from agentrail import SessionSpec
from agentrail.host import Host, Profile
from agentrail.knowledge import KnowledgeFolder
from agentrail.models import ModelRequest
from agentrail.testing import ScriptedModel
from tests.host.console.scenes import LIMITS

FOLDER: Final = KnowledgeFolder(Path("knowledge").absolute())


def echo(request: ModelRequest) -> str:
    """Say what the last message says."""
    return request.messages[-1].text


SPEC: Final = SessionSpec(model=ScriptedModel([echo], repeat_last=True, name="clerk"))

knowing: Final = Host([Profile("clerk", SPEC)], limits=LIMITS, knowledge=FOLDER)
