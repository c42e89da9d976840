"""One of several hosts: the environment says at which address the others reach it, and where the journal is."""

import os

from agentrail import Secret, SessionSpec
from agentrail.host import ApiKeys, Cluster, Host, Profile
from agentrail.journals import PostgresJournal


def host_at(address: str, database: str) -> Host:
    """Return a host of the cluster, which the others reach at *address*."""
    return Host(
        [Profile("desk", SessionSpec(model=os.environ.get("MODEL", "demo")))],
        authenticator=ApiKeys("keys/keys.txt"),
        journal=PostgresJournal(database),
        cluster=Cluster(address, Secret("CLUSTER_KEY"), lease=10),
    )


host = host_at(os.environ["ADDRESS"], os.environ["DATABASE_URL"])
