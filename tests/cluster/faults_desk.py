"""The program of shards that are killed: that of several hosts. Beside it are `url`, and the folder `desk`."""

import os
from pathlib import Path

from agentrail.host import ApiKeys, Host
from tests.host.deployed import desk as deployed

FOLDER = Path(__file__).parent
URL = (FOLDER / "url").read_text()
deployed.WITNESS = FOLDER / "desk" / deployed.WITNESS.name
os.environ.update(JOURNAL=URL, ADDRESS="http://127.0.0.1:1")

from tests.host.cluster import desk  # noqa: E402 - it reads the environment

host = Host(
    desk.PROFILES,
    authenticator=ApiKeys(FOLDER / "desk" / "keys.txt"),
    journal=desk.journal(),
    limits=deployed.host.limits,
)
