"""The official SDKs of A2A, in Python and JavaScript, and contract tests of it, talk to a host."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Final

import pytest
import trio

from agentrail.a2a import A2aFace
from agentrail.host import Webhooks
from tests.a2a.receiver import receiving
from tests.a2a.test_turns import served
from tests.cli.acp.test_foreign_editors import node
from tests.docs.sources import ROOT
from tests.host.hosted import KEYS
from tests.patience import within

pytestmark = pytest.mark.long

BUILD: Final = ROOT / "build" / "a2a"
HERE: Final = Path(__file__).parent


@pytest.fixture(autouse=True)
def _installed() -> None:
    if not (BUILD / ".installed").exists():
        pytest.skip("the SDKs of A2A are not installed: `make a2a-sdks` does that")


async def output_of(*command: str | Path, folder: Path | None = None) -> str:
    """Return what a command prints; it must end well."""
    environment = {**os.environ, "KEY": f"Bearer {KEYS['ann']}", "PYTHONPATH": str(ROOT)}
    with trio.fail_after(within(60)):
        words = [str(word) for word in command]
        run = await trio.run_process(
            words, capture_stdout=True, capture_stderr=True, check=False, cwd=folder, env=environment
        )
    assert run.returncode == 0, run.stderr.decode()[-2000:] + run.stdout.decode()[-2000:]
    return run.stdout.decode()


@pytest.mark.parametrize("version", ["1.0", "0.3"])
async def test_the_client_in_python_speaks_both_protocols(version: str) -> None:
    async with served() as desk:
        python = BUILD / "python" / "bin" / "python"
        printed = await output_of(python, HERE / "official_client.py", desk.serving.url, KEYS["ann"], version)
    streaming, plain = map(json.loads, printed.splitlines())
    for scene in (streaming, plain):
        kinds = scene.pop("kinds")
        assert [steps[-1] for steps in kinds] == ["COMPLETED", "INPUT_REQUIRED", "COMPLETED"]
        assert scene == {
            "context": "own",
            "text": "It ran x.",
            "ran": "TASK_STATE_COMPLETED",
            "cancelled": "TASK_STATE_CANCELED",
            "again": "TaskNotCancelableError",
            "unknown": "TaskNotFoundError",
            "over": "UnsupportedOperationError",
        }


async def test_the_older_client_in_python_finds_its_way_by_the_card() -> None:
    async with served() as desk:
        python = BUILD / "older" / "bin" / "python"
        printed = await output_of(python, HERE / "older_client.py", f"{desk.serving.url}/v1/a2a/a%20b", KEYS["ann"])
    assert json.loads(printed) == [["input-required", "completed", "completed", "canceled"], "It ran x."]


async def test_the_client_in_javascript(tmp_path: Path) -> None:
    (tmp_path / "node_modules").symlink_to(BUILD / "node_modules")
    shutil.copy(HERE / "official_client.mjs", tmp_path)
    async with served() as desk:
        url = f"{desk.serving.url}/v1/a2a/desk"
        scene = json.loads(await output_of(node(20), "official_client.mjs", url, KEYS["ann"], folder=tmp_path))
    assert (scene["states"][0], scene["got"]["status"]["state"], scene["plain"]["status"]["state"]) == ("task 2", 3, 3)
    assert (scene["canceled"], scene["second"]) == (5, "JsonRpcTaskNotCancelableError")


CONTRACT: Final = """
version: 1
agent:
  url: {url}
  timeout: 30.0
  headers:
    Authorization: ${{KEY}}
scenarios:
- name: says
  message: Hello
  expect: {{state: completed, text: {{contains: [Said Hello]}}}}
- name: waits
  turns:
  - {{message: run x, expect: {{state: input_required}}}}
  - {{action: get_task, expect: {{state: input_required}}}}
  - {{message: not now, expect: {{state: completed, text: {{contains: [not now]}}}}}}
- name: cancels
  turns:
  - {{message: run x, expect: {{state: input_required}}}}
  - {{action: cancel, expect: {{state: canceled}}}}
"""


async def test_contract_tests_from_elsewhere_pass(tmp_path: Path) -> None:
    async with served() as desk:
        (tmp_path / "a2a-proof.yaml").write_text(CONTRACT.format(url=f"{desk.serving.url}/v1/a2a/desk"))
        printed = await output_of(BUILD / "python" / "bin" / "a2a-proof", "run", "--format", "json", folder=tmp_path)
    report = json.loads(printed)
    assert (report["passed"], [scene["name"] for scene in report["scenarios"]]) == (True, ["says", "waits", "cancels"])


@pytest.mark.parametrize("version", ["1.0", "0.3"])
async def test_the_client_in_python_reads_push_notifications(version: str) -> None:
    webhooks = Webhooks("k" * 32, allowed=["127.0.0.1"])
    async with served(face=A2aFace(push=webhooks)) as desk:
        python, secret = BUILD / "python" / "bin" / "python", webhooks.secret_of("acme")
        printed = await output_of(python, HERE / "push_client.py", desk.serving.url, KEYS["ann"], version, secret)
    scene = json.loads(printed)
    assert [row[:2] for row in scene["first"]] == [["by message", "INPUT_REQUIRED"]]
    assert [row[:2] for row in scene["second"]] == [["by method", "INPUT_REQUIRED"]]
    assert (len(scene["both"]), scene["rest"]) == (2, ["second"])
    assert {row[0] for row in scene["last"]} == {"by method"}, "the other configuration was deleted"
    assert {row[2] for row in scene["first"] + scene["last"]} == {scene["id"]}


async def test_the_older_client_in_python_reads_push_notifications() -> None:
    async with served(face=A2aFace(push=Webhooks("k" * 32, allowed=["127.0.0.1"]))) as desk:
        python = BUILD / "older" / "bin" / "python"
        printed = await output_of(python, HERE / "older_push_client.py", f"{desk.serving.url}/v1/a2a/desk", KEYS["ann"])
    scene = json.loads(printed)
    assert [row[:2] for row in scene["first"]] == [["by message", "input-required"]]
    assert [row[:2] for row in scene["second"]] == [["by method", "input-required"]]
    assert {row[0] for row in scene["last"]} == {"by message", "by method"}
    assert scene["text"] == "It ran x."


async def test_the_client_in_javascript_wants_push_notifications(tmp_path: Path) -> None:
    (tmp_path / "node_modules").symlink_to(BUILD / "node_modules")
    shutil.copy(HERE / "push_client.mjs", tmp_path)
    async with receiving() as receiver, served(face=A2aFace(push=Webhooks("k" * 32, allowed=["127.0.0.1"]))) as desk:
        url = f"{desk.serving.url}/v1/a2a/desk"
        printed = await output_of(node(20), "push_client.mjs", url, KEYS["ann"], receiver.url, folder=tmp_path)
        scene = json.loads(printed)
        assert (scene["got"], scene["ids"]) == (receiver.url, ["second", scene["task"]])
        (tmp_path / "bodies.json").write_text(json.dumps([json.loads(request.body) for request in receiver.requests]))
    parsed = json.loads(await output_of(node(20), "push_client.mjs", "parse", folder=tmp_path))
    assert {(kind, task) for kind, task, _ in parsed} == {("task", scene["task"])}
    assert 3 in {state for *_, state in parsed}, "the task is completed"
