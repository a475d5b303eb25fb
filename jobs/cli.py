"""The `tiersnap` command: global options, subcommands loaded when named, errors turned into exit codes."""

from __future__ import annotations

import importlib
import io
import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click

from tiersnap.jobs import config_file
from tiersnap.jobs.config_file import commands_of, leaves, options_of, variable_of
from tiersnap.jobs.extras import UnavailableCommand, missing_extra
from tiersnap.jobs.logs import LogFormat, configure
from tiersnap.jobs.options.common import output_option
from tiersnap.jobs.output import Format, Output
from tiersnap.jobs.shown import masked, refuse_credentials
from tiersnap.snapshot import __version__
from tiersnap.snapshot.errors import ExitCode, TiersnapError, UsageError

_log = logging.getLogger(__name__)
# Imported when called: a broker host has neither Spark nor boto3, and --help must not wait for numba.
COMMANDS = {
    "demo": ("tiersnap.jobs.demo", "Run the whole pipeline on bundled real logs against an embedded S3."),
    "doctor": ("tiersnap.jobs.doctor", "One screen of a broker host: whose, how full, running, blocked, what to type."),
    "scan": ("tiersnap.jobs.scan", "List segments, snapshots and verdicts of a log directory."),
    "dump": ("tiersnap.jobs.dump", "Print any Kafka storage file."),
    "repair": ("tiersnap.jobs.repair", "Rebuild the missing producer snapshots of one host."),
    "verify": ("tiersnap.jobs.verify", "Compare the snapshots that are there with the log."),
    "collect": ("tiersnap.jobs.collect", "Ship the decodes of one host to where a fleet's run reads them; no Java."),
    "simulate": ("tiersnap.jobs.simulate", "What producers would meet if a replica became leader now."),
    "risk": ("tiersnap.jobs.risk", "What the ways that KIP-952 rejected would cost the logs that are there."),
    "run": ("tiersnap.jobs.run", "Decode, snapshot, tier and report: the main job."),
    "tier": ("tiersnap.jobs.tier", "One host's READY segments into remote storage; no Spark, no tables."),
    "publish": ("tiersnap.jobs.publish", "Tell a cluster's brokers of the segments that tiersnap has tiered."),
    "unblock": ("tiersnap.jobs.unblock", "Free partitions whose tiering is stuck, without a restart."),
    "install": ("tiersnap.jobs.install", "Bring the snapshots that a run stored back to a broker host."),
    "restore": ("tiersnap.jobs.restore", "Rebuild a lost partition from its remote segments."),
    "fetch": ("tiersnap.jobs.fetch", "One remote segment or index, verified, to a file or stdout."),
    "expire": ("tiersnap.jobs.expire", "Delete remote segments past their retention that no broker manages."),
    "decode": ("tiersnap.jobs.decode", "Write the header of every batch to a Delta table, for analysis, on Spark."),
    "audit": ("tiersnap.jobs.audit", "What batch headers say of exactly-once: duplicates, gaps, zombies; on Spark."),
    "transactions": ("tiersnap.jobs.transactions", "Transactions on disk: list, describe, and those that hang."),
    "producers": ("tiersnap.jobs.producers", "List the producers of a partition as a broker would."),
    "maintain": ("tiersnap.jobs.maintain", "Remove what nobody needs: orphans in remote storage, superseded rows."),
    "report": ("tiersnap.jobs.report", "Write the readiness report of the last run."),
    "runs": ("tiersnap.jobs.runs", "The runs that a warehouse remembers: list, show."),
    "config": ("tiersnap.jobs.config", "Show every setting, its value and where it is from."),
    "version": ("tiersnap.jobs.version", "Print the version."),
}


GROUPS = frozenset({"maintain", "runs"})


class LazyGroup(click.Group):
    """A group that imports a subcommand only when it is called or asked for help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of a working day."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of the command."""
        if cmd_name not in COMMANDS:
            return None
        module, summary = COMMANDS[cmd_name]
        try:
            command: click.Command = getattr(importlib.import_module(module), cmd_name)
        except ImportError as error:
            missing = missing_extra(error, f"tiersnap {cmd_name}")
            if missing is None:
                raise
            return UnavailableCommand(cmd_name, summary, missing)
        for each in leaves(ctx, cmd_name, command).values():
            for setting, option in options_of(each).items():
                # One variable for one setting, whatever the command: TIERSNAP_REMOTE, not TIERSNAP_RUN_REMOTE.
                option.envvar = variable_of(setting)
            if each.callback is not None:
                each.callback = _Checked.of(each.callback)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


class _Checked:
    """A command that refuses settings with a password in them, wherever they are from."""

    def __init__(self, command: Callable[..., object]) -> None:
        self._command = command

    @classmethod
    def of(cls, command: Callable[..., object]) -> _Checked:
        """The command, checked once."""
        return command if isinstance(command, cls) else cls(command)

    def __call__(self, *args: object, **settings: object) -> object:
        for name, value in settings.items():
            refuse_credentials(f"--{name.replace('_', '-')}", value)
        return self._command(*args, **settings)


_HELP = """Rebuild the producer snapshots that Kafka tiered storage needs, and tier nothing without one.

\b
Exit codes: 0 ok, 1 unexpected, 2 usage or configuration, 3 transient and safe
to retry, 4 the gate refused, 5 data corrupt, 6 partial, 130 interrupted.
docs/runbook.md says what to do about each.
"""


@click.group(cls=LazyGroup, help=_HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tiersnap")
@click.option(
    "--config",
    "config_path",
    envvar=variable_of("config"),
    type=click.Path(dir_okay=False, path_type=Path),
    help="YAML file of settings; see `tiersnap config`.",
)
@output_option
@click.option("--quiet", "-q", is_flag=True, help="Say nothing on stderr but errors.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="warning",
    show_default=True,
    envvar=variable_of("log-level"),
    help="Level of the log on stderr.",
)
@click.option(
    "--log-format",
    type=click.Choice([each.value for each in LogFormat]),
    default=LogFormat.TEXT.value,
    show_default=True,
    envvar=variable_of("log-format"),
    help="Form of the log: lines for people, or an object a line.",
)
@click.pass_context
def cli(ctx: click.Context, config_path: Path | None, quiet: bool, log_level: str, log_format: str) -> None:
    """Take the options that all commands share."""
    configure(log_level, LogFormat(log_format))
    ctx.obj.quiet = quiet
    if config_path is not None:
        commands = commands_of(ctx, cli)
        ctx.default_map = config_file.read(
            config_path,
            {name: each for name, each in commands.items() if not isinstance(each, UnavailableCommand)},
            unavailable={name for name, each in commands.items() if isinstance(each, UnavailableCommand)},
        )


def main(argv: list[str] | None = None) -> None:
    """Entry point: run a command and exit with its code."""
    sys.exit(run(sys.argv[1:] if argv is None else argv))


def run(argv: list[str]) -> int:
    """Run a command; returns its exit code."""
    started = time.monotonic()
    code = _run(argv)
    _log.info("%s ended with %d after %.1f s", _command_of(argv), code, time.monotonic() - started)
    return code


def _run(argv: list[str]) -> int:
    output = Output()
    try:
        result = cli.main(argv, prog_name="tiersnap", standalone_mode=False, obj=output)
    except TiersnapError as error:
        output.error(_command_of(argv), error)
        return int(error.exit_code)
    except click.exceptions.Abort:
        return int(ExitCode.INTERRUPTED)
    except KeyboardInterrupt:
        return int(ExitCode.INTERRUPTED)
    except click.ClickException as error:
        said = io.StringIO()
        error.show(file=said)
        sys.stderr.write(masked(said.getvalue()))
        output.format = _format_of(argv)
        output.error_document(_command_of(argv), UsageError(error.format_message()))
        return int(ExitCode.USAGE)
    except ImportError as error:
        missing = missing_extra(error, f"tiersnap {_command_of(argv)}")
        if missing is None:
            raise
        output.error(_command_of(argv), missing)
        return int(missing.exit_code)
    except BrokenPipeError:
        # `tiersnap … | head` closes our stdout; nobody is left to tell.
        sys.stderr.close()
        return int(ExitCode.OK)
    return int(result) if isinstance(result, int) else int(ExitCode.OK)


def _format_of(argv: list[str]) -> Format:
    """The form that was asked for, on a command line that cannot be parsed."""
    found = os.environ.get(variable_of("output"), "")
    for word, following in zip(argv, [*argv[1:], ""], strict=True):
        if word == "--output" or word.startswith("--output="):
            found = word.partition("=")[2] or following
    return Format(found) if found in set(Format) else Format.TABLE


def _command_of(argv: list[str]) -> str:
    """The words of the command that was called, as its documents name it."""
    for place, word in enumerate(argv):
        if word in COMMANDS:
            following = argv[place + 1 : place + 2]
            is_of_group = word in GROUPS or [word, *following] == ["report", "diff"]  # `report` runs by itself, too
            return " ".join([word, *following]) if is_of_group and following[:1] != ["--help"] else word
    return "tiersnap"
