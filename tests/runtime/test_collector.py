"""Runs the tests of `collecting` where there are few objects."""

import os
import subprocess
import sys

import pytest

from tests.runtime import collecting

pytestmark = pytest.mark.long


@pytest.mark.campaign
def test_all_that_is_said_of_the_collector_holds_in_an_interpreter_with_few_objects() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", collecting.__file__]
    done = subprocess.run(  # noqa: S603 - our own tests
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
