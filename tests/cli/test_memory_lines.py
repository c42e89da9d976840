"""`# Use tabs.`: a line that a person adds to a memory file."""

import os
from pathlib import Path

import pytest

from agentrail.cli.talk.memory_lines import add_to_memory, memory_line
from agentrail.errors import PathRefused
from agentrail.plugins import BLOCKED_PATHS
from tests.cli.talking import at_a_terminal


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("# Use  tabs. ", "- Use tabs."),
        ("#Use tabs.", "- Use tabs."),
        ("## Use tabs.\n", "- Use tabs."),
        ("# Heading\n\nA pasted text.", None),
        (" # Use tabs.", None),
        ("# ", ""),
        ("say # that", None),
    ],
)
def test_one_line_that_begins_with_the_mark_is_kept(typed: str, line: str | None) -> None:
    assert memory_line(typed) == line


@pytest.mark.parametrize(
    ("old", "new"),
    [(None, "- tea\n"), (b"", "- tea\n"), (b"Use tabs.", "Use tabs.\n- tea\n"), (b"a\n\n", "a\n\n- tea\n")],
)
async def test_a_line_is_added_at_the_end(tmp_path: Path, old: bytes | None, new: str) -> None:
    for path, file in (("AGENTS.md", tmp_path / "AGENTS.md"), (f"{tmp_path}/own/new.md", tmp_path / "own" / "new.md")):
        if old is not None:
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(old)
        await add_to_memory(path, tmp_path, "- tea", BLOCKED_PATHS)
        assert file.read_text() == new


async def test_no_link_out_of_the_folder_is_followed_and_no_hidden_file_is_changed(tmp_path: Path) -> None:
    folder, secret = tmp_path / "clone", tmp_path / "profile"
    folder.mkdir()
    secret.write_text("mine\n")
    (folder / ".env").write_text("KEY=1\n")
    os.link(secret, folder / "hard.md")
    for name, target in (("AGENTS.md", secret), ("CLAUDE.md", Path(".env")), ("new.md", tmp_path / "not there")):
        (folder / name).symlink_to(target)
        for path in (name, f"{folder}/{name}"):
            with pytest.raises(PathRefused):
                await add_to_memory(path, folder, "- tea", BLOCKED_PATHS)
    with pytest.raises(PathRefused):
        await add_to_memory("hard.md", folder, "- tea", BLOCKED_PATHS)
    assert (secret.read_text(), (folder / ".env").read_text()) == ("mine\n", "KEY=1\n")
    assert not (tmp_path / "not there").exists()


@pytest.mark.long
def test_a_line_is_shown_before_it_is_written_where_the_person_says(tmp_path: Path) -> None:
    work, home = tmp_path / "work", tmp_path / "home"
    for folder in (work, home):
        folder.mkdir()
    (work / "AGENTS.md").write_text("Use tabs.\n")
    args = ("chat", "--model", "demo", "--dir", str(work), "--journal", str(tmp_path / "j.db"))
    with at_a_terminal(*args, NO_COLOR="1", HOME=str(home)) as (talk, _):
        talk.sees(">\n  idle")
        talk.say("# I like \u202etea\r\r")  # Enter is hit twice
        talk.sees("Which memory file gets this line?", "\n  - I like \\u202etea\n▸ 1. AGENTS.md of this folder\n")
        talk.say("\x1b")
        talk.sees("  dropped; a text that begins with a space before # is a prompt\n>\n")
        talk.say("# I like tea\r")
        talk.sees(
            "\n  - I like tea\n▸ 1. AGENTS.md of this folder\n  2. CLAUDE.md of this folder\n  3. ~/.agents/AGENTS.md\n"
        )
        assert (work / "AGENTS.md").read_text() == "Use tabs.\n"
        talk.press("\r")
        talk.sees("  AGENTS.md has it now; sessions read it when they begin or come back\n>\n")
        talk.say("#\r")
        talk.sees("  # TEXT keeps that line in a memory file\n>\n")
        talk.say("# Of mine\r")
        talk.sees("  - Of mine\n", "AGENTS.md of this folder")
        talk.press("3\r")
        talk.sees("  ~/.agents/AGENTS.md has it now;")
        talk.say("\x1b[200~# Heading\n\nlist the files\x1b[201~\r")
        talk.sees("> # Heading\n\n  list the files\n", "idle")
    assert (work / "AGENTS.md").read_text() == "Use tabs.\n- I like tea\n"
    assert (home / ".agents" / "AGENTS.md").read_text() == "- Of mine\n"
