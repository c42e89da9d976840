"""One of several hosts with the agents of the scenes: the environment says which, and where the journal is."""

from __future__ import annotations

import os

from agentrail.host import Cluster, Host
from agentrail.journals import PostgresJournal
from tests.host.console.scenes import LIMITS, profile

host = Host(
    [profile],
    journal=PostgresJournal(os.environ["JOURNAL"]),
    limits=LIMITS,
    cluster=Cluster(os.environ["ADDRESS"], "k" * 32),
)
