"""The commands of `tiersnap` by name: each a module here, and its line in the help.

A module is imported when its command is called: a broker host has neither Spark nor boto3, and --help must not wait for
numba.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

GROUPS = {
    "Look": {
        "doctor": "Start here: whose host, how full, running, what blocks, what to type.",
        "scan": "List segments, snapshots and verdicts of a log directory.",
        "verify": "Compare the snapshots of a log directory with its log.",
        "dump": "Print any Kafka storage file.",
        "demo": "Run the whole pipeline on bundled logs against an embedded S3.",
        "config": "Show every setting, its value and where it is from.",
        "runbook": "Print what to do about a verdict, an exit code, a log line.",
    },
    "Fix one host": {
        "repair": "Rebuild the missing producer snapshots of one host.",
        "install": "Bring the snapshots that `run` stored back to a broker host.",
        "restore": "Rebuild a lost partition from its remote segments.",
    },
    "Tier one host": {
        "tier": "Upload READY segments of one host; no Spark, no tables.",
    },
    "Fleet": {
        "run": "Decode, snapshot, tier and report: the main job.",
        "collect": "Decode on one host, and ship Parquet for `run`; no Java.",
        "report": "Show the verdict of every segment, from the tables of `run`.",
        "maintain": "Remove orphans in remote storage, and superseded rows.",
    },
    "Cluster": {
        "unblock": "Free partitions whose tiering is stuck, without a restart.",
        "publish": "Announce uploaded segments to the brokers.",
        "mend": "Put back lost objects, and replace wrong segments.",
    },
    "Analyse": {
        "transactions": "List and describe transactions on disk, and find those that hang.",
        "producers": "List the producers of a partition as a broker would.",
        "simulate": "Predict what producers would meet if a replica became leader.",
        "audit": "Find duplicates, gaps and zombies by batch headers, on Spark.",
        "decode": "Write the header of every batch to a Delta table, on Spark.",
        "explain": "Explain an error of producers, by release.",
    },
}
COMMANDS = {name: line for group in GROUPS.values() for name, line in group.items()}
# Second words of the commands that are groups.
SUBCOMMANDS = {"maintain": ("tables", "remove-orphans")}
# Former names of commands, and their replacements.
MERGED = {"version": "--version", "risk": "simulate --risk"}


def words_of_command(argv: Sequence[str]) -> str:
    """Return the words of the called command, as its documents name it; "tiersnap" without one."""
    for word, following in pairwise([*argv, ""]):
        if word in COMMANDS:
            return f"{word} {following}" if following in SUBCOMMANDS.get(word, ()) else word
    return "tiersnap"
