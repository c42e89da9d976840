"""A look at a session is declared once: one is, in a copy of the package, and each face of a host has it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

pytestmark = pytest.mark.long

PACKAGE: Final = Path(__file__).parents[2] / "agentrail"

ADDED: Final = {
    "api/views.py": (
        "class HealthView(",
        '''class LengthView(View):
    """How long the conversation is."""

    messages: int
    """Number of messages."""


''',
    ),
    "api/operation_table.py": (
        '    HostCall(\n        "messages",',
        """    HostCall(
        "length",
        f"GET {SESSION_PATH}/length",
        "tell the length of the conversation",
        "talk",
        "observe",
        gives=views.LengthView,
    ),
""",
    ),
    "host/operations/view_calls.py": (
        "    async def messages(",
        '''    async def length(self, call: OperationCall) -> Answer:
        """Show how long the conversation is."""
        from agentrail.api.views import LengthView

        name = self._sessions.name(call.row, call.who, call.session)
        return call.view_answer(LengthView(len((await self._sessions.state(name)).history)))

''',
    ),
}
"""By module: a text that is put in, in front of another that is there once."""


def test_a_look_takes_a_row_a_view_and_a_function_and_each_face_has_it(tmp_path: Path) -> None:
    copy = tmp_path / "agentrail"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("node_modules", "__pycache__"))
    for name, (old_text, text) in ADDED.items():
        source = (copy / name).read_text(encoding="utf-8")
        assert source.count(old_text) == 1, (name, old_text)
        (copy / name).write_text(source.replace(old_text, text + old_text), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("COV", "PYTEST"))}
    ran = subprocess.run(  # noqa: S603 - a program of ours
        [sys.executable, Path(__file__).with_name("looking.py")],
        env={**environment, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    length = {"messages": 2}
    assert json.loads(ran.stdout) == [length, length, length, 404, "length"]
