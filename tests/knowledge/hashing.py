"""An embedder without a model: signed hashes of words, so that texts with the same words are near each other."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

DIMENSIONS = 64


class HashEmbedder:
    """Counts its calls; two of one name and length make the same vectors."""

    def __init__(self, name: str = "test:hash", dimensions: int = DIMENSIONS) -> None:
        self.name = name
        self.dimensions = dimensions
        self.texts: list[str] = []

    async def embed(self, texts: Sequence[str], *, is_query: bool = False) -> Sequence[Sequence[float]]:
        self.texts += texts
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        vector = [0.0] * self.dimensions
        for word in re.findall(r"\w+", text.lower()):
            digest = hashlib.blake2b(word.encode(), digest_size=8).digest()
            vector[int.from_bytes(digest[:4], "big") % self.dimensions] += 1.0 if digest[4] & 1 else -1.0
        return vector if any(vector) else [1.0] * self.dimensions
