"""A database for the tests that need one."""

from tests.adapters.journals.postgres.conftest import server, url

__all__ = ["server", "url"]
