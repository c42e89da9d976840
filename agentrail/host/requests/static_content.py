"""`StaticContent`: content that stays the same while the server runs, with an `ETag`."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from hashlib import sha256

from attrs import field, frozen

from agentrail.host.requests.http_messages import Headers, HttpRequest, HttpResponse


@frozen
class StaticContent:
    """A page, script or picture that the server has in memory."""

    content: bytes = field(repr=False)
    media_type: str
    """With its charset, if it is text: `text/html; charset=utf-8`."""
    headers: Headers = ()
    """Further headers of the answer."""
    etag: str = field(init=False)

    def __attrs_post_init__(self) -> None:
        digest = f'"{urlsafe_b64encode(sha256(self.content).digest()[:18]).decode()}"'
        object.__setattr__(self, "etag", digest)

    def answer(self, request: HttpRequest) -> HttpResponse:
        """Return 304 if the client has this content already (`If-None-Match`), and otherwise the content."""
        headers = (("etag", self.etag), ("cache-control", "no-cache"))
        if self.is_known(request.header("if-none-match")):
            return HttpResponse(304, headers)
        more = (("content-type", self.media_type), ("x-content-type-options", "nosniff"))
        return HttpResponse(200, headers + more + self.headers, self.content)

    def is_known(self, tags: str | None) -> bool:
        """Whether *tags*, a value of `If-None-Match`, has the tag of this content."""
        if tags is None:
            return False
        return tags.strip() == "*" or self.etag in (tag.strip().removeprefix("W/") for tag in tags.split(","))
