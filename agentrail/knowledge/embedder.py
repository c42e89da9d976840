"""`Embedder`: the port of what turns texts into vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors, which are near each other if the texts mean alike. All its vectors have one length."""

    @property
    def name(self) -> str:
        """Name that is stored with the vectors; another name stands for vectors that cannot be compared with these."""
        ...

    async def embed(self, texts: Sequence[str], *, is_query: bool = False) -> Sequence[Sequence[float]]:
        """Return one vector for each of *texts*, in order; *is_query*: they are queries, and not passages."""
        ...


@runtime_checkable
class ClosableEmbedder(Embedder, Protocol):
    """An embedder with connections, which a store closes with itself."""

    async def aclose(self) -> None:
        """Close the connections; the next call of `embed` opens new ones."""
        ...
