"""`StaticContent`: content that stays the same while the server runs, with an `ETag`."""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Final

from attrs import field, frozen

from agentrail.host.requests.http_messages import Headers, HttpRequest, HttpResponse

_NEVER: Final = re.compile(r"q=0(\.0*)?", re.IGNORECASE)
"""The weight of a coding that the client does not take."""


@frozen
class StaticContent:
    """A page, script or picture that the server has in memory."""

    content: bytes = field(repr=False)
    media_type: str
    """With its charset, if it is text: `text/html; charset=utf-8`."""
    headers: Headers = ()
    """Further headers of the answer."""
    gzipped: bytes = field(default=b"", repr=False)
    """The content as gzip has it, for clients that take that; empty if there is none."""
    caching: str = "no-cache"
    """Value of `Cache-Control`."""
    etag: str = field(init=False)

    def __attrs_post_init__(self) -> None:
        digest = f'"{urlsafe_b64encode(sha256(self.content).digest()[:18]).decode()}"'
        object.__setattr__(self, "etag", digest)

    def answer(self, request: HttpRequest) -> HttpResponse:
        """Return 304 if the client has this content already (`If-None-Match`), and otherwise the content."""
        headers: Headers = (("etag", self.etag), ("cache-control", self.caching))
        if self.gzipped:
            headers += (("vary", "accept-encoding"),)
        if self.is_known(request.header("if-none-match")):
            return HttpResponse(304, headers)
        headers += (("content-type", self.media_type), ("x-content-type-options", "nosniff"), *self.headers)
        if self.gzipped and takes_gzip(request.header("accept-encoding")):
            return HttpResponse(200, (*headers, ("content-encoding", "gzip")), self.gzipped)
        return HttpResponse(200, headers, self.content)

    def is_known(self, tags: str | None) -> bool:
        """Whether *tags*, a value of `If-None-Match`, has the tag of this content."""
        if tags is None:
            return False
        return tags.strip() == "*" or self.etag in (tag.strip().removeprefix("W/") for tag in tags.split(","))


def takes_gzip(accepted: str | None) -> bool:
    """Whether *accepted*, a value of `Accept-Encoding`, names gzip, and not with a weight of 0."""
    for coding in (accepted or "").split(","):
        name, _, weight = coding.partition(";")
        if name.strip().lower() == "gzip":
            return not _NEVER.fullmatch(weight.strip())
    return False
