"""What a command was, in 16 bytes: enough to see whether a resend is the same, whatever the size of the first."""

from __future__ import annotations

from hashlib import blake2b

from agentrail.core.vocabulary.commands import (
    AbortSent,
    AttachPluginSent,
    ChangeToolsSent,
    PromptSent,
    SteerSent,
    StopSent,
    UpdatePluginSent,
)
from agentrail.core.vocabulary.inputs import AnyInput
from agentrail.values.json import canonical
from agentrail.values.stream import NOTHING_YET

SIZE = 16


def digest_of(given: AnyInput) -> bytes:
    """Return the same for two inputs that are one command; what the shell adds does not count."""
    from agentrail.codec import encode  # noqa: PLC0415 - a caller who gives no command ids need not pay for it

    text = canonical(encode(_bare(given)))
    return blake2b(text.encode(errors="surrogatepass"), digest_size=SIZE).digest()


def _bare(given: AnyInput) -> AnyInput:
    if isinstance(given, PromptSent):
        return given.but(cleared=False)
    if isinstance(given, AbortSent):
        return given.but(partial=NOTHING_YET, dropped=())
    if isinstance(given, SteerSent | StopSent):
        return given.but(partial=NOTHING_YET)
    if isinstance(given, ChangeToolsSent):
        if given.source:  # one that is attached: which tools it has is not the caller's to say
            return ChangeToolsSent(source=given.source)
        return given.but(revision=0)
    if isinstance(given, AttachPluginSent | UpdatePluginSent):
        return given.but(seat=given.seat.but(revision=0))
    return given
