"""The files for several hosts in the docs, of Compose, haproxy and Kubernetes: what they refer to is what there is."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

from agentrail.api.limits import DEFAULTS
from agentrail.cli.command_options import PORT
from agentrail.cli.host.serve import PARKING
from agentrail.cluster.opened_cluster import KEY
from agentrail.values.secrets import secret_name
from tests.cli.calling import serve_options
from tests.docs.sources import ROOT

FOLDER: Final = ROOT / "docs" / "examples" / "cluster"
PAGES: Final = tuple(ROOT / "docs" / "guide" / name for name in ("many-hosts.md", "containers.md", "ray.md"))
ENOUGH: Final = DEFAULTS.drain_seconds + PARKING
PRE_STOP: Final = 5
VARIABLES: Final = {"ADDRESS", "DATABASE_URL"}
"""What the program takes from the environment by itself; `CLUSTER_KEY` is a `Secret`."""


def text_of(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def options_in(name: str, word: str) -> list[str]:
    (text,) = re.findall(rf"^ +{word}: (\[\".*\])$", text_of(name), re.MULTILINE)
    found: list[str] = json.loads(text)
    return found


def test_the_files_start_the_command_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    file.touch()
    for name, word in (("compose.yaml", "command"), ("kubernetes.yaml", "args")):
        options = serve_options([str(file), *options_in(name, word)])
        assert (options.tcp.host, options.tcp.port) == ("0.0.0.0", PORT)  # noqa: S104 - it is said to
        assert options.names == ("agents.example.com",)
        assert (options.served.keys, options.served.journal) == (None, None)  # the program says both
        assert len(options.proxies) == 1


def test_a_host_in_front_of_ray_is_started_by_the_command_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "ray_app.py"
    file.touch()
    kuberay = text_of("kuberay.yaml")
    path, *words = options_in("kuberay.yaml", "args")
    options = serve_options([str(file), *(word.replace("$(DATABASE_URL)", "postgresql://db/agents") for word in words)])
    assert (path, options.cores, options.tcp.host, options.tcp.port) == ("/etc/agents/ray_app.py", 4, "0.0.0.0", PORT)  # noqa: S104 - it is said to
    (name,) = re.findall(r"kind: RayCluster\nmetadata: {name: (\S+)}", kuberay)
    assert options.ray == f"{name}-head-svc:6379"
    assert f'"--address={options.ray}"' in kuberay
    assert f"secretKeyRef: {{name: {name}, key: auth_token}}" in kuberay
    assert f"mountPath: {Path(str(options.served.keys)).parent}," in kuberay
    assert len(options.proxies) == 1
    assert re.findall(r"--from-literal=(\w+)=", kuberay) == [secret_name(KEY), "DATABASE_URL"]
    (version,) = set(re.findall(r"(?:rayproject/ray:|rayVersion: )([\d.]+)", kuberay))
    assert f'"ray>={version.rpartition(".")[0]},' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (words,) = re.findall(r"system-config: '''(\{.*\})'''", kuberay)
    assert f"--system-config '{words}'" in PAGES[-1].read_text(encoding="utf-8")


def test_the_program_gets_what_it_takes_from_the_environment() -> None:
    program, compose, kubernetes = map(text_of, ("app.py", "compose.yaml", "kubernetes.yaml"))
    assert set(re.findall(r'os\.environ\["(\w+)"\]', program)) == VARIABLES
    assert 'Secret("CLUSTER_KEY")' in program
    for variable in (*VARIABLES, "CLUSTER_KEY"):
        assert f"{variable}: " in compose
        assert f"name: {variable}" in kubernetes or f"--from-literal={variable}=" in kubernetes
    assert "./keys:/etc/agents/keys:ro" in compose
    assert "mountPath: /etc/agents/keys," in kubernetes
    assert "working_dir: /etc/agents\n" in compose
    assert "workingDir: /etc/agents\n" in kubernetes
    assert 'ApiKeys("keys/keys.txt")' in program


def test_each_host_is_reached_at_its_address() -> None:
    compose, kubernetes = text_of("compose.yaml"), text_of("kubernetes.yaml")
    hosts = re.findall(r"^  (host-\d):$", compose, re.MULTILINE)
    assert re.findall(r'ADDRESS: "http://(\S+):8765"', compose) == hosts
    assert re.findall(rf"server (\S+) (\S+):{PORT}$", text_of("haproxy.cfg"), re.MULTILINE) == [(h, h) for h in hosts]
    (subnet,) = re.findall(r"subnet: ([^}]+)", compose)
    assert options_in("compose.yaml", "command")[-1] == subnet
    (service,) = re.findall(r"http://\$\(POD_NAME\)\.(\w+):8765", kubernetes)
    assert f"serviceName: {service}\n" in kubernetes
    assert f"metadata: {{name: {service}}}\nspec:\n" in kubernetes
    assert f"containerPort: {PORT}" in kubernetes


def test_who_ends_them_waits_long_enough() -> None:
    kubernetes = text_of("kubernetes.yaml")
    assert f'[sleep, "{PRE_STOP}"]' in kubernetes
    assert float(re.findall(r"stop_grace_period: (\d+)s", text_of("compose.yaml"))[0]) > ENOUGH
    assert float(re.findall(r"terminationGracePeriodSeconds: (\d+)", kubernetes)[0]) > ENOUGH + PRE_STOP
    assert float(re.findall(r"terminationGracePeriodSeconds: (\d+)", text_of("kuberay.yaml"))[-1]) > ENOUGH + PRE_STOP


def test_a_stream_at_rest_outlives_the_timeouts_of_the_balancer() -> None:
    minutes = re.findall(r"timeout (?:client|server|tunnel) (\d+)m", text_of("haproxy.cfg"))
    assert len(minutes) == 3
    assert all(60 * int(each) > 2 * DEFAULTS.heartbeat_seconds for each in minutes)


def test_the_pages_have_the_files() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    files = {path.name for path in FOLDER.iterdir() if path.is_file()}
    assert files == set(re.findall(r"\]\(\.\./examples/cluster/(\S+)\)", text))
