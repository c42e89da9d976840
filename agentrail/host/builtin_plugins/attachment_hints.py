"""`AttachmentHints`: a host plugin that tells the model which files came with a message, and where they are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Final, cast

from agentrail.errors import WrongType
from agentrail.host.plugins.host_plugin import HostPlugin
from agentrail.host.plugins.plugin_values import Attachment
from agentrail.values.argument_checks import checked

INTRODUCTION: Final = "These files came with the message. They are in your sandbox:"
MEDIA_WANTED: Final = 'a list of beginnings of media types, such as `["image/"]`'


class AttachmentHints(HostPlugin):
    """Tells the model which files came with a message: name, media type, size, and the path for its tools.

    Give it to the host, and file tools to the session: `tools=standard_tools()`, in the session's `sandbox`. There is a
    line for each file, in front of the message. Names are written as JSON strings, so no name can begin a line of its
    own. The same files give the same text, so a prompt that is sent again is the same prompt.
    """

    name = "attachment-hints"

    @checked
    def __init__(self, *, introduction: str = INTRODUCTION, leave_out: Iterable[str] = ()) -> None:
        """Write *introduction* before the list; files whose media type begins as one of *leave_out* are not in it."""
        media_types = None if isinstance(leave_out, str) else tuple(cast("Iterable[object]", leave_out))
        if media_types is None or not all(isinstance(media, str) and media for media in media_types):
            raise WrongType.of("leave_out", leave_out, MEDIA_WANTED)
        self._introduction = introduction
        self._left_out = cast("tuple[str, ...]", media_types)

    def attachment_handler(self, files: Sequence[Attachment]) -> str | None:
        """Return the list of the files; `None` if all are left out."""
        lines = [_line(file) for file in files if not file.mime_type.startswith(self._left_out)]
        return "\n".join([self._introduction, *lines]) if lines else None


def _line(file: Attachment) -> str:
    name = json.dumps(file.name, ensure_ascii=False)
    return f"- {name} ({file.mime_type}, {file.size_kb} KiB): {file.path}"
