"""Makes the description of the package from README.md.

An index of packages has none of the files that README.md links to. With `Source` among `project.urls`, relative links
become links into the repository at that address. Without it, their texts stay, and pictures are left out: an address
that nobody has given is not made up.
"""

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://|#)([^)\s]+)\)")


def described(text: str, source: str | None) -> str:
    """Return the *text* of the README with its relative links as links into *source*, or without them."""

    def link(match: re.Match[str]) -> str:
        picture, words, path = match.groups()
        if source is None:
            return "" if picture else words
        return f"{picture}[{words}]({source.rstrip('/')}/{'raw' if picture else 'blob'}/HEAD/{path})"

    return LINK.sub(link, text)


class ReadmeHook(MetadataHookInterface):
    """Gives the package its description."""

    def update(self, metadata: dict[str, object]) -> None:
        """Set `readme`."""
        urls = metadata.get("urls")
        source = urls.get("Source") if isinstance(urls, dict) else None
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": described(text, source)}
