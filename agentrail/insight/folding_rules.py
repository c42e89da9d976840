"""`FoldingRule`: by which rule the answers of several plugins became one ruling."""

from __future__ import annotations

from enum import Enum


class FoldingRule(Enum):
    """The rule that decided a run of a hook; its value is the rule in one sentence."""

    NOBODY_ASKED = "no plugin has this hook, so it passes"
    ALL_PASSED = "every plugin that was asked let it pass"
    ADDED_UP = "what plugins add is put together, in their order"
    LAST_REPLACEMENT = "each plugin sees what the ones before it replaced, and the last replacement counts"
    BLOCK = "a block ends the run: later plugins are not asked, and what was decided before is dropped"
    ABORT = "an abort ends the run: later plugins are not asked, and what was decided before is dropped"
    SKIP = "a skip ends the run: later plugins are not asked, and what was decided before stands"
    HOLD = "a hold pauses the run until a person decides"
    ASK = "a plugin that asks pauses the run, and goes on with the answer at its own place"
    BROKE = "a critical plugin that breaks refuses what it was asked about"
    ASKED_AGAIN = "a critical plugin is asked again about arguments that were replaced behind it"
    REPLACED_AGAIN = "arguments may not be replaced again when the critical plugins have ruled on the final ones"
    APPROVED = "a person approved exactly these arguments, so this plugin does not hold them again"
    APPROVED_ALWAYS = "a person approved this family of commands for always, so it is not held"
    SCHEMA = "arguments that do not fit the tool's schema are refused before any plugin is asked"
