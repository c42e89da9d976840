"""Inner names that many tests need, so that the modules that define them are merged and moved without the tests."""

from __future__ import annotations

from agentrail.core.vocabulary.commands import DONE as DONE
from agentrail.core.vocabulary.commands import AbortSent as AbortSent
from agentrail.core.vocabulary.commands import ApproveSent as ApproveSent
from agentrail.core.vocabulary.commands import CompactSent as CompactSent
from agentrail.core.vocabulary.commands import PromptSent as PromptSent
from agentrail.core.vocabulary.commands import Refused as Refused
from agentrail.core.vocabulary.commands import RejectSent as RejectSent
from agentrail.core.vocabulary.commands import SteerSent as SteerSent
from agentrail.core.vocabulary.commands import StopSent as StopSent
from agentrail.core.vocabulary.inputs import AnyInput as AnyInput
from agentrail.core.vocabulary.inputs import Arrival as Arrival
from agentrail.core.vocabulary.inputs import TimerFired as TimerFired
from agentrail.core.vocabulary.inputs import ToolReturned as ToolReturned
from agentrail.core.vocabulary.state import Phase as Phase
from agentrail.core.vocabulary.state import Setup as Setup
from agentrail.hooks.ruling import Ruling as Ruling
from agentrail.hooks.ruling import Verdict as Verdict
from agentrail.ports.failpoints import Failpoint as Failpoint
from agentrail.ports.failpoints import watching as watching
from agentrail.testing.conformance.journal_tests import opened as opened
from agentrail.testing.conformance.journal_tests import prompted as prompted
from agentrail.testing.conformance.journal_tests import run_of as run_of
from agentrail.testing.impure_calls import collecting as collecting
from agentrail.testing.scripted import Element as Element
from agentrail.values.json import EMPTY as EMPTY
from agentrail.values.json import freeze as freeze
from agentrail.values.json import freeze_object as freeze_object
from agentrail.values.json import thaw as thaw
from agentrail.values.usage import NOTHING_USED as NOTHING_USED
