"""A person names the container in which commands run: by an option, the environment, or settings that were allowed."""

import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from agentrail import SessionSpec
from agentrail.app.named_sandbox import in_container
from agentrail.cli.agents.agent_source import AgentSource
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.settings.asked_settings import has_to_be_allowed
from agentrail.cli.settings.project_settings import read_settings
from agentrail.cli.settings.setting_order import chosen_sandbox
from agentrail.errors import BadProfile, BadSpec
from agentrail.host.served_file import NothingToServeError, ServedFile, find_host
from agentrail.plugins import HumanApproval
from agentrail.sandboxes import ContainerSandbox, MemorySandbox
from agentrail.values.value import Value
from tests.cli.calling import serve_options
from tests.sandboxes.containers.image import IMAGE
from tests.sandboxes.containers.kinds import containers, podman

__all__ = ["podman"]

NAME = f"podman:{IMAGE}"


def spec_of(source: AgentSource) -> SessionSpec:
    return cast("SessionSpec", source.profile().spec)


def test_the_option_counts_before_the_environment_and_that_before_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agentrail.toml").write_text('sandbox = "docker:of-the-folder"\n')
    settings = read_settings(tmp_path)
    assert chosen_sandbox(None, settings) == "docker:of-the-folder"
    monkeypatch.setenv("AGENTRAIL_SANDBOX", "podman:of-the-user")
    assert chosen_sandbox(None, settings) == "podman:of-the-user"
    assert chosen_sandbox("docker:of-the-option", settings) == "docker:of-the-option"
    monkeypatch.setenv("AGENTRAIL_SANDBOX", "alpine")
    with pytest.raises(BadInputError, match=r"AGENTRAIL_SANDBOX: 'alpine' names no image"):
        chosen_sandbox(None, settings)


def test_a_folder_that_names_an_image_has_to_be_allowed() -> None:
    assert has_to_be_allowed("sandbox", "docker:alpine")


@pytest.mark.parametrize("name", ["alpine", "lxc:x", "docker:", "docker:--privileged", "podman: x", "docker:a\nb"])
def test_a_name_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "agentrail.toml").write_text(f'sandbox = "{name!r}"\n'.replace("'", ""))
    with pytest.raises(BadInputError, match="names no image of an engine"):
        read_settings(tmp_path)
    assert AgentSource.read(AgentSource(str(tmp_path), sandbox=name).id) is None


def test_the_default_agent_hides_asks_and_reaches_what_it_says(tmp_path: Path) -> None:
    spec = spec_of(AgentSource(str(tmp_path), model="demo", sandbox=NAME))
    assert isinstance(spec.sandbox, ContainerSandbox)
    assert ".env" in spec.sandbox.hidden
    [approval] = [plugin for plugin in spec.plugins if isinstance(plugin, HumanApproval)]
    assert "no network" in cast("Value", approval).reach  # type: ignore[attr-defined]  # it is attrs'
    (tmp_path / "agentrail.toml").write_text('network = "outward"\n')
    with pytest.raises(BadProfile, match="a container cannot keep from this machine"):
        AgentSource(str(tmp_path), model="demo", sandbox=NAME).profile()


def test_an_agent_with_a_sandbox_is_refused_also_below() -> None:
    inner = SessionSpec(description="x", model="demo", sandbox=MemorySandbox())
    for spec in (inner, SessionSpec(model="demo", agents={"inner": inner})):
        with pytest.raises(BadSpec, match="is there already"):
            in_container(spec, NAME)


def test_a_host_gives_it_to_each_agent_or_serves_none(tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    file.write_text("from agentrail import SessionSpec\nspec = SessionSpec(model='demo')\n")
    host, _ = find_host(ServedFile(file, sandbox=NAME))
    [profile] = host.profiles
    assert isinstance(cast("SessionSpec", profile.spec).sandbox, ContainerSandbox)
    file.write_text(
        "from agentrail import SessionSpec\nfrom agentrail.host import Profile\n"
        "async def made(context):\n    return SessionSpec(model='demo')\n"
        "profile = Profile('x', made)\n"
    )
    with pytest.raises(NothingToServeError, match="built for each request by a function"):
        find_host(ServedFile(file, sandbox=NAME))


def test_what_is_served_has_the_sandbox_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert serve_options([]).served.sandbox == ""
    monkeypatch.setenv("AGENTRAIL_SANDBOX", NAME)
    assert serve_options([]).served.sandbox == NAME
    assert serve_options(["--sandbox", "docker:of-the-option"]).served.sandbox == "docker:of-the-option"
    monkeypatch.setenv("AGENTRAIL_SANDBOX", "alpine")
    with pytest.raises(BadInputError, match="AGENTRAIL_SANDBOX: 'alpine' names no image"):
        serve_options([])


@pytest.mark.long
@pytest.mark.usefixtures("podman")
def test_a_command_of_run_runs_in_the_container(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "agentrail", "run", "--sandbox", NAME, "--yes", "run ls /run/agentrail"]
    run = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)  # noqa: S603 - our own program
    assert "within.sh" in run.stdout
    assert containers(tmp_path) == set()
