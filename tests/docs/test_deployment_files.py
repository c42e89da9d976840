"""The systemd units, the Dockerfile and the file of Compose in the docs: what they say is what there is."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from shutil import which
from typing import Final

import pytest

from agentrail.api.limits import DEFAULTS
from agentrail.cli.command_options import PORT
from agentrail.cli.exit_codes import WRONG_USAGE
from agentrail.cli.host.serve import PARKING
from agentrail.cli.host.serve_options import ServeOptions
from tests.cli.calling import serve_options
from tests.docs.sources import ROOT

FOLDER: Final = ROOT / "docs" / "examples" / "deployment"
PAGE: Final = ROOT / "docs" / "guide" / "deploying.md"
PROGRAM: Final = "/opt/agents/bin/agentrail"
KEPT: Final = "/var/lib/agents"
KEYS: Final = "/etc/agents/keys"
ENOUGH: Final = DEFAULTS.drain_seconds + PARKING


def text_of(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def unit(name: str) -> dict[str, str]:
    """Return the settings of a unit; each stands once."""
    lines = [line for line in text_of(name).splitlines() if line and line[0] not in "#["]
    pairs = [line.partition("=") for line in lines]
    assert len({key for key, _, _ in pairs}) == len(pairs)
    return {key: value for key, _, value in pairs}


def listed(text: str, after: str) -> list[str]:
    """Return the last JSON list of texts that stands after a word."""
    found: list[str] = json.loads(re.findall(rf"{after} (\[.*\])$", text, re.MULTILINE)[-1])
    return found


def served(arguments: list[str], folder: Path) -> ServeOptions:
    """Parse a command as the program does; its file is there."""
    program, serve, file, *options = arguments
    assert (program, serve, file) == (PROGRAM, "serve", "/etc/agents/app.py")
    here = folder / "app.py"
    here.touch()
    return serve_options([str(here), *options])


def test_the_unit_starts_the_command_as_it_is(tmp_path: Path) -> None:
    service, socket = unit("agents.service"), unit("agents.socket")
    options = served(shlex.split(service["ExecStart"]), tmp_path)
    assert options.served.journal == Path(KEPT) / "kept.db"
    assert options.served.keys == Path("/etc/agents/keys.txt")
    assert f"/var/lib/{service['StateDirectory']}" == service["WorkingDirectory"] == KEPT
    assert socket["ListenStream"] == f"{options.tcp.host}:{PORT}"
    assert options.names == ("agents.example.com",)
    assert options.proxies == (options.tcp.host,)  # the proxy with TLS is on the same machine
    assert service["Requires"] == "agents.socket"
    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert float(service["TimeoutStopSec"]) > ENOUGH
    assert service["RestartPreventExitStatus"] == str(WRONG_USAGE)


def test_the_image_starts_the_command_as_it_is(tmp_path: Path) -> None:
    text, compose = text_of("Dockerfile"), text_of("compose.yaml")
    start = listed(text, "ENTRYPOINT")
    of_image, of_compose = (
        served(start + listed(text, r"^CMD"), tmp_path),
        served(start + listed(compose, "command:"), tmp_path),
    )
    for options in (of_image, of_compose):
        assert options.tcp.host == "0.0.0.0"  # noqa: S104 - it is said to
        assert options.served.keys == Path(KEYS) / "keys.txt"
        assert options.served.journal == Path(KEPT) / "kept.db"
        assert options.tcp.port == PORT
    assert of_compose.names == ("agents.example.com",)
    assert of_image.proxies == ("172.17.0.1",)  # the gateway of Docker's own network
    assert of_compose.proxies == tuple(re.findall(r"subnet: ([^}]+)", compose))
    assert f"VOLUME {KEPT}" in text
    assert f'volumes: ["kept:{KEPT}", "./keys:{KEYS}:ro"]' in compose
    assert f"EXPOSE {PORT}" in text
    assert f"http://127.0.0.1:{PORT}/healthz" in text
    assert f":{PORT}:{PORT}" in compose
    assert "RUN python -m venv /opt/agents" in text
    assert "COPY --from=build /opt/agents /opt/agents" in text
    assert "COPY app.py /etc/agents/app.py" in text
    assert float(re.findall(r"stop_grace_period: (\d+)s", compose)[0]) > ENOUGH


def test_the_page_has_the_files() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert {path.name for path in FOLDER.iterdir()} == set(re.findall(r"\]\(\.\./examples/deployment/(\S+)\)", page))


@pytest.mark.long
@pytest.mark.skipif(which("systemd-analyze") is None, reason="NOT PROVED, because `systemd-analyze` is not installed")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    """Names of programs and users are those of this machine: systemd looks whether they are there."""
    for name in ("agents.service", "agents.socket"):
        here = text_of(name).replace(PROGRAM, "/bin/true").replace("=agents\n", "=root\n")
        (tmp_path / name).write_text(here.replace("StateDirectory=root", "StateDirectory=agents"), encoding="utf-8")
    done = subprocess.run(  # noqa: S603 - files of ours
        ["systemd-analyze", "verify", *map(str, sorted(tmp_path.iterdir()))],  # noqa: S607 - as it is found
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
