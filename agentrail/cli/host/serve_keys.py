"""`agentrail serve keys`: makes, lists and withdraws keys of users."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.output.exit_status import DONE
from agentrail.errors import AgentrailError
from agentrail.host.authentication.api_keys import KeyFile, new_key


@contextmanager
def _as_bad_input() -> Generator[None, None, None]:
    """Have an error of a file of keys, or of what is to be written there, count as wrong usage."""
    try:
        yield
    except (AgentrailError, OSError) as error:
        raise BadInputError(str(error)) from error


def make(file: str, tenant: str, user: str, scopes: str) -> int:
    """Make a key of a *user* in *file*, print it, and return the exit status."""
    with _as_bad_input():
        row, key = new_key(tenant, user, scopes.split(","))
        KeyFile(Path(file)).add(row)
    print(key)
    return DONE


def list_keys(file: str) -> int:
    """Print the keys of *file*, and return the exit status."""
    if not Path(file).exists():
        raise BadInputError(f"there is no file {file!r}; `make` makes it")
    with _as_bad_input():
        rows = KeyFile(Path(file)).keys().values()
    for row in rows:
        identity = row.identity
        print(f"{row.id}  {row.made_on}  {identity.tenant}  {identity.user}  {','.join(sorted(identity.scopes))}")
    return DONE


def withdraw(file: str, key_id: str) -> int:
    """Take a key out of *file*, and return the exit status."""
    with _as_bad_input():
        row = KeyFile(Path(file)).withdraw(key_id)
    print(f"withdrawn: {row.id} of {row.identity.user} ({row.identity.tenant})")
    return DONE
