"""Skills and memory files on disk: folders of this machine, links, pipes, and names with line ends."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentrail import SessionSpec, open_supervisor
from agentrail.hooks.ruling import Section
from agentrail.models import ToolMessage
from agentrail.sandboxes import LocalSandbox
from agentrail.testing import ScriptedModel, call, say
from tests.runtime.test_skills import HEAD, skill


async def test_folders_of_this_machine_are_read_but_not_through_links_that_lead_out(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    here, outside, secret = tmp_path / "here", tmp_path / "skills", tmp_path / "secret"
    for folder in (
        here,
        outside / "sewing",
        outside / "odd\nname",
        outside / "piped",
        outside / ".git",
        secret / "leak",
    ):
        folder.mkdir(parents=True)
    (outside / "sewing" / "SKILL.md").write_bytes(skill("sewing"))
    (outside / "odd\nname" / "SKILL.md").write_bytes(skill("odd"))
    (outside / "sewing" / "link.md").symlink_to(secret / "leak" / "SKILL.md")
    (secret / "leak" / "SKILL.md").write_bytes(skill("leak"))
    (outside / "leak").symlink_to(secret / "leak")
    (outside / "alias").symlink_to(outside / "sewing")
    os.mkfifo(outside / "piped" / "SKILL.md")
    calls = [call("read_skill", {"name": "sewing"}), call("read_skill", {"name": "sewing", "path": "link.md"})]
    spec = SessionSpec(
        model=ScriptedModel([say(calls=calls), "done"]), working_dir=str(here), skills=[str(outside)], environment=False
    )
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec, "s")
        await session.ask("sew")
        first, second = [message.text for message in session.messages() if isinstance(message, ToolMessage)]
        assert session.inspect().sections == (Section("skills", f"{HEAD}- sewing: Sews.", "skills"),)
    assert first.startswith("---\nname: sewing\n")
    assert "its folder" not in first
    assert "refused" in second
    (line,) = caplog.messages
    assert "\n" not in line
    assert [name for name in ("alias", "leak", "odd\\nname", "piped") if name in line] == [
        "alias",
        "leak",
        "odd\\nname",
        "piped",
    ]


async def test_memory_files_of_the_sandbox_and_of_this_machine_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    sandbox = LocalSandbox(tmp_path / "here")
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "AGENTS.md").write_text("Use metres.")
    (tmp_path / "own.md").write_text("Be brief.")
    paths = ("AGENTS.md", "~/own.md", f"{tmp_path}/missing/AGENTS.md")
    skills = (f"{tmp_path}/missing/skills", "skills")
    spec = SessionSpec(
        model=(model := ScriptedModel(["hi"])), sandbox=sandbox, memory=paths, skills=skills, environment=False
    )
    async with open_supervisor() as supervisor:
        await (await supervisor.spawn(spec)).ask("hi")
    assert dict(model.requests[0].background) == {"AGENTS.md": "Use metres.", "~/own.md": "Be brief."}
    assert caplog.messages == []
