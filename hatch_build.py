"""Makes the description of the package from README.md, and the console if it is not built yet.

An index of packages has none of the files that README.md links to. With `Source` among `project.urls`, relative links
become links into the repository at that address. Without it, their texts stay, and pictures are left out: an address
that nobody has given is not made up.
"""

import re
import shutil
import subprocess
from pathlib import Path

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
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


class ConsoleHook(BuildHookInterface[BuilderConfig]):
    """Builds the console, the page of the host, unless it is there.

    The page is no condition: without node, or if it cannot be built, the host has a plain page in its place.
    """

    def initialize(self, version: str, build_data: dict[str, object]) -> None:
        """Run npm, except for an editable installation, which is made to work on the code: `make console` is for it."""
        del build_data
        console = Path(self.root) / "agentrail" / "console"
        if version == "editable" or (console / "static" / "index.html").exists() or not (console / "web").is_dir():
            return
        npm = shutil.which("npm")
        if npm is None:
            self.app.display_warning("The console is not built, because npm is not installed.")
            return
        for arguments in (["ci", "--ignore-scripts", "--no-audit", "--no-fund"], ["run", "build"]):
            if subprocess.run([npm, *arguments], cwd=console / "web", check=False).returncode:  # noqa: S603 - ours
                self.app.display_warning("The console could not be built; the package is made without it.")
                return
