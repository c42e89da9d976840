"""Searches in the host: models of who owns what, of how requests live, of what streams, sockets and clients have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.host.model.cut_lines import cut
from tests.host.model.expecting import ModelError
from tests.host.model.lives import lived
from tests.host.model.sockets import socketed
from tests.host.model.streams import streamed
from tests.host.model.tenants import ForeignError, played
from tests.host.rfc6455.case_search import check_case


def broken(play: Callable[[int], object], kind: type[AssertionError]) -> Callable[[int], str | None]:
    """Return a search that plays a model, and tells the rule of the error of a *kind* that it raises."""

    def run(seed: int) -> str | None:
        try:
            play(seed)
        except kind as error:
            return str(error.args[0])
        return None

    return run


HOSTS: Final[dict[str, Callable[[int], str | None]]] = {
    "tenants": broken(lambda seed: played(seed, 120), ForeignError),
    "lives": broken(lambda seed: lived(seed, 12), ModelError),
    "streams": broken(streamed, ModelError),
    "lines": broken(cut, ModelError),
    "sockets": broken(socketed, ModelError),
    "frames": broken(check_case, ModelError),
}
"""The searches by name: each takes a seed, and returns the rule that is broken, or `None`."""
