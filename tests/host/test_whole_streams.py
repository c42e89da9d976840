"""Streams of a session from any cursor: all that is written comes once, gaps are told, each event is encoded once."""

from typing import Final

import pytest

from tests.host.model.streams import streamed
from tests.profiles import CAMPAIGN

pytestmark = pytest.mark.long

HOSTS: Final = 5_000 if CAMPAIGN else 100


def test_streams_have_what_is_written_and_encode_it_once() -> None:
    for seed in range(HOSTS):
        streamed(seed)
