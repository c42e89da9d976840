"""`PromptCache`: limits the marks with which a request asks its provider to cache its beginning."""

from __future__ import annotations

from typing import Final

import attrs
from attrs import field, frozen

from agentrail.errors import BadOptions
from agentrail.hooks.actions import Continue, SwitchModel
from agentrail.hooks.context import Context
from agentrail.hooks.hook_types import BeforeRequest
from agentrail.hooks.plugin import Plugin, Priority
from agentrail.plugins.options import check_count
from agentrail.values.json import FrozenObject
from agentrail.values.untrusted_values import brief, number

HAS_MARKS: Final = "anthropic:"
"""The beginning of the names of models whose provider has cache marks; all others cache without, or not at all."""

MAX_POINTS: Final = 4
"""The most marks that the provider takes."""


def _is_number_of_points(_: PromptCache, field: attrs.Attribute[int], value: int) -> None:
    count = number(value)
    if type(count) is not int or not 1 <= count <= MAX_POINTS:
        problem = f"its `{field.name}` is {brief(value)}; it must be a whole number from 1 to {MAX_POINTS}"
        raise BadOptions("PromptCache", f'{problem}; for no marks, give the model the option "cache": False')


@frozen
class PromptCache(Plugin[None]):
    """Limit the cache marks of requests, for providers that have such marks.

    A mark asks the provider to keep the request up to it, which costs more than reading it once, and less than reading
    it twice. Marks are no part of what a model reads, so they never change the beginning of a prompt.
    """

    max_points: int = field(default=3, validator=_is_number_of_points)
    """The most marks of a request, from 1 to 4: its end, that of the last request, sections, system prompt, tools."""
    min_tokens: int = field(default=1024, validator=check_count)
    """The fewest tokens, about, before a mark; with fewer, there is no mark at that place."""

    priority = Priority.CORE + 30

    def before_request(self, hook: BeforeRequest, state: None, ctx: Context) -> Continue[None] | SwitchModel[None]:
        """Set the option for cache marks on the model in use, once; no-op for a provider without such marks."""
        if not ctx.model.startswith(HAS_MARKS):
            return Continue()
        chosen = ctx.model_options.get("cache")
        marks = FrozenObject(points=self.max_points, min_tokens=self.min_tokens)
        if chosen is False or chosen == marks:
            return Continue()
        return SwitchModel(ctx.model, provider_options=FrozenObject({**ctx.model_options, "cache": marks}))
