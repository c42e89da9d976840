"""Two hundred texts that try to be more than text: markup, links, marks of terminals, characters that turn a line."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Final

ACTION: Final = "window.owned=1"
"""What each text tries to do; a page that shows it as text has no `owned`."""

_TAGS: Final = (
    f"<script>{ACTION}</script>",
    f"<img src=x onerror={ACTION}>",
    f"<svg onload={ACTION}></svg>",
    f"<svg><script>{ACTION}</script></svg>",
    f"<svg><animate onbegin={ACTION} attributeName=x dur=1s></svg>",
    f'<iframe srcdoc="<script>parent.{ACTION}</script>"></iframe>',
    f"<iframe src=javascript:parent.{ACTION}></iframe>",
    f"<body onload={ACTION}>",
    f"<details open ontoggle={ACTION}>x</details>",
    f"<input autofocus onfocus={ACTION}>",
    f"<video><source onerror={ACTION}></video>",
    f"<audio src=x onerror={ACTION}></audio>",
    f"<object data=javascript:{ACTION}></object>",
    f"<embed src=javascript:{ACTION}>",
    f"<form action=javascript:{ACTION}><button autofocus>x</button></form>",
    f"<math><a href=javascript:{ACTION}>x</a></math>",
    f"<marquee onstart={ACTION}>x</marquee>",
    f"<style>@import 'javascript:{ACTION}';</style>",
    f"<link rel=stylesheet href=javascript:{ACTION}>",
    f"<meta http-equiv=refresh content=0;url=javascript:{ACTION}>",
    "<base href=https://example.invalid/>",
    f"<template><script>{ACTION}</script></template>",
    f"<noscript><p title='</noscript><img src=x onerror={ACTION}>'></noscript>",
    f"<textarea></textarea><img src=x onerror={ACTION}>",
    f"--><img src=x onerror={ACTION}><!--",
    f"]]><img src=x onerror={ACTION}>",
)

_AROUND: Final = ("{}", "# {}", "> {}", "`{}`", "| a |\n| --- |\n| {} |")
"""Markdown around a tag."""

_TARGETS: Final = (
    f"javascript:{ACTION}",
    f"JaVaScRiPt:{ACTION}",
    f"java\tscript:{ACTION}",
    f"\x01javascript:{ACTION}",
    f"javascript&colon;{ACTION}",
    f"&#106;avascript:{ACTION}",
    f"javascript://example.org/%0a{ACTION}",
    f"data:text/html,<script>{ACTION}</script>",
    "data:text/html;base64,PHNjcmlwdD5vd25lZD0xPC9zY3JpcHQ+",
    f"vbscript:{ACTION}",
    "file:///etc/passwd",
    f"blob:{ACTION}",
    f"view-source:javascript:{ACTION}",
    "https://user:password@example.org/",
)

_LINKS: Final = ("[x]({})", "![x]({})", "<{}>", "[x]: {}\n\n[x]")

_MARKS: Final = (
    "\x1b[2J\x1b[H",
    "\x1b]0;owned\x07",
    "\x1b]8;;javascript:1\x07x\x1b]8;;\x07",
    "\u202egnp.exe",
    "a\u2066b\u2069",
    "\u200b\u200d\ufeff",
    "\x00",
    "\x08\x08\x7f",
    "\u2028\u2029",
    "\U000e0041\U000e0042",
    "Z\u0351\u036b\u0343\u036a" * 20,
    "{{1}} ${1} #{1} <%= 1 %>",
    "&lt;script&gt; &amp;lt;",
    "__proto__ constructor prototype",
    "%3Cscript%3E",
    "\ud83d\ude00" * 200,
)


def _texts() -> Iterator[str]:
    for tag, around in product(_TAGS, _AROUND):
        yield around.format(tag)
    for target, link in product(_TARGETS, _LINKS):
        yield link.format(target)
    yield from _MARKS


TEXTS: Final = tuple(_texts())

MARKED_NAME: Final = f"<img src=x onerror={ACTION}>"
"""Name of a tool that there is not."""
