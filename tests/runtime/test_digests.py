"""Digests of commands: equal for a command that is sent again, different for any other."""

from agentrail.core.vocabulary.commands import AttachPluginSent, ChangeToolsSent, SwitchModelSent
from agentrail.hooks.attachments import AttachedPlugin
from agentrail.models import File, FrozenObject, Image, Partial, Text
from agentrail.runtime.inbox.command_results import LONG_DATA, digest_of
from agentrail.tools import ToolSpec
from tests.kit import AbortSent, AnyInput, ApproveSent, PromptSent, RejectSent, SteerSent, StopSent


def attached(revision: int, *hooks: str) -> AttachedPlugin:
    return AttachedPlugin("P", "here:P", 900, False, frozenset(hooks), revision=revision)


def picture(data: str, media_type: str = "image/png") -> PromptSent:
    return PromptSent((Text("look"), Image(media_type, data)))


def test_without_long_data_it_is_the_same_in_every_process() -> None:
    assert digest_of(PromptSent((Text("hi"),))).hex() == "79f5db3f1e8bf5661ba46908e3762612"


def test_a_resend_has_the_digest_of_the_first() -> None:
    partial = Partial("so far")
    same: list[tuple[AnyInput, AnyInput]] = [
        (PromptSent((Text("hi"),)), PromptSent((Text("hi"),))),
        (picture("A" * LONG_DATA), picture("A" * LONG_DATA)),
        (picture("A" * (LONG_DATA + 4)), picture("A" * (LONG_DATA + 4))),
        (AbortSent("why"), AbortSent("why", partial=partial)),
        (ApproveSent("a1"), ApproveSent("a1", four_eyes=True)),
        (RejectSent("a1", "no"), RejectSent("a1", "no", four_eyes=True)),
        (SteerSent("this"), SteerSent("this", partial=partial)),
        (StopSent("bye"), StopSent("bye", partial)),
        (ChangeToolsSent((ToolSpec("t", "does"),), revision=1), ChangeToolsSent((ToolSpec("t", "does"),), revision=7)),
        (
            AttachPluginSent(attached(1, "before_tool", "after_turn")),
            AttachPluginSent(attached(2, "after_turn", "before_tool")),
        ),
        (
            SwitchModelSent("m", FrozenObject({"a": 1, "b": 2})),
            SwitchModelSent("m", FrozenObject({"b": 2, "a": 1})),
        ),
    ]
    for first, again in same:
        assert digest_of(first) == digest_of(again), first


def test_another_command_has_another_digest() -> None:
    others: list[AnyInput] = [
        PromptSent((Text("hi"),)),
        PromptSent((Text("hi"), Text(""))),
        PromptSent((Text("ho"),)),
        picture("A" * LONG_DATA),
        picture("A" * (LONG_DATA + 4)),
        picture("A" * LONG_DATA + "AAAB"),
        picture("A" * (LONG_DATA + 4), "image/gif"),
        PromptSent((File("image/png", "A" * (LONG_DATA + 4)),)),
        SteerSent("hi"),
        AbortSent("hi"),
        StopSent("hi"),
        SwitchModelSent("m", FrozenObject({"a": 1})),
        SwitchModelSent("m", FrozenObject({"a": True})),
        AttachPluginSent(attached(1, "before_tool")),
        AttachPluginSent(attached(1, "after_tool")),
    ]
    assert len({digest_of(other) for other in others}) == len(others)
