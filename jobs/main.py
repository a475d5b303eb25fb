"""The `tiersnap` command: its global options, and the exit code of each error."""

from __future__ import annotations

import gc
import importlib
import io
import logging
import os
import sys
import time
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path

import click

from tiersnap.jobs.cli import settings as settings_file
from tiersnap.jobs.cli.command import HelpPage, output_options
from tiersnap.jobs.cli.interrupts import Terminated, interruption_of, raise_interrupts
from tiersnap.jobs.cli.option_types import clock
from tiersnap.jobs.cli.output import Format, Output
from tiersnap.jobs.cli.settings import commands_of, leaves, long_options, options_of, variable_of
from tiersnap.jobs.cli.streams import LogFormat, configure, guarded, mask_tracebacks
from tiersnap.jobs.commands import COMMANDS, GROUPS, MERGED, words_of_command
from tiersnap.snapshot import __version__
from tiersnap.snapshot.errors import ExitCode, MissingExtraError, TiersnapError, UsageError
from tiersnap.snapshot.installed import EXTRAS, with_extra
from tiersnap.snapshot.masking import masked

_log = logging.getLogger(__name__)
_HELP = """Rebuild the producer snapshots that Kafka tiered storage needs, and tier only segments that have one.

\b
tiersnap doctor /var/lib/kafka/data    # print problems and next commands

\b
Exit codes: 0 ok, 1 unexpected, 2 usage or configuration, 3 transient and safe
to retry, 4 the gate refused, 5 data corrupt, 6 partial, 130 interrupted, 141
the reader of stdout ended, 143 terminated.
`tiersnap runbook CODE` explains each code and lists the next steps.

\b
Completion: add the line for your shell to its startup file.
  bash  eval "$(_TIERSNAP_COMPLETE=bash_source tiersnap)"
  zsh   eval "$(_TIERSNAP_COMPLETE=zsh_source tiersnap)"
  fish  _TIERSNAP_COMPLETE=fish_source tiersnap | source
"""


class _LazyGroup(HelpPage, click.Group):
    """The group of all commands. It imports a command's module when the user calls the command.

    Each option of the command gets its environment variable at this time.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of a command and return the command; None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(f"tiersnap.jobs.commands.{cmd_name}"), cmd_name)
        for each in leaves(ctx, cmd_name, command).values():
            for setting, option in options_of(each).items():
                # An option of several commands has one variable: TIERSNAP_REMOTE, not TIERSNAP_RUN_REMOTE.
                option.envvar = variable_of(setting)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command. The error for an unknown command suggests similar names."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = get_close_matches(args[0], COMMANDS, n=3)
            if args[0] in MERGED:
                near = [MERGED[args[0]]]
            if not near:
                raise
            raise click.UsageError(f"{error.message} Did you mean {' or '.join(near)}?", ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        widest = max(map(len, COMMANDS))
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(widest), line) for name, line in group.items()])


@click.group(cls=_LazyGroup, help=_HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tiersnap")
@click.option(
    "--config",
    "config_path",
    envvar=variable_of("config"),
    type=click.Path(dir_okay=False, path_type=Path),
    help="YAML file of settings; see `tiersnap config`.",
)
@output_options
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="warning",
    show_default=True,
    envvar=variable_of("log-level"),
    help="Print log messages of this level and above to stderr.",
)
@click.option(
    "--log-format",
    type=click.Choice([each.value for each in LogFormat]),
    default=LogFormat.TEXT.value,
    show_default=True,
    envvar=variable_of("log-format"),
    help="Format of the log: text lines, or one JSON object per line.",
)
@click.pass_context
def cli(ctx: click.Context, config_path: Path | None, log_level: str, log_format: str) -> None:
    """Apply the options that all commands share."""
    configure(log_level, LogFormat(log_format))
    clock(ctx)  # every command reads the clock when it begins, even if --now replaces the time
    if config_path is not None:
        ctx.default_map = settings_file.read(config_path, commands_of(ctx, cli))


def main(argv: list[str] | None = None) -> None:
    """Entry point: run a command and exit with its code."""
    raise_interrupts()
    mask_tracebacks()
    # A command creates many long-lived objects and few cycles. The default thresholds cost a fifth of the run time.
    gc.set_threshold(20_000, 20, 100)
    # numpy's linear algebra would start one spinning thread per core, and tiersnap does not use it.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.exit(run(sys.argv[1:] if argv is None else argv))


def run(argv: list[str]) -> int:
    """Run a command and return its exit code."""
    started = time.monotonic()
    code = guarded(lambda: _run(argv))
    _log.info("%s ended with %d after %.1f s", words_of_command(argv), code, time.monotonic() - started)
    return code


def _run(argv: list[str]) -> int:
    output = Output()
    try:
        result = cli.main(argv, prog_name="tiersnap", standalone_mode=False, obj=output)
    except (Exception, KeyboardInterrupt) as error:
        interruption = interruption_of(error)
        if interruption is not None or isinstance(error, click.exceptions.Abort):
            return int(ExitCode.TERMINATED if isinstance(interruption, Terminated) else ExitCode.INTERRUPTED)
        failure = _report(argv, output, error)
        if failure is None:
            raise
        return int(failure.exit_code)
    return int(result) if isinstance(result, int) else int(ExitCode.OK)


def _report(argv: list[str], output: Output, error: BaseException) -> TiersnapError | None:
    """Print an expected error and return it; None for any other error."""
    words = words_of_command(argv)
    if isinstance(error, click.ClickException):
        return _report_usage(argv, output, _with_example(_with_near_option(error)))
    failure = missing_extra(error, f"tiersnap {words}") if isinstance(error, ImportError) else error
    if not isinstance(failure, TiersnapError):
        return None
    output.error(words, failure)
    return failure


def _report_usage(argv: list[str], output: Output, error: click.ClickException) -> UsageError:
    """Print a usage error: as text on stderr, and as JSON on stdout if the command line asks for JSON."""
    said = io.StringIO()
    error.show(file=said)
    sys.stderr.write(masked(said.getvalue()))
    output.format = _format_of(argv)
    words = words_of_command(argv)
    called = words if words == "tiersnap" else f"tiersnap {words}"
    failure = UsageError(error.format_message(), hint=f"{called} --help")
    output.error_document(words, failure)
    return failure


def _with_near_option(error: click.ClickException) -> click.ClickException:
    """Return the error. If the unknown option is --from and the command has --remote, the error suggests --remote."""
    if not isinstance(error, click.NoSuchOption) or error.option_name != "--from" or error.ctx is None:
        return error
    if "remote" not in long_options(error.ctx.command):
        return error
    return click.NoSuchOption("--from", f"{error.message} Did you mean '--remote'?", ctx=error.ctx)


def _with_example(error: click.ClickException) -> click.ClickException:
    """Return the error. If the missing option is --remote, the error has an example of its value."""
    if not isinstance(error, click.MissingParameter) or error.param is None or error.param.name != "remote":
        return error
    return click.UsageError(
        "Missing option '--remote': give s3://bucket/prefix, or for a trial a directory.", ctx=error.ctx
    )


def _format_of(argv: list[str]) -> Format:
    """Return --output in `argv`, else TIERSNAP_OUTPUT, else TABLE, even if click cannot parse `argv`."""
    found = os.environ.get(variable_of("output"), "")
    for word, following in pairwise([*argv, ""]):
        option, _, value = word.partition("=")
        if option == "--output":
            found = value or following
    return Format(found) if found in set(Format) else Format.TABLE


def missing_extra(error: ImportError, what: str) -> MissingExtraError | None:
    """Return an error that names the extra with the missing module, such as `spark`; None if no extra has it."""
    module = (error.name or "").partition(".")[0]
    for extra, modules in EXTRAS.items():
        if module in modules:
            return MissingExtraError(f"{what} needs {module}", hint=with_extra(extra))
    return None
