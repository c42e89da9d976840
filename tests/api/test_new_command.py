"""A command is added in few places: one is, in a copy of the package, and works here, at a host and in the kit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from filecmp import dircmp
from pathlib import Path
from typing import Final

import pytest

pytestmark = pytest.mark.long

PACKAGE: Final = Path(__file__).parents[2] / "agentrail"
MOST_PLACES: Final = 6

ADDED: Final = {
    "core/vocabulary/commands.py": (
        (
            "class LabelSent(",
            '''class PromoteSent(Value, tag_field=TAG):
    """`promote` was called: a queued prompt is to be the next one."""

    ref: Kept[str]
    """Id of the prompt."""


''',
        ),
        ("    | LabelSent\n", "    | PromoteSent\n"),
    ),
    "core/machine/table.py": (
        (
            "        commands.LabelSent: stays(",
            '        commands.PromoteSent: stays(phase, "the prompt is the next one, if it is still queued"),\n',
        ),
    ),
    "core/machine/prompts.py": (
        (
            "def settle(",
            '''def on_promote(draft: StepDraft, sent: commands.PromoteSent) -> None:
    """Handle `promote`: put a queued prompt in front of the others."""
    first = [prompt for prompt in draft.state.queue if prompt.ref == sent.ref]
    if not first:
        draft.refuse(UnknownPrompt(sent.ref))
        return
    draft.state.queue = (*first, *(prompt for prompt in draft.state.queue if prompt.ref != sent.ref))
    draft.answer = commands.DONE


''',
        ),
    ),
    "api/session_calls.py": (
        (
            "    # Sub-agents\n",
            '''    async def promote(self, ref: str, *, command: str | None = None) -> None:
        """Have a queued prompt be the next one."""
        await self._send(commands.PromoteSent(ref), command)

''',
        ),
    ),
    "api/operation_table.py": (
        (
            '    _command("suspend",',
            """    _command(
        "promote",
        "promote the prompt",
        "talk",
        "admin",
        spelled(commands.PromoteSent, "A queued prompt is to be the next one.", ref=As(bodies.Name)),
        raises=(errors.UnknownPrompt,),
    ),
""",
        ),
    ),
}
"""By module: texts that are put in, each in front of a text that is there once."""


def changed(compared: dircmp[str], prefix: str = "") -> list[str]:
    """Return the files in which two folders differ."""
    below = [name for folder, subdir in compared.subdirs.items() for name in changed(subdir, f"{prefix}{folder}/")]
    return [*(prefix + name for name in (*compared.diff_files, *compared.left_only, *compared.right_only)), *below]


def test_a_command_takes_few_places_and_works_everywhere(tmp_path: Path) -> None:
    copy = tmp_path / "agentrail"
    shutil.copytree(PACKAGE, copy)
    for name, texts in ADDED.items():
        module = copy / name
        source = module.read_text(encoding="utf-8")
        for old, text in texts:
            assert source.count(old) == 1, (name, old)
            source = source.replace(old, text + old)
        module.write_text(source, encoding="utf-8")
    files = changed(dircmp(PACKAGE, copy, ignore=["__pycache__"]))
    assert sorted(files) == sorted(ADDED)
    assert len(files) <= MOST_PLACES
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("COV", "PYTEST"))}
    ran = subprocess.run(  # noqa: S603 - a program of ours
        [sys.executable, Path(__file__).with_name("promoting.py")],
        env={**environment, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    queue = ["second", "first"]
    assert json.loads(ran.stdout) == [queue, queue, [204, 404, 422], "promote", True]
