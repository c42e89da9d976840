"""`open_fence`: which block of code is open after a line of Markdown."""

from __future__ import annotations


def open_fence(fence: str, mark: str, after: str) -> str:
    """Return the fence of the block of code that is open after a line of *mark* and *after*; empty if none is.

    *fence* is the one that is open before it. As CommonMark has it, a block ends at a line of the characters with which
    it began, as many of them or more, and nothing else; what follows backticks at its beginning has none.
    """
    if not fence:
        return "" if mark[0] == "`" and "`" in after else mark
    return "" if mark.startswith(fence) and not after.strip() else fence
