"""Checks what hooks of host plugins return: each function returns the value that the host uses, or raises."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias, cast

from agentrail.core.summary_request import lines_of
from agentrail.host.http11.http_messages import OWNED, WITHOUT_CONTENT
from agentrail.host.plugins.plugin_values import Allow, Deny, HandledResponse
from agentrail.values.content import File, Image, Text
from agentrail.values.fitting import fit_result
from agentrail.values.foreign import mended, named, number, plain_text, shown
from agentrail.values.json import freeze, freeze_object
from agentrail.values.messages import AssistantMessage, Message, ToolMessage, UserMessage
from agentrail.values.tools import Err, Ok

_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FORBIDDEN: Final = re.compile(r"[\x00-\x1f\x7f]")
LOWEST: Final = 200
HIGHEST: Final = 599
"""The statuses that a plugin may answer with."""
NO_BODY: Final = WITHOUT_CONTENT | {205}
"""The statuses that have no body."""


class UnfitAnswerError(TypeError):
    """A hook returned a value that its member of the contract does not have."""

    def __init__(self, found: object, wanted: str) -> None:
        none = found is None
        super().__init__(f"it returned {'nothing' if none else shown(found)}; it must return {wanted}")
        self.unquoted = f"it returned {'nothing' if none else f'a `{named(found)}`'}; it must return {wanted}"
        """The same without the value, which may quote the conversation."""


def nothing(found: object) -> None:
    """Return `None`; raise if *found* is anything else."""
    if found is not None:
        raise UnfitAnswerError(found, "nothing")


def text_or_nothing(found: object) -> str | None:
    """Return *found*, a text or `None`."""
    plain = plain_text(found)
    if plain is None and found is not None:
        raise UnfitAnswerError(found, "a text or None")
    return None if plain is None else mended(plain)


def answer_of(found: object) -> HandledResponse | None:
    """Return *found*, a `HandledResponse` or `None`, with its body frozen."""
    if found is None:
        return None
    if not isinstance(found, HandledResponse):
        raise UnfitAnswerError(found, "a `HandledResponse` or None")
    status = number(found.status)
    if type(status) is not int or not LOWEST <= status <= HIGHEST:
        raise UnfitAnswerError(found.status, f"a status from {LOWEST} to {HIGHEST}")
    if status in NO_BODY and found.body is not None:
        raise UnfitAnswerError(found.body, f"no body with the status {status}")
    return HandledResponse(status, freeze(found.body), _headers(found.headers))


def _headers(found: object) -> Mapping[str, str]:
    if not isinstance(found, Mapping):
        raise UnfitAnswerError(found, "headers as a mapping of texts")
    headers, seen = dict[str, str](), set[str]()
    for name, value in cast("Mapping[object, object]", found).items():
        named, valued = plain_text(name), plain_text(value)
        if named is None or _NAME.fullmatch(named) is None:
            raise UnfitAnswerError(name, "names of headers of letters, digits and `-`")
        if named.lower() in OWNED:
            raise UnfitAnswerError(name, "headers without those of the connection, which the host sets")
        if named.lower() in seen:
            raise UnfitAnswerError(name, "each header once, in capitals or not")
        seen.add(named.lower())
        if valued is None or _FORBIDDEN.search(valued) or not valued.isascii():
            raise UnfitAnswerError(value, "values of headers of printable ASCII characters")
        headers[named] = valued.strip(" ")
    return headers


def ruling_of(found: object) -> Allow | Deny:
    """Return *found*, an `Allow` or a `Deny`, with its arguments frozen."""
    match found:
        case Allow(input=None):
            return found
        case Allow(input=given):
            return Allow(freeze_object(given))
        case Deny(reason=reason):
            plain = plain_text(reason)
            if plain is None:
                raise UnfitAnswerError(reason, "a reason that is a text")
            return Deny(mended(plain))
        case _:
            raise UnfitAnswerError(found, "`Allow(…)` or `Deny(…)`")


def result_of(found: object) -> Ok | Err | None:
    """Return *found*, an `Ok`, an `Err` or `None`."""
    if found is None:
        return None
    fitted = fit_result(found) if isinstance(found, Ok | Err) else None
    if not isinstance(fitted, Ok | Err):
        raise UnfitAnswerError(found, "an `Ok`, an `Err` or None")
    return fitted


Additions: TypeAlias = tuple[str | AssistantMessage, ...]
"""Texts of the program and messages of the model that a context provider adds, in order."""


def additions_to(messages: Sequence[Message]) -> Callable[[object], tuple[Additions, Additions]]:
    """Return the function that reads what a context provider adds before and after the *messages* that it was shown."""
    return partial(_additions, messages)


def _additions(messages: Sequence[Message], found: object) -> tuple[Additions, Additions]:
    if not isinstance(found, list | tuple):
        raise UnfitAnswerError(found, "a list of texts and messages")
    front, behind = _around_shown(messages, cast("Sequence[object]", found))
    return tuple([_addition(messages, each) for each in front]), tuple([_addition(messages, each) for each in behind])


def _around_shown(messages: Sequence[Message], found: Sequence[object]) -> tuple[Sequence[object], Sequence[object]]:
    """Return what *found* has before and after all of *messages*, as in `[note, *messages]`.

    If it does not hold them, all of it stands after them.
    """
    count = len(messages)
    if count == 0 or len(found) < count:
        return (), found
    for start in range(len(found) - count + 1):
        if all(given is shown or given == shown for given, shown in zip(found[start:], messages, strict=False)):
            return found[:start], found[start + count :]
    return (), found


def _addition(messages: Sequence[Message], found: object) -> str | AssistantMessage:
    plain = plain_text(found)
    if plain is not None:
        return mended(plain)
    if found in messages:
        raise UnfitAnswerError(
            found, "additions, or additions and all messages that it was shown; its list holds some of these"
        )
    if isinstance(found, UserMessage | AssistantMessage | ToolMessage) and not any(
        isinstance(part, Image | File) for part in found.parts
    ):
        if isinstance(found, AssistantMessage) and not found.calls:
            return AssistantMessage((Text(mended(found.text)),))
        return mended(found.text if isinstance(found, UserMessage) else "\n".join(lines_of(found)))
    raise UnfitAnswerError(found, "texts, and messages of texts")
