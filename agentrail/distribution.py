"""The distribution that brings this package, and the requirement that installs it again.

Its name is not that of the package: `agentrail` is somebody else's distribution at PyPI, which has the same import
name. As long as this one is in no index, only the place that it was installed from finds it.
"""

from __future__ import annotations

import json
import shlex
from typing import Final
from urllib.parse import urlsplit

DISTRIBUTION: Final = "agentrail-otp"
"""The name of this distribution."""

STRANGER: Final = "agentrail"
"""The name of somebody else's distribution, whose package has our import name."""


def install_origin() -> str | None:
    """Return what pip noted of the place that it installed this distribution from; `None` if from an index."""
    from importlib.metadata import distribution  # noqa: PLC0415 - only an error needs it

    return distribution(DISTRIBUTION).read_text("direct_url.json")


def requirement(origin: str | None, *extras: str) -> str:
    """Return the requirement that installs this distribution with *extras* from *origin* (see `install_origin`)."""
    name = f"{DISTRIBUTION}[{','.join(extras)}]" if extras else DISTRIBUTION
    noted: object = None if origin is None else json.loads(origin)
    match noted:
        case {"url": str(url), "vcs_info": {"vcs": str(vcs), "commit_id": str(commit)}}:
            source = f"{vcs}+{url}@{commit}"
        case {"url": str(url)}:
            source = url
        case _:
            return name
    match noted:
        case {"subdirectory": str(folder)}:
            return f"{name} @ {source}#subdirectory={folder}"
        case _:
            return f"{name} @ {source}"


def install_words(origin: str | None, extra: str) -> str:
    """Return what stands after `pip install` in a shell to add *extra* to what was installed from *origin*.

    A clone that is installed as editable stays so.
    """
    from urllib.request import url2pathname  # noqa: PLC0415 - it brings a client of HTTP, and only an error needs it

    noted: object = None if origin is None else json.loads(origin)
    match noted:
        case {"url": str(url), "dir_info": {"editable": True}}:
            return f"-e {shlex.quote(f'{url2pathname(urlsplit(url).path)}[{extra}]')}"
        case _:
            return f"'{requirement(origin, extra)}'"
