"""The kit finds pairs of plugins that were planted before the code that draws calls was read."""

from collections.abc import Callable

import pytest

from agentrail.hooks.plugin import AnyPlugin
from agentrail.testing import Trace, simulate
from tests.testing.pairs import PAIRS, SHOWN

Invariant = Callable[[Trace], None]


@pytest.mark.parametrize(("first", "second", "invariant"), PAIRS, ids=SHOWN)
def test_each_pair_breaks_its_invariant_and_neither_does_alone(
    first: AnyPlugin, second: AnyPlugin, invariant: Invariant
) -> None:
    script = SHOWN[invariant.__name__]
    for harmless in ([first], [second], [second, first]):
        invariant(simulate(harmless, script))
    with pytest.raises(AssertionError, match=r"counted|released"):
        invariant(simulate([first, second], script))
