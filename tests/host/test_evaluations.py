"""Experiments at a host: results in a folder, one beside its baseline, its cases and runs."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import httpx
import msgspec
import pytest

from agentrail.api.public_ids import WHOLE_JOURNAL
from agentrail.cli.stored.console_page import READER, reading_host
from agentrail.errors import WrongType
from agentrail.evals import Results, Score, ScoredRun, compare
from agentrail.host import Host, Identity
from agentrail.host.authentication.authenticators import LocalToken
from agentrail.host.served_file import ServedFile, find_host
from agentrail.journals import MemoryJournal
from tests.evals.drawn import drawn
from tests.patience import PATIENCE

CASES: Final = 12


def experiment(right: float, seed: int, name: str) -> Results:
    return msgspec.structs.replace(drawn([right] * CASES, seed, scorers=2), name=name, dataset="rooms")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a folder with an experiment, its baseline, and what is none."""
    before, after = experiment(0.9, 1, "evals-one"), experiment(0.2, 2, "evals-two")
    runs = (*after.runs[:-1], ScoredRun("case-11", 5, "evals-two-case-11-5", error="the line is dead", usd=None))
    after = msgspec.structs.replace(after, runs=runs, notes=("a note",))
    after = msgspec.structs.replace(after, baseline=before.name, verdict=compare(before, after).verdict)
    before.write(tmp_path / "main.json")
    after.write(tmp_path / "prompt v2.json")
    os.utime(tmp_path / "main.json", (1_000_000, 1_000_000))
    os.utime(tmp_path / "prompt v2.json", (2_000_000, 2_000_000))
    (tmp_path / "package.json").write_text("{}")
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "sub.json").mkdir()
    return tmp_path


@asynccontextmanager
async def client_of(folder: Path | None, who: Identity = READER) -> AsyncGenerator[httpx.AsyncClient]:
    key = LocalToken(who)
    async with reading_host(MemoryJournal(), key, folder).serving() as serving:
        headers = {"authorization": f"Bearer {key.fragment.partition('=')[2]}"}
        async with httpx.AsyncClient(base_url=serving.url, headers=headers, trust_env=False, timeout=PATIENCE) as http:
            yield http


async def test_experiments_are_listed_the_newest_first_and_what_is_none_is_left_out(folder: Path) -> None:
    async with client_of(folder) as client:
        listed = (await client.get("/v1/evaluations")).json()
        first, second = listed["items"]
        assert listed["has_folder"] is True
        assert (first["file"], second["file"]) == ("prompt v2", "main")
        assert (first["name"], first["dataset"], first["baseline"]) == ("evals-two", "rooms", "evals-one")
        assert (first["verdict"], second["verdict"]) == ("worse", "")
        assert (first["cases"], first["repeats"], first["runs"], first["failed"]) == (CASES, 5, 60, 1)
        assert (first["usd"], second["usd"]) == (None, 0.0)
        assert first["at_ms"] == 2_000_000_000
        assert [scorer["scorer"] for scorer in first["scorers"]] == ["scorer-0", "scorer-1"]
        (folder / "main.json").unlink()
        experiment(1.0, 3, "evals-three").write(folder / "new.json")
        files = [item["file"] for item in (await client.get("/v1/evaluations")).json()["items"]]
        assert files == ["new", "prompt v2"]


async def test_one_is_shown_beside_the_baseline_that_it_was_compared_with(folder: Path) -> None:
    async with client_of(folder) as client:
        shown = (await client.get("/v1/evaluation", params={"file": "prompt v2"})).json()
        assert shown["baseline"]["file"] == "main"
        names = [scorer["scorer"] for scorer in shown["scorers"]]
        assert names == ["scorer-0", "scorer-1", "finished"]
        worse = shown["scorers"][0]
        assert worse["verdict"] == "worse"
        assert worse["low"] < worse["high"] < 0
        assert [case["case"] for case in shown["cases"]] == [f"case-{n}" for n in range(CASES)]
        last = shown["cases"][-1]
        assert (last["runs"], last["failed"], last["problem"]) == (5, 1, "the line is dead")
        assert last["scores"][0]["before"] is not None
        assert "a note" in shown["notes"]
        assert any("1 of 60 runs of the results failed" in note for note in shown["notes"])
        assert shown["runs"] == []
        alone = (await client.get("/v1/evaluation", params={"file": "main"})).json()
        assert (alone["baseline"], alone["scorers"]) == (None, [])
        other = (await client.get("/v1/evaluation", params={"file": "main", "baseline": "prompt v2"})).json()
        assert other["scorers"][0]["verdict"] == "better"


async def test_the_runs_of_a_case_are_shown_with_those_of_the_baseline(folder: Path) -> None:
    async with client_of(folder) as client:
        shown = (await client.get("/v1/evaluation", params={"file": "prompt v2", "case": "case-11"})).json()
        runs = [(run["is_baseline"], run["repeat"], run["error"]) for run in shown["runs"]]
        assert runs[:5] == [(False, n, "the line is dead" if n == 5 else "") for n in range(1, 6)]
        assert runs[5:] == [(True, n, "") for n in range(1, 6)]
        assert shown["runs"][4]["session"] == "evals-two-case-11-5"
        assert shown["runs"][0]["scores"][0]["scorer"] == "scorer-0"


async def test_experiments_without_a_scorer_in_common_say_so(folder: Path) -> None:
    Results("odd", ("a",), ("other",), 1, (ScoredRun("a", 1, "s", scores={"other": Score(1.0)}),)).write(
        folder / "odd.json"
    )
    async with client_of(folder) as client:
        shown = (await client.get("/v1/evaluation", params={"file": "odd", "baseline": "main"})).json()
        assert shown["scorers"] == []
        assert "they have no scorer in common" in shown["notes"][0]


@pytest.mark.parametrize(
    "query", [{"file": "none"}, {"file": "package"}, {"file": "../main"}, {"file": "main", "baseline": "none"}, {}]
)
async def test_what_is_not_there_is_told(folder: Path, query: dict[str, str]) -> None:
    async with client_of(folder) as client:
        answer = await client.get("/v1/evaluation", params=query)
        assert (answer.status_code, answer.json()["type"]) == (400, "urn:agentrail:problem:bad-query")


async def test_a_folder_that_is_gone_is_told_and_none_is_an_empty_list(tmp_path: Path) -> None:
    async with client_of(None) as client:
        assert (await client.get("/v1/evaluations")).json() == {"items": [], "has_folder": False, "next": None}
    (tmp_path / "evals").mkdir()
    async with client_of(tmp_path / "evals") as client:
        assert (await client.get("/v1/evaluations")).json()["has_folder"] is True


async def test_only_who_operates_the_host_sees_experiments(folder: Path) -> None:
    who = Identity(WHOLE_JOURNAL, "you", frozenset({"observe", "admin", "talk", "decide"}))
    async with client_of(folder, who) as client:
        for path in ("/v1/evaluations", "/v1/evaluation?file=main"):
            assert (await client.get(path)).status_code == 403


def test_a_served_file_gets_the_folder_of_the_command_line(folder: Path) -> None:
    file = folder / "app.py"
    file.write_text("from agentrail.host import Host\nhost = Host(lambda _: None, evaluations='theirs')\n")
    assert find_host(ServedFile(file))[0].evaluations == Path("theirs")
    assert find_host(ServedFile(file, evals=folder))[0].evaluations == folder
    assert find_host(ServedFile())[0].evaluations is None


def test_the_folder_is_a_path() -> None:
    with pytest.raises(WrongType, match="cannot take a `int` as `evaluations`; give the path of a folder"):
        Host(lambda _: None, evaluations=5)  # type: ignore[arg-type]  # on purpose
