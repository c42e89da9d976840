"""A server for the tests of each process, with an empty journal for each test."""

import signal
from collections.abc import Iterator

import psycopg
import pytest

from tests.adapters.journals.postgres.server import PgBouncer, PostgresServer, folder_of_servers


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    with folder_of_servers() as folder:
        server = PostgresServer(folder)
        server.make()
        server.start()
        try:
            yield server
        finally:
            server.kill()


@pytest.fixture
def url(server: PostgresServer) -> str:
    """URL of a database without a journal."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("set client_min_messages = error")
        connection.execute("drop schema if exists agentrail cascade")
    return server.url


@pytest.fixture(scope="session")
def pool(server: PostgresServer) -> Iterator[PgBouncer]:
    with folder_of_servers() as folder:
        pool = PgBouncer(folder, server)
        pool.start()
        try:
            yield pool
        finally:
            pool.stop(signal.SIGTERM)
