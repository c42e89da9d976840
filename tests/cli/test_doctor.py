"""`agentrail doctor`: what it says of a machine on which something is missing."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import tomllib
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

import pytest
import trio

from agentrail import SessionSpec, open_supervisor
from agentrail.adapters.processes import SAFE_PATH
from agentrail.adapters.sandboxes import bubblewrap
from agentrail.adapters.search_services import SERVICES
from agentrail.cli.reports.doctor import EXTRAS
from agentrail.journals import SqliteJournal, export_session
from agentrail.models import PROVIDERS
from agentrail.testing import ScriptedModel
from tests.cli.calling import subcommand
from tests.cli.test_cloud_check import without_clouds

main = subcommand("doctor")

COMMANDS: Final = "CREATE INDEX record_by_command on record (session, command) where command is not null"

SECRET: Final = "sk-none-may-see-it"


class Usage(NamedTuple):
    """What `shutil.disk_usage` returns."""

    total: int
    used: int
    free: int


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has a sandbox, and neither keys, clouds nor a journal."""
    without_clouds(monkeypatch, tmp_path)
    for provider in PROVIDERS.values():
        for key in provider.keys:
            monkeypatch.delenv(key, raising=False)
    for service in SERVICES.values():
        for key in service.keys:
            monkeypatch.delenv(key, raising=False)
    monkeypatch.setenv("AGENTRAIL_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("agentrail.cli.reports.doctor.find_bwrap", lambda: "/usr/bin/bwrap")
    monkeypatch.setattr("agentrail.cli.reports.doctor.check_bwrap", lambda _: None)
    monkeypatch.setattr("agentrail.cli.reports.doctor.check_outward", lambda _: "/usr/bin/slirp4netns")


def findings(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, dict[str, tuple[str, str, str]]]:
    """Return the exit status, and by what they are about the level of findings, what was found, and what to do."""
    status = main([*map(str, argv), "--json"])
    rows = map(json.loads, capsys.readouterr().out.splitlines())
    return status, {row["about"]: (row["level"], row["state"], row["to_do"]) for row in rows}


async def _fill(path: Path) -> None:
    async with open_supervisor(journal=SqliteJournal(path)) as supervisor:
        await (await supervisor.spawn(SessionSpec(model=ScriptedModel(["Hello."])), "trip")).ask("Hi")


def test_a_machine_on_which_agents_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, diagnoses = findings(capsys, "--dir", tmp_path)
    assert status == 0
    assert list(diagnoses) == [
        "python",
        "sqlite",
        "journal",
        "sandbox",
        "keys",
        "cloud",
        "search",
        "extra",
        "disk",
        "clock",
    ]
    assert [level for level, _, _ in diagnoses.values()] == [
        "ok",
        "ok",
        "note",
        "ok",
        "note",
        "note",
        "note",
        diagnoses["extra"][0],
        "ok",
        "ok",
    ]
    assert not (tmp_path / "home").exists()


def test_the_distribution_of_others_with_our_import_name_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "agentrail-0.1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: agentrail\nVersion: 0.1.0\n", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    status, diagnoses = findings(capsys, "--dir", tmp_path)
    level, state, to_do = diagnoses["stranger"]
    assert (status, level) == (0, "note")
    assert state.startswith("`agentrail` 0.1.0 is installed too")
    assert "-m pip uninstall agentrail`, and install agentrail-otp again" in to_do


def test_all_extras_are_looked_for() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert list(EXTRAS) == list(project["optional-dependencies"])
    for extra, (package, _) in EXTRAS.items():
        rows = project["optional-dependencies"][extra]
        brought = [row.partition(">")[0].partition("[")[0].replace("-", "_") for row in rows]
        assert package.replace(".", "_") in brought


def test_lines_are_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--dir", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[3:6:2] == [
        "                it is made when a session is stored",
        "note  keys      no API key of a provider is in the environment",
    ]


def test_keys_are_named_and_never_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("GROQ_API_KEY", " ")
    monkeypatch.setenv("EXA_API_KEY", SECRET)
    assert main(["--dir", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "ok    search    the tool `web_search` asks Exa, by EXA_API_KEY\n" in out
    assert ("OPENAI_API_KEY" in out, "GROQ_API_KEY" in out, SECRET in out) == (True, False, False)


def test_a_journal_is_read_and_left_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "j.db"
    trio.run(_fill, path)
    content = path.read_bytes()
    _, diagnoses = findings(capsys, "--journal", path)
    assert diagnoses["journal"] == ("ok", f"{path}: 1 sessions, {len(content) / 1e6:,.1f} MB", "")
    assert path.read_bytes() == content


def test_a_damaged_index_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.db"
    trio.run(_fill, path)
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("PRAGMA writable_schema = ON")
        (root,) = file.execute("SELECT rootpage FROM sqlite_master WHERE name = 'record_by_command'").fetchone()
        file.execute("DELETE FROM sqlite_master WHERE name = 'record_by_command'")
        file.execute("PRAGMA writable_schema = RESET")
        file.execute("UPDATE record SET command = CAST('another' AS BLOB) WHERE number = 1")
        file.execute("PRAGMA writable_schema = ON")
        values = ("record_by_command", root, COMMANDS)
        file.execute("INSERT INTO sqlite_master VALUES ('index', ?, 'record', ?, ?)", values)
    status, diagnoses = findings(capsys, "--journal", path)
    assert status == 1
    level, state, _ = diagnoses["journal"]
    assert (level, "record_by_command" in state) == ("bad", True)


async def _export(path: Path, file: Path) -> None:
    journal = SqliteJournal(path)
    await export_session(journal, "trip", file)
    await journal.close()


def test_a_damaged_session_is_told_and_not_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.db"
    trio.run(_fill, path)
    for change, problem in (
        ("UPDATE record SET body = CAST('{}' AS BLOB) WHERE number = (SELECT head FROM session)", "has changed since"),
        ("UPDATE session SET active = 'soon'", "its row in the journal is damaged: `active` is no whole number"),
    ):
        with closing(sqlite3.connect(path, isolation_level=None)) as file:
            file.execute(change)
        status = main(["--journal", str(path), "--json"])
        rows = [row for row in map(json.loads, capsys.readouterr().out.splitlines()) if row["about"] == "journal"]
        assert (status, [row["level"] for row in rows]) == (1, ["ok", "bad"])
        assert f"{path}: 0 sessions" in rows[0]["state"]
        assert f"{path}: session `trip`: " in rows[1]["state"]
        assert problem in rows[1]["state"]


@pytest.mark.parametrize("is_cut", [False, True])
def test_an_export_file_is_looked_at_and_one_whose_end_was_cut_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, is_cut: bool
) -> None:
    path, file = tmp_path / "a.db", tmp_path / "trip.jsonl"
    trio.run(_fill, path)
    trio.run(_export, path, file)
    if is_cut:
        *lines, end = file.read_text().splitlines()
        count = len(lines) - 2
        file.write_text("\n".join([*lines[:-1], end.replace(f'"end":{count + 1}', f'"end":{count}')]))
    status, diagnoses = findings(capsys, "--journal", file)
    level, state, to_do = diagnoses["journal"]
    assert (status, level) == ((1, "bad") if is_cut else (0, "ok"))
    if is_cut:
        assert "session `trip`: line " in state
        assert "records before it are missing" in state
        assert to_do == "export it again, or bring the file back from a copy"
    else:
        assert f"{file}: 1 sessions" in state


def test_what_is_no_journal_has_to_be_mended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "j.db"
    path.write_text("not a database at all, but a text that is long enough to be looked at" * 100)
    status, diagnoses = findings(capsys, "--journal", path)
    assert (status, diagnoses["journal"][:2]) == (1, ("bad", f"{path} cannot be read"))
    assert str(path) in diagnoses["journal"][2]


def test_a_machine_without_a_sandbox(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentrail.cli.reports.doctor.find_bwrap", bubblewrap.find_bwrap)
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    status, diagnoses = findings(capsys, "--dir", tmp_path)
    level, what, to_do = diagnoses["sandbox"]
    assert (status, level, what) == (0, "note", "no sandbox: commands of agents are not confined")
    missing = f"not found in {SAFE_PATH}; install bubblewrap"
    assert to_do == f"commands of agents run unconfined, and each is asked about: {missing}"


def test_a_disk_that_is_nearly_full(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**12, 10**12, 5_000_000))
    status, diagnoses = findings(capsys, "--dir", tmp_path)
    assert (status, diagnoses["disk"][0], diagnoses["disk"][1].split(" at ")[0]) == (1, "bad", "5.0 MB are left")


def test_a_folder_that_is_not_for_this_user(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    status, diagnoses = findings(capsys, "--dir", tmp_path)
    assert (status, diagnoses["disk"][2]) == (1, "use another folder")


def test_a_clock_before_this_was_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentrail.cli.reports.doctor.Clock.now_ms", lambda _: 0)
    status, diagnoses = findings(capsys, "--dir", tmp_path)
    assert (status, diagnoses["clock"][:2]) == (1, ("bad", "it shows 1970-01-01 00:00 UTC"))


def test_a_folder_that_is_not_there_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--dir", "/nowhere"]) == 2
    message = "agentrail: --dir: there is no folder '/nowhere'\n"
    assert capsys.readouterr().err == message
