"""The program of shards that run the specifications of tests: each is in a file of its name, beside this one's copy."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import cast

from agentrail import SessionSpec
from agentrail.host import Host, Profile, RequestContext
from agentrail.journals import PostgresJournal

FOLDER = Path(__file__).parent
read = cast("Callable[[bytes], SessionSpec]", import_module("ray.cloudpickle").loads)

profiles: dict[str, Profile] = {}


def find(context: RequestContext) -> Profile | None:
    """Return the profile of a test; its model goes on with its script."""
    name = context.agent_id or ""
    if name not in profiles:
        path = FOLDER / f"{name}.pickle"
        if not path.exists():
            return None
        profiles[name] = Profile(name, read(path.read_bytes()))
    return profiles[name]


host = Host(find, journal=PostgresJournal((FOLDER / "url").read_text()))
