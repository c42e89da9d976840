"""Mutants made in the source: options, rules of the pipeline, and rules of the core."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec, spec_from_loader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final

from property_tests.mutants import Edit
from property_tests.mutants.lives import EDITS_OF_LIVES

PIPELINE: Final = "agentrail.hooks.pipeline"
OPTIONS: Final = "agentrail.core.vocabulary.options"
LIVE: Final = "agentrail.hooks.live"

FIGURES: Final = (
    ("max_turns: int = 100", "max_turns: int = 101"),
    ("max_turn_seconds: float | None = None", "max_turn_seconds: float | None = 30.0"),
    ("max_prompt_queue: int = 100", "max_prompt_queue: int = 99"),
    ("max_steering_queue: int = 3", "max_steering_queue: int = 4"),
    ("max_interventions: int = 5", "max_interventions: int = 6"),
    ('on_prompt_while_held: str = "supersede"', 'on_prompt_while_held: str = "queue"'),
    ('on_repeat_unknown: str = "hold"', 'on_repeat_unknown: str = "allow"'),
    ("stall_timeout: float = 30.0", "stall_timeout: float = 31.0"),
    ("stall_limit: int = 2", "stall_limit: int = 3"),
    ("max_retries: int = 5", "max_retries: int = 6"),
    ("retry_base: float = 2.0", "retry_base: float = 2.5"),
    ("retry_cap: float = 60.0", "retry_cap: float = 61.0"),
    ("tool_max_retries: int = 2", "tool_max_retries: int = 1"),
    ("max_parallel_tools: int = 8", "max_parallel_tools: int = 7"),
    ("tool_grace: float = 0.25", "tool_grace: float = 0.3"),
    ("repeat_pattern: int = 3", "repeat_pattern: int = 2"),
    ("file_loop_warn: int = 5", "file_loop_warn: int = 6"),
    ("file_loop_abort: int = 8", "file_loop_abort: int = 7"),
    ("compact_at: float = 0.8", "compact_at: float = 0.85"),
    ("compact_to: float = 0.5", "compact_to: float = 0.6"),
)
"""Each option of the machine, its default changed a little."""

IN_THE_PIPELINE: Final = (
    # what is accumulated
    ("texts=(*run.gathered.texts, answer.text)", "texts=(answer.text, *run.gathered.texts)"),
    ("texts=(*run.gathered.texts, answer.text)", "texts=(answer.text,)"),
    ("emits=(*self.gathered.emits, *emits)", "emits=(*emits, *self.gathered.emits)"),
    ("emits=(*self.gathered.emits, *emits)", "emits=emits"),
    ("sections=(*run.gathered.sections, (answer.key, answer.text))", "sections=((answer.key, answer.text),)"),
    ("kept = Gathered(emits=kept.emits)", "kept = Gathered()"),
    ("kept = Gathered(emits=kept.emits)", "pass"),
    ("verdict is Verdict.ABORT or verdict is Verdict.BLOCK or", "verdict is Verdict.ABORT or"),
    ("verdict is Verdict.ABORT or verdict is Verdict.BLOCK or", "verdict is Verdict.BLOCK or"),
    ("stopped.but(gathered=stopped.gathered.but(emits=self.gathered.emits))", "stopped"),
    ("return stopped.but(states=tuple(self.changed.items()))", "return stopped"),
    ("self.states[entry.place] = self.changed[entry.place] = new", "self.states[entry.place] = new"),
    # what later plugins see
    ("run.hook = run.hook.but(args=args)", "pass"),
    ("run.hook = run.hook.but(messages=messages)", "pass"),
    ("run.hook = run.hook.but(result=answer.result)", "pass"),
    ("return hook.but(args=gathered.args)", "return hook"),
    ("return hook.but(messages=gathered.messages)", "return hook"),
    ("return hook.but(result=gathered.result)", "return hook"),
    ("return hook.but(asked=place.asked, answer=place.answer)", "return hook"),
    # who is asked
    ("                return stopped\n        return None", "                return stopped\n            return None"),
    ("if entry.place < place.seat:", "if entry.place <= place.seat:"),
    ("behind = Place(entry.place + 1, run.final)", "behind = Place(entry.place, run.final)"),
    ("behind = Place(entry.place + 1, run.final)", "behind = Place(entry.place + 2, run.final)"),
    ("behind = Place(entry.place + 1, run.final)", "behind = Place(entry.place + 1)"),
    ("Pause(Place(entry.place), ", "Pause(Place(entry.place + 1), "),
    # guards
    ("        self.final = True\n", "        pass\n"),
    ("critical and entry.place < self.gathered.replaced_at)", "critical)"),
    ("if entry.seat.critical and entry.place < self", "if entry.place < self"),
    ("any(entry.seat.critical and entry.place < behind for entry in entries)", "False"),
    ("stopped is not None and not self._must_ask_again(entries)", "stopped is not None"),
    ("if stopped is not None and stopped.verdict is not Verdict.SKIP:", "if stopped is not None:"),
    ("replaced_at=entry.place\n", "replaced_at=-1\n"),
    ("or is_same(args, run.hook.args)", ""),
    # consent
    ("consented = entry.seat.key in run.consent.holders and approved", "consented = False"),
    ("consented = entry.seat.key in run.consent.holders and approved", "consented = approved"),
    ("in run.consent.holders and approved", "in run.consent.holders"),
    ("(hook.name, answer.family) in run.consent.always)", "False)"),
    ("approved=approved, final=self.final", "approved=False, final=self.final"),
    ("approved=approved, final=self.final", "approved=approved, final=False"),
    # what breaks
    ("if type(answer) not in MATRIX[self.hook.moment]:", "if False:"),
    ("if entry.seat.critical else Verdict.PASS", "if True else Verdict.PASS"),
    ("self.errors.append(PluginError(entry.seat.key, moment, problem))", "pass"),
    ("self.storable(new)", "None"),
    ('raise BrokenPlugin(entry.seat.key, run.hook.moment, f"it chose', '(f"it chose'),
    ("if malformed is not None:", "if False:"),
    # emitting
    ('FrozenObject({"user_data": ctx.user_data, **frozen})', "frozen"),
    ('FrozenObject({"user_data": ctx.user_data, **frozen})', 'FrozenObject({**frozen, "user_data": ctx.user_data})'),
    ("if NO_USER_DATA in frozen:", "if False:"),
)
"""Rules of the pipeline, each reversed or left out."""

IN_THE_CORE: Final = (
    ("machine.requests", 'text = "\\n\\n".join(gathered.texts)', 'text = "\\n".join(gathered.texts)'),
    ("machine.prompts", 'text = "\\n\\n".join(texts)', 'text = "\\n".join(texts)'),
    ("machine.steering", 'more = "\\n\\n".join(added)', 'more = "\\n".join(added)'),
    ("machine.steering", '"\\n\\n".join(text.text', '"\\n".join(text.text'),
    ("machine.tool_runs", '"\\n\\n".join(text for _, text in texts)', '"\\n".join(text for _, text in texts)'),
    ("machine.draft", "sections.pop(key, None)", "pass"),
    ("machine.draft", "            if text is not None:\n", "            if True:\n"),
    ("machine.draft", "s.turn = s.turn.but(model=switch.model, options=switch.options, spares=())", "pass"),
    ("machine.draft", "if (model, options) != (s.model, s.model_options):", "if True:"),
    ("machine.flow", "if decided.verdict is not Verdict.HOLD and decided", "if decided"),
    ("machine.flow", "for seat in s.seats if seat.key != ref)", "for seat in s.seats)"),
    ("machine.flow", "seat.priority < Priority.CORE and seat.key != asker", "seat.key != asker"),
    ("machine.flow", "seat.priority < Priority.CORE and seat.key != asker", "seat.priority < Priority.CORE"),
    ("machine.flow", " and s.stopping is None:", ":"),
    ("machine.endings", "if sent.clear_queue:", "if False:"),
    ("machine.endings", 'if sent.kill_tools == "all":', "if False:"),
    ("machine.prompts", "    _steering_to_queue(w)\n    if s.stopping", "    if s.stopping"),
    ("machine.endings", "    cancel_compaction(w)\n    let_go", "    let_go"),
    ("machine.endings", "if call.call_id not in lingering:", "if True:"),
    ("machine.tool_results", 'if kill_tools == "none":', "if False:"),
    ("machine.tool_results", 'return kill_tools == "killable" and', "return False and"),
    ("machine.tool_results", "and not (call.spec is not None and call.spec.immune):", ":"),
    ("machine.approvals", "if attached is None or attached.revision != call.revision:", "if attached is None:"),
    ("machine.approvals", "if sent.always and edited is None and", "if sent.always and"),
    ("machine.approvals", "place=START,", "place=hold.place,"),
    ("machine.approvals", "holders = call.holders | {hold.plugin}", "holders = call.holders"),
    ("machine.tool_checks", "elif call.approved is not None and not is_same(args, call.approved):", "elif False:"),
    ("machine.tool_checks", "gathered = ruling.gathered.but(emits=())", "gathered = ruling.gathered"),
    ("machine.tool_checks", "elif call.approved is None and is_in_doubt(w, call.name, args):", "elif False:"),
    ("machine.tool_checks", "elif call.approved is None and is_in_doubt", "elif is_in_doubt"),
    ("machine.tool_checks", "gathered=ruling.gathered.but(emits=())), pause)", "gathered=ruling.gathered), pause)"),
    ("machine.tool_checks", "if warned else pause.hint", "if False else pause.hint"),
    ("machine.tool_checks", "ruling.by != HOLDER and is_in_doubt", "is_in_doubt"),
    ("machine.repeat_doubts", "REPEAT_TIMEOUT = 120.0", "REPEAT_TIMEOUT = 121.0"),
    ("machine.repeat_doubts", "call.spec.effect is EffectClass.UNSAFE", "True"),
    ("machine.repeat_doubts", "doubt.name == name and ", ""),
    ("machine.repeat_doubts", " and is_same(doubt.args, args)", ""),
    ("machine.repeat_doubts", "one.name != name or ", ""),
    ("machine.repeat_doubts", " or not is_same(one.args, args)", ""),
    ("machine.repeat_doubts", "        clear_up(w, doubt.name, doubt.args)\n", ""),
    ("machine.flow", "if is_in_doubt(w, request.name, args):", "if False:"),
    ("machine.tool_results", "remember(w, stray.doubt)", "pass"),
    ("machine.tool_results", ".but(doubt=doubt_about(w, call))", ""),
    ("machine.tool_runs", "if call.approved is not None:\n        clear_up", "if False:\n        clear_up"),
    ("machine.tool_runs", "        if not answered:\n", "        if True:\n"),
    ("machine.tool_runs", "        if not answered:\n", "        if False:\n"),
    ("machine.tool_runs", "        remember(w, lingered.doubt)\n        tell_of", "        tell_of"),
    (
        "machine.tool_runs",
        '        remember(w, doubt_about(w, call))\n        take_answer(w, call, err(f"stopped',
        '        take_answer(w, call, err(f"stopped',
    ),
    (
        "machine.tool_runs",
        '        remember(w, doubt_about(w, call))\n        take_answer(w, call, err(f"the',
        '        take_answer(w, call, err(f"the',
    ),
    ("machine.tool_results", "            remember(w, doubt_about(w, call))\n            give", "            give"),
    (
        "machine.tool_results",
        '                remember(w, doubt_about(w, call))\n                give_error(w, call, f"stopped: {why}',
        '                give_error(w, call, f"stopped: {why}',
    ),
    ("machine.tool_runs", "if any(goes_on", "if all(goes_on"),
    ("machine.tool_runs", "decisions[-1][0]", "decisions[0][0]"),
    ("machine.tool_runs", "if writers and touches_files(call.spec):", "if False:"),
    ("machine.turn_clock", "s.turn = s.turn.but(deadline_left=max(0, due - w.at))", "pass"),
    ("vocabulary.state", "return running + len(self.lingering)", "return running"),
    ("machine.prompts", "    s.deafness = ()\n", ""),
    ("machine.responses", "max(back_off * (0.5 + w.random / 2), asked_to_wait)", "back_off"),
    ("machine.responses", "2.0 ** (tried - 1)", "2.0 * tried"),
    ("machine.step", "if not isinstance(effect, StartCall | CarryOut)", "if True"),
    ("machine.reconfiguring", 'if not (old.kind == change.kind == "update" and old.key == change.key)', "if True"),
)
"""Rules of the core, each reversed or left out."""

IN_THE_JUDGE: Final = (
    ("if failed >= MAX_FAILURES:", "if False:"),
    ("broke_critical = entry.seat.key if entry.seat.critical else broke_critical", "pass"),
)
"""Rules for asking plugins with `on_event`, each reversed or left out."""

EDITS: Final = (
    *(Edit(OPTIONS, old, new) for old, new in FIGURES),
    *(Edit(PIPELINE, old, new) for old, new in IN_THE_PIPELINE),
    *(Edit(f"agentrail.core.{module}", old, new) for module, old, new in (*IN_THE_CORE, *EDITS_OF_LIVES)),
    *(Edit(LIVE, old, new) for old, new in IN_THE_JUDGE),
)


def edited(edit: Edit, origin: str | None) -> str:
    """Return the edited source of the file *origin*; raise `StaleEditError` unless the text to replace occurs once."""
    source = Path(origin).read_text(encoding="utf-8") if origin is not None else ""
    if source.count(edit.old) != 1:
        raise StaleEditError(edit, source.count(edit.old))
    return source.replace(edit.old, edit.new)


def stale() -> Iterator[StaleEditError]:
    """Yield an error for each edit that does not fit the source any more."""
    for edit in EDITS:
        found = find_spec(edit.module)
        try:
            edited(edit, found.origin if found is not None else None)
        except StaleEditError as error:
            yield error


class Editor(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import hook that imports one module with its source edited."""

    def __init__(self, edit: Edit) -> None:
        self._edit = edit

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of the edited module; `None` for any other."""
        if fullname != self._edit.module:
            return None
        found = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        return None if found is None else spec_from_loader(fullname, self, origin=found.origin)

    def exec_module(self, module: ModuleType) -> None:
        """Run the edited source in *module*."""
        exec(self.code(module), vars(module))  # noqa: S102 - our own source, edited

    def code(self, module: ModuleType) -> CodeType:
        """Return the edited source, compiled."""
        origin = module.__spec__.origin if module.__spec__ is not None else None
        return compile(edited(self._edit, origin), origin or "", "exec")

    def install(self) -> None:
        """Let the next import find the edited module."""
        sys.meta_path.insert(0, self)


class StaleEditError(Exception):
    """An edit does not fit the source any more."""

    def __init__(self, edit: Edit, count: int) -> None:
        super().__init__(f"{edit.old!r} stands {count} times in {edit.module}; mend property_tests/mutants/edits.py")
