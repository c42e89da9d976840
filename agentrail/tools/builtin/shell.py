"""The tools `shell`, `shell_output` and `shell_kill`."""

from __future__ import annotations

import re
from typing import Annotated, Final

from agentrail.errors import AgentrailError
from agentrail.ports.sandbox import Command, Execution, OnOutput, Sandbox
from agentrail.ports.tool import Job, ToolContext
from agentrail.tools.bounds import Length, Range
from agentrail.tools.builtin.shell_script import (
    back_at_root,
    can_change_shell,
    hiding_state,
    is_left_folder_gone,
    kept_environment,
    script_of,
    shell_end,
)
from agentrail.tools.builtin.workspace import cut_text, jobs_of, refuse, report_errors, sandbox_of
from agentrail.tools.function import tool
from agentrail.values.json import JsonObject, freeze_object
from agentrail.values.shell_details import LEFT, ROOT
from agentrail.values.tools import Err, Ok, err, ok
from agentrail.values.untrusted_values import brief

MAX_BYTES: Final = 50 * 1024
"""The largest output, in bytes, that the model gets whole."""

MAX_LINES: Final = 2000
"""The largest output, in lines, that the model gets whole."""

HEAD: Final = (100, 8_000)
"""The most lines and the most characters that are shown from the beginning of a longer output."""

TAIL: Final = (200, 16_000)
"""The most lines and the most characters that are shown from the end of a longer output."""

KEEP: Final = 1024 * 1024
"""The most bytes of an output that are kept, also in the file in `FOLDER`: half at the beginning, half at the end."""

FOLDER: Final = ".shell_output"
"""Folder for the files with outputs that are too long for an answer."""

DAY: Final = 24 * 3600.0
"""The time limit of commands in the background, in seconds."""

MAX_HEARD: Final = 24_000
"""The most bytes of a job's output that one call of `shell_output` returns."""

GONE: Final = (
    "nothing was run: {folder}, where the last `cd` led, is not there any more; later commands begin in the working "
    "directory"
)

_ODD: Final = re.compile(r"[^A-Za-z0-9_-]")


@tool(timeout=620, parallel=False, subject="command", requires=("files", "shell"), max_result_chars=60_000)
async def shell(  # noqa: D417 - the model does not see `ctx`
    command: Annotated[str, Length(min=1)],
    ctx: ToolContext,
    timeout: Annotated[int, Range(ge=1, le=600)] = 120,  # noqa: ASYNC109 - the model says how long it may take
    folder: Annotated[str, Length(min=1)] | None = None,
    background: bool = False,
) -> Ok | Err:
    """Run a command line in a shell, and wait for its end; what it leaves running is ended too.

    Args:
        command: The command line. It has no input, so nothing in it may ask for one.
        timeout: Seconds after which it is ended; nothing ends a job in the background but you and the session's end.
        folder: Where to run it, relative to the working directory; by default where the last `cd` led, which is kept.
        background: Whether to go on at once; read what it says with `shell_output`, end it with `shell_kill`.
    """
    sandbox = sandbox_of(ctx)
    can_change = can_change_shell(command) and not background
    script = script_of(command, ctx.shell_exports) if can_change else command
    env = kept_environment(ctx.shell_exports)
    order = Command(script, folder or ROOT, float(timeout), env, merge=not can_change, keep=KEEP)
    with report_errors():
        if await is_left_folder_gone(sandbox, order.folder, ctx):
            return err(GONE.format(folder=brief(order.folder)), back_at_root(ctx))
        if background:
            process = sandbox.prepare(order.but(timeout=DAY, keep=KEEP // 4))
            job = jobs_of(ctx).start(command, process)
            name = job.job_id
            hint = f'read what it says with `shell_output(job="{name}")`, end it with `shell_kill`'
            return ok(f"started `{name}`; {hint}", {"job": name})
        on_output = _reporter(ctx)
        if can_change:
            on_output = hiding_state(on_output, command, ctx.shell_exports)
        execution = await sandbox.execute(order, on_output)
        text, details = await _output_for_model(sandbox, execution, ctx.call_id)
        report = execution.stderr.head + execution.stderr.tail
        shell_state = await shell_end(sandbox, command, order.folder, report, ctx) if can_change else None
    end = how_it_ended(execution, timeout)
    answer = ok if execution.exit_code == 0 and not execution.timed_out else err
    lines = [line for line in (text.rstrip("\n"), end) if line]
    if shell_state is not None:
        details = freeze_object({**details, LEFT: shell_state.shell})
        lines += [f"[{note}]" for note in shell_state.notes]
    return answer("\n".join(lines) or "[no output]", details)


def _reporter(ctx: ToolContext) -> OnOutput:
    """Return a callback that reports output to subscribers while the command runs, at most `MAX_BYTES`."""
    told_so_far = 0

    def report(piece: bytes) -> None:
        nonlocal told_so_far
        if told_so_far < MAX_BYTES:
            told_so_far += len(piece)
            ctx.report(piece[:MAX_BYTES].decode(errors="replace"))

    return report


def how_it_ended(execution: Execution, timeout: float | None = None) -> str:
    """Return how a command ended, as text in brackets for the model; empty for a normal end with exit code 0."""
    ways: list[str] = []
    if execution.timed_out:
        ways.append(f"ended after {timeout} seconds: it took too long" if timeout else "ended: it took too long")
    elif execution.killed:
        ways.append("was killed")
    elif execution.exit_code < 0:
        ways.append(f"ended by signal {-execution.exit_code}")
    elif execution.exit_code:
        ways.append(f"exit code {execution.exit_code}")
    if not execution.clean:
        ways.append("something that it started may still run")
    return f"[{'; '.join(ways)}]" if ways else ""


async def _output_for_model(sandbox: Sandbox, execution: Execution, call_id: str) -> tuple[str, JsonObject]:
    """Return the output as text for the model (cut, with the path of the full file) and its details as JSON."""
    output = execution.stdout
    text = output.text
    details: dict[str, str | int | bool] = {
        "exit_code": execution.exit_code,
        "timed_out": execution.timed_out,
        "bytes": output.total,
    }
    lines = text.count("\n") + (not text.endswith("\n") and text != "")
    if output.total <= MAX_BYTES and lines <= MAX_LINES:
        return text, details
    path = f"{FOLDER}/{_ODD.sub('_', call_id)[-100:]}.txt"
    try:
        if not await sandbox.exists(f"{FOLDER}/.gitignore"):
            await sandbox.write(f"{FOLDER}/.gitignore", b"*\n")
        await sandbox.write(path, text.encode(errors="replace"))
    except AgentrailError as error:
        where = f"it could not be written to a file: {error}"
    else:
        details["path"] = path
        where = f"read it with `read_file` or `grep` in `{path}`"
        if output.lost:
            where = f"its first and last {KEEP // 2} bytes are in `{path}`; use `read_file` or `grep`"
    head, tail = _beginning(text), _end(text)
    note = f"[… the output has {lines} lines and {output.total} bytes, too many to show; {where} …]"
    return f"{head}\n{note}\n{tail}", details


def _beginning(text: str) -> str:
    lines, chars = HEAD
    return "\n".join(text[:chars].split("\n")[:lines])


def _end(text: str) -> str:
    lines, chars = TAIL
    return "\n".join(text[-chars:].rstrip("\n").split("\n")[-lines:])


@tool(timeout=10, effect="pure", requires=("shell",))
async def shell_output(  # noqa: ASYNC124, D417 - tools are async; the model does not see `ctx`
    ctx: ToolContext,
    job: Annotated[str, Length(min=1, max=100)] | None = None,
    since: Annotated[int, Range(ge=0, le=2**53)] = 0,
) -> Ok:
    """Read what a job in the background has written; without a job, list the jobs.

    Args:
        job: Which job, such as `job-1`.
        since: From which byte on; each answer says where to go on.
    """
    jobs = jobs_of(ctx)
    if job is None:
        listed = [f"{other.job_id}: {_state(other)}: {cut_text(other.command, 200)}" for other in jobs.all()]
        return ok("\n".join(listed) or "[no job was started in the background]", {"jobs": len(listed)})
    running = _find_job(ctx, job)
    output = running.process.heard(since)
    data = output.data
    if len(data) > MAX_HEARD:
        data = data[: data.rfind(b"\n", 0, MAX_HEARD) + 1 or MAX_HEARD]
    next_offset = output.next - len(output.data) + len(data)
    lines = [f"[{output.lost} bytes before this were not kept]"] if output.lost else []
    lines.append(data.decode(errors="replace").removesuffix("\n") if data else "[nothing new]")
    more = next_offset < output.next
    lines.append(f"[`{job}` {_state(running)}; {'there is more: ' if more else ''}go on with `since` {next_offset}]")
    return ok("\n".join(lines), {"job": job, "next": next_offset, "has_ended": running.has_ended})


@tool(timeout=15, effect="idempotent", requires=("shell",))
async def shell_kill(job: Annotated[str, Length(min=1, max=100)], ctx: ToolContext) -> Ok:  # noqa: D417 - the model does not see `ctx`
    """End a job in the background, with all that it has started.

    Args:
        job: Which job, such as `job-1`.
    """
    running = _find_job(ctx, job)
    if running.has_ended:
        return ok(f"`{job}` has ended before: it {_state(running)}")
    await running.kill()
    return ok(f"`{job}` {_state(running)}")


def _find_job(ctx: ToolContext, job: str) -> Job:
    jobs = jobs_of(ctx)
    running = jobs.find(job)
    if running is None:
        names = ", ".join(f"`{other.job_id}`" for other in jobs.all()) or "none"
        refuse(f"there is no job {job!r}; there are: {names}")
    return running


def _state(job: Job) -> str:
    if not job.has_ended:
        return "runs"
    if job.problem:
        return f"could not run: {job.problem}"
    execution = job.process.execution
    if execution is None:
        return "has ended"
    return how_it_ended(execution).strip("[]") or "has ended with exit code 0"
