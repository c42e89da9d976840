"""The agents of a cluster of Ray: what its shards run, and the hosts in front of them serve."""

import os

from agentrail import SessionSpec
from agentrail.host import Profile

desk = Profile("desk", SessionSpec(model=os.environ.get("MODEL", "demo")))
