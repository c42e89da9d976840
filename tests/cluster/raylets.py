"""Ray on this machine: a head that runs no actors, and raylets, each as if it were a machine of its own."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest

from tests.runner.leftovers import OF_PYTEST

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="run `make cluster-tools` first: no Ray here")

KEY = "k" * 32
"""Key of the clusters; it is in the environment of the machines, too."""

MACHINES = 2

FAST: Mapping[str, int] = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 500,
    "health_check_failure_threshold": 3,
    "timeout_ms_task_wait_for_death_info": 100,
}
"""What lets Ray notice within two seconds that a machine has died, and at once that a process has."""


BARE: Mapping[str, bool] = {"include_dashboard": False, "include_log_monitor": False}
"""What a machine does not start, as no test needs it."""


class Raylets:
    """The machines."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        cluster: Any = import_module("ray.cluster_utils").Cluster
        self._cluster = cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 0, "no_monitor": True, "_system_config": dict(FAST), **BARE},
        )
        self.address: str = self._cluster.address
        self.nodes: dict[str, Any] = {}

    def environment(self) -> AbstractContextManager[None]:
        """Have the variables that programs of these machines need."""
        return changed(self._environment)

    def fill(self) -> None:
        """Add what is missing to two machines."""
        while len(self.nodes) < MACHINES:
            self.add()

    def add(self) -> str:
        """Add a machine, and return its id."""
        node = self._cluster.add_node(num_cpus=1, **BARE)
        self.nodes[node.node_id] = node
        return str(node.node_id)

    def kill(self, node_id: str, *, reap: bool = True) -> None:
        """Kill the raylet of a machine; its actors end when it is reaped, and live on as zombies before."""
        node = self.nodes.pop(node_id)
        process = node.all_processes["raylet"][0].process
        os.kill(process.pid, signal.SIGKILL)
        if reap:
            process.wait()

    def take_out(self, node_id: str) -> Any:  # noqa: ANN401 - the raylet, as the library of tests that Ray has starts it
        """Stop counting a machine, which is to end by itself, and return the process of its raylet."""
        return self.nodes.pop(node_id).all_processes["raylet"][0].process

    def own_node(self) -> str:
        """Return the id of the machine to which this program is connected."""
        return str(import_module("ray").get_runtime_context().get_node_id())

    def stop(self) -> None:
        self._cluster.shutdown()


@contextmanager
def raylets() -> Iterator[Raylets]:
    """Run Ray with two machines besides the head, with nothing in the user's home."""
    folder = tempfile.mkdtemp(prefix="ry", dir="/tmp")
    environment = {
        "RAY_TMPDIR": folder,
        "HOME": folder,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "AGENTRAIL_CLUSTER_KEY": KEY,
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONPATH": os.getcwd(),  # noqa: PTH109 - the tests are a package that is not installed
    }
    try:
        with changed(environment):
            machines = Raylets(environment)
        try:
            with machines.environment():
                machines.fill()
            yield machines
        finally:
            with machines.environment():
                machines.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def changed(environment: Mapping[str, str]) -> Iterator[None]:
    """Add variables to the environment; put it back afterwards, with what Ray itself has changed."""
    old_environment = dict(os.environ)
    os.environ.update(environment)
    try:
        yield
    finally:
        for name in (os.environ.keys() | old_environment.keys()) - {OF_PYTEST}:
            if name in old_environment:
                os.environ[name] = old_environment[name]
            else:
                del os.environ[name]
