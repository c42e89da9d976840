"""Scenes of tools and guards: what a tool shows, how large schemas and expressions may be, and what a guard reads."""

# ruff: noqa: SLF001 - what is kept, and not told, is looked at

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import _lru_cache_wrapper, cache
from pathlib import Path

import trio

from agentrail import Ask, Context, Continue, Options
from agentrail.adapters.journals.sql.file_type import _problem
from agentrail.adapters.models.demo import _quote, _report
from agentrail.adapters.models.providers import unsupported_media
from agentrail.app import spec
from agentrail.codec import plugin_states
from agentrail.core import context_window
from agentrail.core.audit import _around
from agentrail.events import AgentStart, Envelope
from agentrail.models import Compactor, Json, Text, ToolMessage
from agentrail.plugins import BeforeTool, EventLogger, PermissionPolicy, SecurityGuard, arguments
from agentrail.plugins.guards import output_filter
from agentrail.plugins.guards.permission_rules import problem_of, rules_of
from agentrail.plugins.shell.command_line import Commands, parse_commands
from agentrail.plugins.shell.lexer_words import SimpleCommand, Word
from agentrail.plugins.shell.paths import LOST, ResolvedPath, directory, fence, meets, pieces
from agentrail.plugins.shell.rule_context import NO
from agentrail.plugins.shell.rule_context import CommandScene as Where
from agentrail.ports import protocol_checks
from agentrail.runtime.shared import collector
from agentrail.runtime.shared.collector import fewer_full_collections
from agentrail.runtime.work import running_compaction
from agentrail.runtime.work.background_jobs import BackgroundJobs
from agentrail.sandboxes import Execution, Heard, MemorySandbox, Output
from agentrail.tools import ToolSpec, ok, validator_for
from agentrail.tools.builtin.file_tools import _pairs, nearest
from agentrail.tools.builtin.shell import _output_for_model
from agentrail.tools.builtin.subagent_tools import TaskTool, message_send, task_send, task_wait
from agentrail.tools.json_schema import explain, validation
from agentrail.tools.json_schema.validation import schema_problem
from agentrail.values import patterns
from agentrail.values.patterns import flaw_of
from agentrail.values.step_budget import CHECK_STEPS, Meter, TooManyStepsError
from tests.cells.scenes import executing
from tests.kit import freeze_object
from tests.limits import scene, smaller
from tests.limits.shell import Job
from tests.tools.builtin.rig import call

# What tools show


def files(**found: bytes) -> MemorySandbox:
    return MemorySandbox(found)


@scene("tools.builtin.search.MAX_LINE")
async def characters_of_a_line_that_grep_shows(size: int) -> bool:
    return "x" * size in await call("grep", files(a=b"x" * size), pattern="x")


@scene("tools.builtin.file_tools.MAX_LINE")
async def characters_of_a_line_of_a_file(size: int) -> bool:
    return "x" * size in await call("read_file", files(a=b"x" * size), path="a")


@scene("tools.builtin.file_tools.read_file.limit", 2000)
async def lines_of_a_file(count: int) -> bool:
    return f"{count}\tx" in await call("read_file", files(a=b"x\n" * count), path="a")


@scene("tools.builtin.workspace.MAX_TEXT")
async def characters_of_an_answer(size: int) -> bool:
    """Each line takes eight more characters: its number, and separators."""
    lines = [b"x" * 92] * 279
    shown_call = await call("read_file", files(a=b"\n".join([*lines, b"y" * (size - 279 * 100 - 8)])), path="a")
    return "yy" in shown_call


@scene("tools.builtin.search.grep.limit", 200)
async def lines_that_grep_finds(count: int) -> bool:
    return "stopped at" not in await call("grep", files(a=b"x\n" * count), pattern="x")


def many(count: int) -> MemorySandbox:
    return files(**{f"f{number}": b"" for number in range(count)})


@scene("tools.builtin.search.glob.limit", 500)
async def files_that_glob_finds(count: int) -> bool:
    return "there are more" not in await call("glob", many(count), pattern="f*")


@scene("tools.builtin.search.list_dir.limit", 500)
async def files_that_are_listed(count: int) -> bool:
    return "there are more" not in await call("list_dir", many(count))


@scene("tools.builtin.file_tools.SHOWN_LINES")
async def lines_of_a_text_that_is_not_unique(count: int) -> bool:
    reported_call = await call("edit_file", files(a=b"x\n" * count), path="a", old_text="x", new_text="y")
    assert "nothing was changed" in reported_call
    return "…" not in reported_call


@scene("tools.builtin.file_tools.MAX_SHOWN")
async def lines_that_come_near(count: int) -> bool:
    text = "\n".join(f"one line of many {number}" for number in range(count))
    return (await nearest(files(a=text.encode()), "a", text)).count("\t") == count


@scene("tools.builtin.file_tools.MAX_ANCHOR")
def characters_of_a_line_that_are_compared(size: int) -> bool:
    return "xy" in _pairs("x" * (size - 1) + "y")


@scene("tools.builtin.file_tools.MAX_COMPARED")
async def bytes_of_a_file_that_are_compared(size: int) -> bool:
    line = b"a line that is near\n"
    others = (b"z" * 8191 + b"\n") * (size // 8192)
    return "that is near" in await nearest(files(a=others[-(size - len(line)) :] + line), "a", line.decode())


async def is_whole(output: bytes, call_id: str = "c") -> bool:
    execution = Execution(0, Output(output, total=len(output)))
    text, _ = await _output_for_model(MemorySandbox(), execution, call_id)
    return text == output.decode()


@scene("tools.builtin.shell.MAX_BYTES")
async def bytes_of_an_output(size: int) -> bool:
    return await is_whole(b"x" * size)


@scene("tools.builtin.shell.MAX_LINES")
async def lines_of_an_output(count: int) -> bool:
    return await is_whole(b"x\n" * count)


class Talking(Job):
    """A command that has written *size* bytes."""

    def __init__(self, size: int) -> None:
        super().__init__(ends=True)
        self._size = size

    def heard(self, since: int = 0) -> Heard:
        return Heard(b"x" * self._size, self._size)


@scene("tools.builtin.shell.MAX_HEARD")
async def bytes_of_a_job_that_are_read_at_once(size: int) -> bool:
    async with trio.open_nursery() as nursery:
        jobs = BackgroundJobs(nursery)
        jobs.start("talk", Talking(size))
        return "there is more" not in await call("shell_output", MemorySandbox(), jobs=jobs, job="job-1")


@scene("tools.builtin.subagent_tools.MAX_SHOWN")
def characters_of_a_task(size: int) -> bool:
    tool = TaskTool({"finder": "Finds."}, 1.0)
    args = freeze_object({"agent": "finder", "description": "x" * size, "prompt": "go"})
    return validator_for(tool.spec)(args) is None


@scene("tools.builtin.subagent_tools.MAX_PEERS")
def tasks_beside_a_new_one(count: int) -> bool:
    tool = TaskTool({"finder": "Finds."}, 1.0, talk=True)
    args = freeze_object({"agent": "finder", "description": "x", "prompt": "go", "peers": ["p.c3"] * count})
    return validator_for(tool.spec)(args) is None


@scene("tools.builtin.subagent_tools.MAX_TASKS")
def tasks_that_one_call_waits_for(count: int) -> bool:
    return validator_for(task_wait.spec)(freeze_object({"tasks": ["p.c3"] * count})) is None


@scene("tools.builtin.subagent_tools.MAX_MESSAGE")
def characters_of_a_message(size: int) -> bool:
    return validator_for(message_send.spec)(freeze_object({"to": "p.c3", "message": "x" * size})) is None


@scene("tools.builtin.subagent_tools.MAX_MESSAGE")
def characters_of_a_message_below(size: int) -> bool:
    return validator_for(task_send.spec)(freeze_object({"task": "p.c3", "message": "x" * size})) is None


@scene("values.tools.ToolSpec.max_result_chars", 30_000)
def characters_of_a_result(size: int) -> bool:
    bench = executing()
    bench.returns("c3", ok("x" * size))
    return bench.state.history[-1].text == "x" * size


# Schemas


def misfit(schema: object, **args: object) -> str:
    """Return why arguments do not fit a schema; empty if they do."""
    return validator_for(ToolSpec("t", "t", freeze_object(schema)))(freeze_object(args)) or ""


CLOSED: dict[str, object] = {"type": "object", "properties": {}, "additionalProperties": False}


@scene("tools.json_schema.explain.MAX_FAULTS")
def faults_that_are_told(count: int) -> bool:
    return "more" not in misfit(CLOSED, **{f"k{number}": 1 for number in range(count)})


@scene("tools.json_schema.explain.MAX_CHARS")
def characters_of_faults(size: int) -> bool:
    """Each fault takes two more characters, for its separator."""
    alone = len(misfit(CLOSED, a="")) - 1
    lengths = [72] * 4
    lengths.append(size - sum(lengths) - 5 * (alone + 2))
    names = [letter * length for letter, length in zip("abcde", lengths, strict=True)]
    return "more" not in misfit(CLOSED, **dict.fromkeys(names, 1))


@scene("tools.json_schema.explain.LOOKED_AT")
def faults_that_are_counted(count: int) -> bool:
    return f"and {count - 5} more" in misfit(CLOSED, **{f"k{number:03}": 1 for number in range(count)})


@scene("tools.json_schema.explain._CLIPPED", 118)
def characters_of_a_known_name(size: int) -> bool:
    """The quotes count as two more characters."""
    return "x" * size in misfit(CLOSED | {"properties": {"x" * size: True}}, a=1)


@scene("tools.json_schema.explain._FEW")
def keys_of_an_object_that_is_shown(count: int) -> bool:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    return f"`k{count - 1}`" in misfit(schema, a={f"k{number}": 1 for number in range(count)})


@scene("tools.json_schema.explain.short_text[:60]", 58)
def characters_of_a_text_that_is_shown(size: int) -> bool:
    """The quotes count as two more characters."""
    return "x" * size in misfit({"type": "object", "properties": {"a": {"type": "integer"}}}, a="x" * size)


@scene("tools.json_schema.metered.MAX_NESTED")
def keywords_inside_each_other(count: int) -> bool:
    """Two of them are `properties` of the arguments, and `type` of the last definition; all others are `$ref`."""
    inside = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(count - 3)}
    defs = {**inside, f"d{count - 3}": {"type": "integer"}}
    schema = {"type": "object", "$defs": defs, "properties": {"a": {"$ref": "#/$defs/d0"}}}
    return "cannot be checked" not in misfit(schema, a="")


@scene("tools.json_schema.dialect.MAX_APPLIED")
def schemas_applied_to_one_value(count: int) -> bool:
    """The schema itself is one, `a` is 49, and each schema with a reference is one more than what it refers to."""
    more = count - 1 - 99 * (1 + 1 + 24 * (1 + 1))
    defs = {"a": {"allOf": [{"$ref": "#/$defs/b"}] * 24}, "b": {}}
    schema = {"allOf": [*[{"$ref": "#/$defs/a"}] * 99, *[{}] * more], "$defs": defs}
    return schema_problem(freeze_object(schema)) is None


def spends(steps: int, most: int) -> bool:
    try:
        Meter(most).spend(steps)
    except TooManyStepsError:
        return False
    return True


@scene("values.step_budget.CHECK_STEPS")
def steps_of_a_meter(steps: int) -> bool:
    return spends(steps, CHECK_STEPS)


# Expressions


def usable(pattern: str) -> bool:
    return flaw_of(pattern) is None


@scene("values.patterns.MAX_PATTERN")
def characters_of_an_expression(size: int) -> bool:
    return usable("x" * size)


@scene("values.patterns.MAX_GROUPS")
def groups_inside_each_other(count: int) -> bool:
    return usable("(" * count + "x" + ")" * count)


# Caches


def kept(function: _lru_cache_wrapper[object], make: Callable[[int], tuple[object, ...]], count: int) -> bool:
    """Return whether a cache still has the first of *count* entries."""
    function.cache_clear()
    for number in range(count):
        function(*make(number))
    hits = function.cache_info().hits
    function(*make(0))
    return function.cache_info().hits == hits + 1


@scene("tools.json_schema.validation.MAX_SCHEMAS")
def validators_that_are_kept(count: int) -> bool:
    return kept(validation._validator, lambda number: (f'{{"minimum":{number}}}',), count)


@scene("tools.json_schema.validation.MAX_SCHEMAS")
def schemas_that_are_kept(count: int) -> bool:
    return kept(validation._small_ready, lambda number: (f'{{"minimum":{number}}}',), count)


@scene("tools.json_schema.validation.MAX_LARGE")
def large_schemas_that_are_kept(count: int) -> bool:
    return kept(validation._large_ready, lambda number: (f'{{"minimum":{number}}}',), count)


@scene("tools.json_schema.validation.SMALL")
def characters_of_a_schema_of_which_many_are_kept(size: int) -> bool:
    validation._small_ready.cache_clear()
    title = "x" * (size - len('{"title":""}'))
    validation._ready(f'{{"title":"{title}"}}')
    return bool(validation._small_ready.cache_info().currsize)


@scene("tools.json_schema.references.MAX_URI")
def characters_of_the_uri_of_a_schema(size: int) -> bool:
    return schema_problem(freeze_object({"type": "object", "$id": "x" * size, "not": {}})) is None


@scene("values.patterns._EXPRESSIONS")
def expressions_that_are_kept(count: int) -> bool:
    return kept(patterns.expression, lambda number: (f"x{number}",), count)


@cache
def made_class(number: int) -> type:
    return type(f"Class{number}", (), {})


@scene("ports.protocol_checks._is_known(maxsize)", 256)
def classes_that_are_known_to_fit(count: int) -> bool:
    return kept(protocol_checks._is_known, lambda number: (made_class(number), Compactor), count)


@scene("ports.protocol_checks._methods(maxsize)", 16)
def ports_whose_methods_are_kept(count: int) -> bool:
    return kept(protocol_checks._methods, lambda number: (made_class(number),), count)


@scene("codec.plugin_states._WORST", last=-1)
def times_that_an_estimate_may_be_wrong(times: int) -> bool:
    """A state that is too large is kept if an estimate is trusted more than it may be: escapes take six bytes each."""
    with smaller(plugin_states, "_WORST", times):
        return plugin_states.storable("\x00" * 100, 600) is None


@scene("codec.plugin_states.MAX_CHECKED")
def checked_states_whose_json_is_kept(count: int) -> bool:
    plugin_states._CHECKED.clear()
    checked = [(number,) for number in range(count)]
    return [plugin_states.storable(state) for state in checked] == [None] * count and len(
        plugin_states._CHECKED
    ) == count


@scene("runtime.shared.collector.FULL_COLLECTION_AFTER")
def collections_between_full_ones_that_are_too_few(count: int) -> bool:
    young, middle, old = gc.get_threshold()
    gc.set_threshold(young, middle, count)
    try:
        with fewer_full_collections():
            return gc.get_threshold() == (young, middle, collector.FULL_COLLECTION_AFTER)
    finally:
        gc.set_threshold(young, middle, old)


@scene("runtime.shared.collector.FULL_OF_NEW_AFTER")
def collections_between_full_ones_of_what_is_new_that_are_too_few(count: int) -> bool:
    young, middle, old = gc.get_threshold()
    gc.set_threshold(young, middle, count)
    living = range(collector.MANY)
    collector.count(living)
    try:
        with fewer_full_collections():
            gc.collect(1)
            return gc.get_threshold() == (young, middle, collector.FULL_OF_NEW_AFTER)
    finally:
        collector.discount(living)
        gc.set_threshold(young, middle, old)


@scene("runtime.shared.collector.MANY", last=-1)
def sessions_with_which_all_objects_are_looked_at(count: int) -> bool:
    living = range(count)
    frozen = gc.get_freeze_count()  # the tests were, while they were collected
    collector.count(living)
    try:
        with fewer_full_collections():
            gc.collect()
            return gc.get_freeze_count() <= frozen
    finally:
        collector.discount(living)


@scene("core.audit.BEFORE")
def characters_before_a_difference(count: int) -> bool:
    same = f"b{'x' * (count - 1)}"
    return _around(same, f"{same}y")[1].startswith("b")


@scene("core.audit.LONGEST")
def characters_of_a_difference(count: int) -> bool:
    return _around("", "y" * count)[1] == "y" * count


@scene("plugins.logger.EventLogger.texts", 80)
def characters_of_a_text_that_is_logged(count: int) -> bool:
    text = EventLogger().declarations[0].line(Envelope("s", 1, 0, 0, 1, 1, AgentStart("p" * count)), ("info",))
    return text is not None and "p" * count in text.fields.values()


@scene("adapters.journals.sql.file_type.SHOWN")
def bytes_of_what_is_no_database(count: int) -> bool:
    return "Z" in str(_problem(Path("nowhere"), b"x" * (count - 1) + b"Z", count))


@scene("adapters.models.demo.MAX_RESULT")
def characters_of_a_result_that_the_demo_quotes(count: int) -> bool:
    return "x" * count in _report(ToolMessage("c1", "dig", (Text("x" * count),)))


@scene("adapters.models.demo._quoted._shortened(60)", 60)
def characters_that_the_demo_quotes(count: int) -> bool:
    return _quote("x" * count) == f"`{'x' * count}`"


@scene("tools.json_schema.explain._LEVELS")
def levels_of_a_description(count: int) -> bool:
    schema: Json = {"type": "string"}
    for _ in range(count - 1):
        schema = {"anyOf": [schema]}
    return "text" in explain._schema_text(schema)


@scene("plugins.shell.paths.fence(maxsize)", 32)
def fences_that_are_kept(count: int) -> bool:
    return kept(fence, lambda number: ((f"p{number}",),), count)


@scene("app.spec._shared(maxsize)", 64)
def figures_that_are_shared(count: int) -> bool:
    return kept(spec._share, lambda number: (Options(max_rounds=number),), count)


@scene("core.context_window.budget_for(maxsize)", 1000)
def budgets_that_are_kept(count: int) -> bool:
    return kept(context_window.budget_for, lambda number: (f"openai:gpt-4-{number}", None, 0.8, 0.5), count)


@scene("core.context_window.window_of(maxsize)", 1000)
def names_whose_window_is_kept(count: int) -> bool:
    return kept(context_window.window_of, lambda number: (f"openai:gpt-4-{number}",), count)


@scene("adapters.models.providers.unsupported_media.unseen_by(maxsize)", 1000)
def models_whose_untaken_parts_are_kept(count: int) -> bool:
    return kept(unsupported_media.unseen_by, lambda number: ("openai", f"gpt-{number}"), count)


@scene("runtime.work.running_compaction.warn_of(maxsize)", 1000)
def models_of_which_was_warned(count: int) -> bool:
    return kept(running_compaction.warn_of, lambda number: (f"acme:{number}",), count)


# Guards


def is_read(line: str) -> bool:
    return isinstance(parse_commands(line), Commands)


@scene("plugins.shell.parser.MAX_CHARACTERS")
def characters_of_a_line(size: int) -> bool:
    return is_read("x" * size)


@scene("plugins.shell.parser.MAX_COMMANDS")
def commands_of_a_line(count: int) -> bool:
    return is_read(";".join(["a"] * count))


@scene("plugins.shell.parser.MAX_DEPTH")
def groups_of_a_line(count: int) -> bool:
    return is_read("a $(" * count + "a" + ")" * count)


@scene("plugins.shell.command_line._MAX_WRAPPERS")
def wrappers_of_a_command(count: int) -> bool:
    return is_read("nice " * count + "a")


@scene("plugins.shell.paths._MAX_GLOB")
def characters_of_a_pattern(size: int) -> bool:
    """A longer pattern counts as one that may match any path."""
    return not meets("a" * size, "b")


@scene("plugins.shell.paths._MAX_PIECES")
def pieces_of_a_word(count: int) -> bool:
    """The rest after the last piece is not divided."""
    word = Word("=".join(f"/p{number}" for number in range(count + 1)))
    aims = [path for aimed in pieces(word, (directory("/"),), frozenset()) for path in aimed.paths]
    return ResolvedPath(True, (f"p{count}",)) in aims


@scene("plugins.arguments.shown.limit", 2_000)
def characters_that_a_person_is_shown(size: int) -> bool:
    return arguments.visible("x" * size) == "x" * size


def here() -> Where:
    """Return a context with a working directory and no fences."""
    none = fence(())
    return Where(Commands(()), (directory("/work"),), directory("/work"), none, none, none, frozenset())


def command(line: str) -> SimpleCommand:
    actual = parse_commands(line)
    assert isinstance(actual, Commands)
    return actual.commands[0]


@scene("plugins.shell.rule_context._MAX_BASES")
def directories_that_a_command_may_run_in(count: int) -> bool:
    where = here()
    for number in range(count - 1):
        where = where.after(command(f"cd /d{number}"))
    return len(where.bases) == count and LOST not in where.bases


@scene("plugins.security.MAX_FOLDERS")
def folders_that_are_looked_through_for_a_call(count: int) -> bool:
    line = f"git diff -- {' '.join(f'd{number}' for number in range(count))}"
    guard = SecurityGuard(confined_tools=["shell"])
    return isinstance(guard.before_tool(BeforeTool("shell", {"command": line}, "c"), None, Context()), Ask)


@scene("plugins.shell.rule_context._MAX_GLOB_PARTS")
def parts_of_a_pattern(count: int) -> bool:
    """A longer pattern may match any path; the working directory counts as its first part."""
    word = command(f"cat {'a/' * (count - 2)}*").args[0]
    return here().fenced(word, fence(("/secret",))) == (NO, "")


@scene("plugins.guards.permission_rules.LONGEST")
def characters_of_a_rule(size: int) -> bool:
    return problem_of("x" * size, allows=False) is None


def lets_read(*paths: str) -> bool:
    policy = PermissionPolicy(allow=["read_file(**)"], mode="strict")
    hook = BeforeTool("read_file", {"paths": paths}, "c")
    return policy.before_tool(hook, None, Context(working_dir="/")) == Continue()


@scene("plugins.guards.permission_rules.MAX_PARTS")
def parts_of_a_path_that_is_allowed(count: int) -> bool:
    return lets_read("/".join("a" * count))


@scene("plugins.guards.permission_rules.MAX_PATH")
def characters_of_a_path_that_is_allowed(size: int) -> bool:
    return lets_read("x" * size)


@scene("plugins.guards.permission_rules.MAX_PATHS")
def paths_of_a_call_that_is_allowed(count: int) -> bool:
    return lets_read(*("a" * count))


@scene("plugins.guards.launchers.MAX_FOUND")
def commands_that_others_may_run(count: int) -> bool:
    policy = PermissionPolicy(deny=["shell(rm *)"])
    hook = BeforeTool("shell", {"command": f"valgrind {'--log-file=x ' * count}"}, "c")
    return policy.before_tool(hook, None, Context(working_dir="/")) == Continue()


@scene("plugins.guards.launchers.MAX_WORDS")
def words_that_others_may_run(count: int) -> bool:
    policy = PermissionPolicy(deny=["shell(rm *)"])
    both, first = divmod(count - 3, 2)  # of two commands, of which the second is the end of the first
    hook = BeforeTool("shell", {"command": f"valgrind a {'-b ' * first}a {'-b ' * both}"}, "c")
    return policy.before_tool(hook, None, Context(working_dir="/")) == Continue()


@scene("plugins.guards.permission_rules.rules_of(maxsize)", 64)
def lists_of_rules_that_are_kept(count: int) -> bool:
    return kept(rules_of, lambda number: ((f"tool{number}",),), count)


@scene("plugins.guards.output_filter._search(maxsize)", 64)
def filters_that_are_kept(count: int) -> bool:
    return kept(output_filter._search, lambda number: ((), (f"word{number}",), frozenset()), count)
