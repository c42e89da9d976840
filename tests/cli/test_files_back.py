"""What a person is told of files that come back."""

from __future__ import annotations

from agentrail.cli.talk.files_back import MOST_FILES, REWINDS, ROWS, files_named, rewind_named, rows_of
from agentrail.sandboxes import LeftOutFile, RewindPreview, RewoundFile


def test_what_comes_back_stays_and_cannot_is_told() -> None:
    files = (RewoundFile("a.txt", "restored"), RewoundFile("b\x1b[2J", "removed"))
    preview = RewindPreview(files, ("mine.txt",), (LeftOutFile("big.bin", "it is too large"),))
    assert rows_of(preview) == (
        "  comes back: a.txt (as it was)",
        "  comes back: b\\u001b[2J (gone, as it was new)",
        "  stays, as somebody changed it since: mine.txt",
        "  cannot come back: big.bin (it is too large)",
    )
    assert rows_of(RewindPreview()) == ("  no file was changed since",)
    many = rows_of(RewindPreview(edited=tuple(map(str, range(MOST_FILES + 3)))))
    assert len(many) == MOST_FILES + 1
    assert many[-1] == "  … 3 more"


def test_each_choice_has_its_row() -> None:
    assert [row.split()[1].strip(":") for row in ROWS] == list(REWINDS)
    assert [rewind_named(name) for name in ("both", "file", "")] == ["both", None, None]


def test_files_are_named_only_if_others_stay() -> None:
    """A turn may change more files than a call of `rewind` takes paths."""
    files = (RewoundFile("a.txt", "restored"), RewoundFile("b.txt", "removed"))
    assert files_named(RewindPreview(files)) is None
    assert files_named(RewindPreview(files, ("mine.txt",))) == ["a.txt", "b.txt"]
