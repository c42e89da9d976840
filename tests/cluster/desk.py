"""The program of the shards: an agent that says words slowly."""

from agentrail import SessionSpec
from agentrail.testing import ScriptedModel, say

WORDS = 100
SLOW = say(" ".join(f"word{number}" for number in range(WORDS)), delay=0.02)

desk = SessionSpec(model=ScriptedModel([SLOW], repeat_last=True))
