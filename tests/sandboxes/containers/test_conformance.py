"""What every sandbox must do, in containers of podman and of docker."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentrail.sandboxes import ContainerSandbox
from agentrail.testing import CommandConformance, SandboxConformance
from tests.sandboxes.containers.docker import docker
from tests.sandboxes.containers.image import IMAGE
from tests.sandboxes.containers.kinds import container_at, podman

__all__ = ["docker", "podman"]

pytestmark = pytest.mark.long


@pytest.mark.usefixtures("podman")
class TestPodman(SandboxConformance, CommandConformance):
    @pytest.fixture
    async def sandbox(self, tmp_path: Path) -> AsyncIterator[ContainerSandbox]:
        sandbox = container_at(tmp_path)
        yield sandbox
        await sandbox.close()


@pytest.mark.usefixtures("docker")
class TestDocker(CommandConformance):
    @pytest.fixture
    async def sandbox(self, tmp_path: Path) -> AsyncIterator[ContainerSandbox]:
        sandbox = ContainerSandbox(IMAGE, engine="docker", folder=tmp_path)
        yield sandbox
        await sandbox.close()
