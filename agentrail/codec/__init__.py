"""Converts values to JSON and back, strictly: nothing is coerced, ignored or guessed.

A module is imported when one of its names is first used: reading plugin states needs cattrs, and nothing else does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrail.lazy import lazily

if TYPE_CHECKING:
    from agentrail.codec.plugin_types import decode_state as decode_state
    from agentrail.codec.plugin_types import revive as revive
    from agentrail.codec.states import Stored as Stored
    from agentrail.codec.states import data_of as data_of
    from agentrail.codec.states import encode_state as encode_state
    from agentrail.codec.states import storable as storable
    from agentrail.codec.text import DOCUMENT_DEPTH as DOCUMENT_DEPTH
    from agentrail.codec.text import from_own_text as from_own_text
    from agentrail.codec.text import from_text as from_text
    from agentrail.codec.text import to_text as to_text
    from agentrail.codec.type_hints import hints_of as hints_of
    from agentrail.codec.type_hints import readable as readable
    from agentrail.codec.upcasting import FORMAT as FORMAT
    from agentrail.codec.upcasting import upcast as upcast
    from agentrail.codec.values import decode as decode
    from agentrail.codec.values import decode_envelope as decode_envelope
    from agentrail.codec.values import encode as encode
    from agentrail.codec.values import encode_envelope as encode_envelope
    from agentrail.codec.values import encode_in_order as encode_in_order
    from agentrail.codec.values import encode_text as encode_text
    from agentrail.codec.values import read as read
    from agentrail.codec.values import write as write
    from agentrail.hooks.attachments import STATE_LIMIT as STATE_LIMIT

_HOMES = {
    "DOCUMENT_DEPTH": "agentrail.codec.text",
    "FORMAT": "agentrail.codec.upcasting",
    "STATE_LIMIT": "agentrail.hooks.attachments",
    "Stored": "agentrail.codec.states",
    "data_of": "agentrail.codec.states",
    "decode": "agentrail.codec.values",
    "decode_envelope": "agentrail.codec.values",
    "decode_state": "agentrail.codec.plugin_types",
    "encode": "agentrail.codec.values",
    "encode_envelope": "agentrail.codec.values",
    "encode_in_order": "agentrail.codec.values",
    "encode_state": "agentrail.codec.states",
    "encode_text": "agentrail.codec.values",
    "from_own_text": "agentrail.codec.text",
    "from_text": "agentrail.codec.text",
    "hints_of": "agentrail.codec.type_hints",
    "read": "agentrail.codec.values",
    "readable": "agentrail.codec.type_hints",
    "revive": "agentrail.codec.plugin_types",
    "storable": "agentrail.codec.states",
    "to_text": "agentrail.codec.text",
    "upcast": "agentrail.codec.upcasting",
    "write": "agentrail.codec.values",
}

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]  # the names are the keys of `_HOMES`
__getattr__, __dir__ = lazily(__name__, _HOMES)
