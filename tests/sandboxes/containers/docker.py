"""A service of docker for the tests of one file, with folders of its own, and no network: nothing of it is left."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.sandboxes.containers.image import make


def _words(folder: Path) -> list[str]:
    places = [f"--{name}={folder / name}" for name in ("data-root", "exec-root", "pidfile")]
    network = ["--iptables=false", "--ip6tables=false", "--bridge=none"]
    return ["dockerd", f"--host=unix://{folder}/socket", *places, *network, "--storage-driver=vfs"]


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    if shutil.which("dockerd") is None or os.getuid() != 0:
        pytest.skip("run `make container-tools` first, as root: a service of docker is started")
    folder = tmp_path_factory.mktemp("docker")
    with (folder / "log").open("wb") as log, pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", f"unix://{folder}/socket")
        service = subprocess.Popen(_words(folder), stdout=log, stderr=log, stdin=subprocess.DEVNULL)  # noqa: S603 - of the machine
        try:
            until = time.monotonic() + PATIENCE
            while not (folder / "socket").exists() and service.poll() is None and time.monotonic() < until:
                time.sleep(0.05)
            if why_not := make("docker"):
                pytest.skip(f"docker does not run here: {why_not} {(folder / 'log').read_text()[-400:]}")
            yield
        finally:
            service.terminate()
            service.wait()
