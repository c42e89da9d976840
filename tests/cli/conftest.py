"""What holds for the tests of the command line."""

import pytest

from tests.cli.talking import ENVIRONMENT


@pytest.fixture(autouse=True)
def home_of_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the tests share the user's folder with the processes that they start, and leave that of the person alone."""
    monkeypatch.setenv("AGENTRAIL_HOME", ENVIRONMENT["AGENTRAIL_HOME"])
