"""The names of the commands, and a line of help for each. Each command is a module of this package.

The module of a command is imported when the user calls the command. A broker host may lack Spark and boto3, and --help
must not wait for numba.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

GROUPS = {
    "Look": {
        "doctor": "Start here: check this host, and print the next commands.",
        "scan": "List segments, snapshots and verdicts of a log directory.",
        "verify": "Compare the snapshots of a log directory with a replay of its log.",
        "dump": "Print any Kafka storage file.",
        "demo": "Run the whole pipeline on bundled logs and an embedded S3 server.",
        "config": "Show every setting, its value and its source.",
        "runbook": "Print the steps for a verdict, an exit code or a log line.",
    },
    "Fix one host": {
        "repair": "Rebuild the missing producer snapshots of one host.",
        "install": "Copy snapshots of `run` from remote storage to a broker host.",
        "restore": "Rebuild a lost partition from its remote segments.",
    },
    "Tier one host": {
        "tier": "Upload READY segments of one host, without Spark and tables.",
    },
    "Fleet": {
        "run": "Decode, snapshot, tier and report: the main job.",
        "collect": "Decode on a broker host, and write Parquet for `run`; no Java.",
        "report": "Show the verdict of every segment, from the tables of `run`.",
        "maintain": "Remove orphans from remote storage, or old rows from tables.",
    },
    "Cluster": {
        "unblock": "Make brokers tier again if their copy tasks are stuck, without a restart.",
        "publish": "Publish uploaded segments, so that brokers read them.",
        "mend": "Restore lost objects of published segments, and replace wrong segments.",
    },
    "Analyse": {
        "transactions": "List and describe transactions on disk, and find hanging ones.",
        "producers": "List the producers of a partition, as kafka-transactions does.",
        "simulate": "Predict the errors that producers would get if a replica became leader.",
        "audit": "Find duplicates, gaps and zombies in batch headers, on Spark.",
        "decode": "Write the header of every batch to a Delta table, on Spark.",
        "explain": "Explain an error of producers, for a Kafka release.",
    },
}
COMMANDS = {name: line for group in GROUPS.values() for name, line in group.items()}
# Subcommands by command.
SUBCOMMANDS = {"maintain": ("tables", "remove-orphans")}
# Former names of commands, and their replacements.
MERGED = {"version": "--version", "risk": "simulate --risk"}


def words_of_command(argv: Sequence[str]) -> str:
    """Return the name of the called command, such as `maintain tables`; "tiersnap" if `argv` has no command."""
    for word, following in pairwise([*argv, ""]):
        if following in SUBCOMMANDS.get(word, ()):
            return f"{word} {following}"
        if word in COMMANDS:
            return word
    return "tiersnap"
