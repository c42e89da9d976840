"""Chunks: without their overlaps they are the text, none is too long, and each is below its headings."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentrail.knowledge.chunks import MAX_CHUNK, OVERLAP, chunks_of

PIECES = st.sampled_from(
    [
        "# One\n",
        "## Two ##\n",
        "### Three\n",
        "```\n",
        "~~~\n",
        "# in code\n",
        "word ",
        "end. ",
        "\n",
        "\n\n",
        "\r\n\r\n",
        "假期。",
        "x" * 700,
        "y" * 1_500,
        "\u202eright ",
        "\0",
        "  ",
        "\u2028",
    ]
)


@given(st.lists(PIECES, max_size=40).map("".join))
def test_chunks_without_their_overlaps_are_the_text(text: str) -> None:
    chunks = list(chunks_of(text))
    if not text or text.isspace():
        assert chunks == []
        return
    assert "".join(text[chunk.start + chunk.overlap : chunk.end] for chunk in chunks) == text
    for chunk in chunks:
        assert 0 < chunk.end - chunk.start <= MAX_CHUNK
        assert 0 <= chunk.overlap <= OVERLAP
        assert chunk.heading.isprintable()


def test_a_chunk_has_the_headings_above_it() -> None:
    text = "intro\n\n# A\n\none\n\n### C\n\ntwo\n\n## B\n\nthree\n\n```sh\n# no heading\n```\n\n# D\n\nfour\n"
    assert [chunk.heading for chunk in chunks_of(text)] == ["", "A", "A > C", "A > B", "D"]


def test_a_chunk_is_cut_after_a_paragraph_then_a_sentence_then_a_word() -> None:
    paragraphs = "\n\n".join([f"{number} " + "word " * 100 for number in range(8)])
    starts = [paragraphs[chunk.start + chunk.overlap] for chunk in chunks_of(paragraphs)]
    assert all(start.isdigit() for start in starts)
    sentences = "This is a sentence of some words. " * 200
    assert all(sentences[: chunk.end].endswith(". ") for chunk in chunks_of(sentences))
    words = "word " * 1_000
    assert all(words[: chunk.end].endswith(" ") for chunk in chunks_of(words))
    assert [chunk.end - chunk.start for chunk in chunks_of("x" * 3_000)] == [1_200, 1_200, 900]


class CountedText(str):
    """Counts the characters that its slices copy."""

    __slots__ = ("copied",)

    def __getitem__(self, key: object) -> str:
        part = str.__getitem__(self, key)  # type: ignore[index]
        self.copied: int = getattr(self, "copied", 0) + len(part)
        return part


def test_cutting_copies_each_character_a_few_times_whatever_the_length() -> None:
    copied: list[float] = []
    for count in (1_000, 10_000):
        text = CountedText("words without a paragraph. " * count)
        assert len(list(chunks_of(text))) > count // 50
        copied.append(text.copied / len(text))
    assert copied[1] < 1.1 * copied[0] < 10
