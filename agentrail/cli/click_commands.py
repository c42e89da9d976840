"""Commands of click whose functions are imported when they are called, and the one sentence about a wrong usage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Final, Self, cast

import click

from agentrail.cli.exit_codes import INTERRUPTED, WRONG_USAGE
from agentrail.cli.quick_imports import imported

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

SETTINGS: Final = {"help_option_names": ["-h", "--help"]}
"""What each command says to click: how its help is asked for."""


class CliCommand(click.Command):
    """A command: what a person reads of it, its options, and the function that carries it out, by name."""

    def __init__(
        self,
        name: str,
        purpose: str,
        run: str,
        *params: click.Parameter,
        about: str = "",
        example: str = "",
        lasts: bool = False,
        reports: bool = False,
    ) -> None:
        super().__init__(
            name,
            params=list(params),
            help=about or f"{purpose[0].upper()}{purpose[1:]}.",
            epilog=example,
            short_help=purpose,
            options_metavar="[OPTION ...]" if any(isinstance(param, click.Option) for param in params) else None,
            context_settings=SETTINGS,
        )
        self.purpose = purpose
        """What it does, in a few words."""
        self.run = run
        """`module:function`: the function takes the parameters by their names, and returns the exit status."""
        self.lasts = lasts
        """Whether it runs for long, so that it is worth to keep what it imports out of the sight of collections."""
        self.reports = reports
        """Whether its errors are reported as JSON too, if that is asked for."""

    def hidden_alias(self) -> Self:
        """Return the same command for another place, where it works and is in no help."""
        alias = copy(self)
        alias.hidden = True
        return alias

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the usage as one line."""
        formatter.write_usage(ctx.command_path, " ".join(self.collect_usage_pieces(ctx)), "usage: ")

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what the command does, in the lines that it is written in."""
        formatter.write(f"\n{self.help}\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a line for each option; one without a text shares the line of the option before it."""
        rows: list[tuple[str, str]] = []
        for param in self.params:
            record = param.get_help_record(ctx)
            if record is None or isinstance(param, click.Argument):
                continue
            if param.help:
                rows.append((record[0], param.help))
            else:
                rows[-1] = (f"{rows[-1][0]}, {record[0]}", rows[-1][1])
        if rows:
            with formatter.section("options"):
                formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, in the lines that they are written in."""
        if self.epilog:
            formatter.write(f"\n{self.epilog}\n")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse *args*; each error says of which command it is."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise

    def invoke(self, ctx: click.Context) -> int:
        """Import the function, call it, and return the exit status."""
        module, _, name = self.run.partition(":")
        try:
            function = cast("Callable[..., int]", getattr(imported(module, freeze=self.lasts), name))
            from agentrail.cli.output.exit_status import exit_status  # noqa: PLC0415 - the function has imported it

            return exit_status(lambda: ctx.invoke(function, **ctx.params))
        except KeyboardInterrupt:  # while it was imported: later it listens itself
            return INTERRUPTED


class HostCliCommand(CliCommand):
    """A command that reads files anew at SIGHUP: one that comes while it is imported and starts is noted."""

    def invoke(self, ctx: click.Context) -> int:
        """Import the function, call it, and return the exit status."""
        from agentrail.app.hangup import noting_hangups  # noqa: PLC0415 - no other command needs it at its start

        with noting_hangups():
            return super().invoke(ctx)


class CommandGroup(click.Group):
    """A command with commands; options alone, or no words at all, are for the default one, if it has one."""

    def __init__(
        self,
        name: str,
        purpose: str,
        *commands: CliCommand | CommandGroup,
        default: str | None = None,
        about: str = "",
        example: str = "",
        params: Sequence[click.Option] = (),
        usage: str = "COMMAND [ARGUMENT ...] [OPTION ...]",
    ) -> None:
        super().__init__(
            name,
            commands={str(command.name): command for command in commands},
            no_args_is_help=False,
            subcommand_metavar=usage,
            params=list(params),
            help=about or f"{purpose[0].upper()}{purpose[1:]}.",
            epilog=example,
            short_help=purpose,
            options_metavar=None,
            context_settings=SETTINGS,
        )
        self.purpose = purpose
        """What its commands do, in a few words."""
        self._default = default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the name of the default command before words that name none."""
        option_names = {name for param in self.get_params(ctx) for name in param.opts}
        is_for_default = args[0].startswith("-") and args[0] not in option_names if args else not ctx.resilient_parsing
        if self._default is not None and is_for_default:
            ctx.obj = next((word for word in args if word in self.list_commands(ctx)), None)
            args = [self._default, *args]
        if not args and not ctx.resilient_parsing:
            ctx.fail(f"a command is missing: {', '.join(self.list_commands(ctx))}")
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in their order, without the hidden ones."""
        return [name for name, command in self.commands.items() if " " not in name and not command.hidden]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the words *args* name, and what follows; the name may be of two words."""
        of_two = " ".join(args[:2])
        if of_two in self.commands:
            return of_two, self.commands[of_two], args[2:]
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return how a word may go on: a name, or an option, also one of the default command."""
        items = super().shell_complete(ctx, incomplete)
        if self._default is not None and incomplete.startswith("-"):
            default = self.commands[self._default]
            inner = default.make_context(self._default, [], parent=ctx, resilient_parsing=True)
            names = {item.value for item in items}
            items += [item for item in default.shell_complete(inner, incomplete) if item.value not in names]
        return items

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the usage as one line."""
        formatter.write_usage(ctx.command_path, self.subcommand_metavar, "usage: ")

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what the commands do, in the lines that it is written in."""
        if ctx.parent is not None:
            formatter.write(f"\n{self.help}\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a line for each command, with its arguments below the first level."""
        rows: list[tuple[str, str]] = []
        for name in self.list_commands(ctx):
            command = self.commands[name]
            arguments = [param.make_metavar(ctx) for param in command.params if isinstance(param, click.Argument)]
            rows.append((" ".join([name, *(arguments if ctx.parent is not None else ())]), str(command.short_help)))
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, in the lines that they are written in."""
        formatter.write(f"\n{self.epilog}\n")


def refuse(error: click.UsageError, words: Sequence[str]) -> int:
    """Tell what is wrong with the command line *words*, and return the exit status."""
    from agentrail.cli.output.bad_input import BadInputError  # noqa: PLC0415 - only an error needs it
    from agentrail.cli.output.exit_status import tell, tell_more  # noqa: PLC0415 - as above

    problem = str(BadInputError(problem_of(error)))  # of bounded length, whatever it quotes
    command = None if error.ctx is None else error.ctx.command
    if isinstance(command, CliCommand) and command.reports and not {"--json", "--events"}.isdisjoint(words):
        from agentrail.cli.running.run import report_usage  # noqa: PLC0415 - it runs agents

        return report_usage(problem)
    tell(f"agentrail: {problem}")
    tell_more(error)
    return WRONG_USAGE


def problem_of(error: click.UsageError) -> str:
    """Return what is wrong with a command line, and what to do, as one sentence."""
    path = "agentrail" if error.ctx is None else error.ctx.command_path
    problem, to_do = _problem_and_advice(error, path)
    if error.ctx is not None and error.ctx.obj is not None:  # a name that stands behind an option
        to_do = f"if `{error.ctx.obj}` is the command, its options stand behind it"
    return f"{problem}; {to_do}" if to_do else problem


def _problem_and_advice(error: click.UsageError, path: str) -> tuple[str, str]:
    match error:
        case click.NoSuchCommand():
            hidden = _hidden_names(error.ctx)
            near = next((name for name in error.possibilities or () if name not in hidden), "")
            return f"there is no subcommand `{error.command_name}`", _instead(near, path)
        case click.NoSuchOption():
            return f"there is no option `{error.option_name}`", _instead(_near_option(error), path)
        case click.MissingParameter(param=click.Parameter() as param):
            problem = f"{param.opts[0] if isinstance(param, click.Option) else param.human_readable_name} is missing"
        case click.BadParameter(param=click.Option() as param):
            return f"{param.opts[0]}: {error.message}", ""
        case click.BadParameter():
            return error.message, ""
        case _:
            problem = f"{error.message[:1].lower()}{error.message[1:].rstrip('.')}"
    return problem, f"`{path} --help` lists the options"


def _instead(near: str, path: str) -> str:
    return f"did you mean `{near}`?" if near else f"`{path} --help` lists those there are"


def _hidden_names(ctx: click.Context | None) -> set[str]:
    """Return the names of the commands that no help shows."""
    group = None if ctx is None else ctx.command
    return (
        {name for name, command in group.commands.items() if command.hidden}
        if isinstance(group, click.Group)
        else set()
    )


def _near_option(error: click.NoSuchOption) -> str:
    """Return the option most similar to one that is not there, without the dashes, which click counts as similar."""
    from agentrail.errors.agentrail_error import nearest  # noqa: PLC0415 - only an error needs it

    params = () if error.ctx is None else error.ctx.command.params
    names = [name.lstrip("-") for param in params if isinstance(param, click.Option) for name in param.opts]
    near = nearest(error.option_name.lstrip("-"), names)
    return "" if near is None else f"--{near}"
