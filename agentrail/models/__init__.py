"""Everything for a model of your own: the protocol, its requests and responses; and usage, prices and limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrail.lazy import lazily

if TYPE_CHECKING:
    from agentrail.adapters.models.demo import DemoModel as DemoModel
    from agentrail.adapters.models.providers import PROVIDERS as PROVIDERS
    from agentrail.adapters.models.providers import Provider as Provider
    from agentrail.app.model_registry import Factory as Factory
    from agentrail.app.pricing import Prices as Prices
    from agentrail.ports.model import ChecksOptions as ChecksOptions
    from agentrail.ports.model import EmitChunk as EmitChunk
    from agentrail.ports.model import Model as Model
    from agentrail.ports.model import ModelChain as ModelChain
    from agentrail.values.content import Data as Data
    from agentrail.values.content import File as File
    from agentrail.values.content import Image as Image
    from agentrail.values.content import Part as Part
    from agentrail.values.content import Text as Text
    from agentrail.values.content import Thinking as Thinking
    from agentrail.values.content import ToolCall as ToolCall
    from agentrail.values.json import FrozenObject as FrozenObject
    from agentrail.values.json import Json as Json
    from agentrail.values.json import JsonObject as JsonObject
    from agentrail.values.messages import AskModel as AskModel
    from agentrail.values.messages import AssistantMessage as AssistantMessage
    from agentrail.values.messages import Compactor as Compactor
    from agentrail.values.messages import History as History
    from agentrail.values.messages import Leaving as Leaving
    from agentrail.values.messages import Message as Message
    from agentrail.values.messages import Origin as Origin
    from agentrail.values.messages import StopReason as StopReason
    from agentrail.values.messages import ToolMessage as ToolMessage
    from agentrail.values.messages import UserMessage as UserMessage
    from agentrail.values.stream import PING as PING
    from agentrail.values.stream import CallChunk as CallChunk
    from agentrail.values.stream import Chunk as Chunk
    from agentrail.values.stream import Failure as Failure
    from agentrail.values.stream import FailureKind as FailureKind
    from agentrail.values.stream import ModelRequest as ModelRequest
    from agentrail.values.stream import Partial as Partial
    from agentrail.values.stream import PingChunk as PingChunk
    from agentrail.values.stream import Response as Response
    from agentrail.values.stream import TextChunk as TextChunk
    from agentrail.values.stream import ThinkingChunk as ThinkingChunk
    from agentrail.values.stream import UsageChunk as UsageChunk
    from agentrail.values.tools import ToolSpec as ToolSpec
    from agentrail.values.usage import Limit as Limit
    from agentrail.values.usage import Price as Price
    from agentrail.values.usage import Usage as Usage

_HOMES = {
    "AskModel": "agentrail.values.messages",
    "AssistantMessage": "agentrail.values.messages",
    "CallChunk": "agentrail.values.stream",
    "ChecksOptions": "agentrail.ports.model",
    "Chunk": "agentrail.values.stream",
    "Compactor": "agentrail.values.messages",
    "Data": "agentrail.values.content",
    "DemoModel": "agentrail.adapters.models.demo",
    "EmitChunk": "agentrail.ports.model",
    "Factory": "agentrail.app.model_registry",
    "Failure": "agentrail.values.stream",
    "FailureKind": "agentrail.values.stream",
    "FrozenObject": "agentrail.values.json",
    "History": "agentrail.values.messages",
    "File": "agentrail.values.content",
    "Image": "agentrail.values.content",
    "Json": "agentrail.values.json",
    "JsonObject": "agentrail.values.json",
    "Leaving": "agentrail.values.messages",
    "Limit": "agentrail.values.usage",
    "Message": "agentrail.values.messages",
    "Model": "agentrail.ports.model",
    "ModelChain": "agentrail.ports.model",
    "ModelRequest": "agentrail.values.stream",
    "Origin": "agentrail.values.messages",
    "PING": "agentrail.values.stream",
    "PROVIDERS": "agentrail.adapters.models.providers",
    "Part": "agentrail.values.content",
    "Partial": "agentrail.values.stream",
    "PingChunk": "agentrail.values.stream",
    "Price": "agentrail.values.usage",
    "Prices": "agentrail.app.pricing",
    "Provider": "agentrail.adapters.models.providers",
    "Response": "agentrail.values.stream",
    "StopReason": "agentrail.values.messages",
    "Text": "agentrail.values.content",
    "TextChunk": "agentrail.values.stream",
    "Thinking": "agentrail.values.content",
    "ThinkingChunk": "agentrail.values.stream",
    "ToolCall": "agentrail.values.content",
    "ToolMessage": "agentrail.values.messages",
    "ToolSpec": "agentrail.values.tools",
    "Usage": "agentrail.values.usage",
    "UsageChunk": "agentrail.values.stream",
    "UserMessage": "agentrail.values.messages",
}

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]  # the names are the keys of `_HOMES`
__getattr__, __dir__ = lazily(__name__, _HOMES)
