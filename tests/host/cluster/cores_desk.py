"""The program that several processes serve as one host: that of `tests.host.deployed`, on a database."""

from __future__ import annotations

import os

from agentrail.host import ApiKeys, Host, Profile
from agentrail.journals import PostgresJournal
from tests.host.deployed import desk

host = Host(
    [Profile("desk", desk.build_spec)],
    authenticator=ApiKeys("keys.txt"),
    journal=PostgresJournal(os.environ["JOURNAL"]),
    limits=desk.host.limits,
)
