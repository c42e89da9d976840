import functools
import subprocess
from pathlib import Path

import pytest

from agentrail.sandboxes import ContainerSandbox
from tests.sandboxes.containers.image import IMAGE, make


@functools.cache
def no_podman() -> str:
    """Return why podman runs no container here; empty if it does."""
    why_not = make("podman")
    if not why_not:
        limits = ("--ulimit=nofile=64:64", "--ulimit=nproc=64:64")
        words = ("podman", "run", "--rm", "--network=none", *limits, IMAGE, "true")
        why_not = subprocess.run(words, capture_output=True, check=False).stderr.decode(errors="replace")  # noqa: S603 - of the machine
    return why_not


def container_at(folder: Path, **options: object) -> ContainerSandbox:
    return ContainerSandbox(IMAGE, engine="podman", folder=folder, **options)  # type: ignore[arg-type]  # it checks them


def containers(folder: Path) -> set[str]:
    """Return the names of the containers of agentrail that have *folder*: other tests have containers of their own."""
    filters = ("--filter=label=agentrail.process", f"--filter=volume={folder}")
    words = ("podman", "ps", "--all", *filters, "--format={{.Names}}")
    return set(subprocess.run(words, capture_output=True, check=True, text=True).stdout.split())  # noqa: S603 - of the machine


@pytest.fixture
def podman() -> None:
    """Skip the test where podman runs no container."""
    if why_not := no_podman():
        pytest.skip(f"run `make container-tools` first: {why_not}")
