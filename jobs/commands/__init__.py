"""The commands of `tiersnap` by name: each a module here, and its line in the help.

A module is imported when its command is called: a broker host has neither Spark nor boto3, and --help must not wait for
numba.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

COMMANDS = {
    "demo": "Run the whole pipeline on bundled real logs against an embedded S3.",
    "doctor": "One screen of a broker host: whose, how full, running, blocked, what to type.",
    "scan": "List segments, snapshots and verdicts of a log directory.",
    "dump": "Print any Kafka storage file.",
    "repair": "Rebuild the missing producer snapshots of one host.",
    "verify": "Compare the snapshots that are there with the log.",
    "collect": "Ship the decodes of one host to where a fleet's run reads them; no Java.",
    "simulate": "What producers would meet if a replica became leader now.",
    "run": "Decode, snapshot, tier and report: the main job.",
    "tier": "One host's READY segments into remote storage; no Spark, no tables.",
    "publish": "Tell a cluster's brokers of the segments that tiersnap has tiered.",
    "mend": "Put back objects that brokers look for from where they were uploaded by mistake.",
    "unblock": "Free partitions whose tiering is stuck, without a restart.",
    "install": "Bring the snapshots that a run stored back to a broker host.",
    "restore": "Rebuild a lost partition from its remote segments.",
    "expire": "Delete remote segments past their retention that no broker manages.",
    "decode": "Write the header of every batch to a Delta table, for analysis, on Spark.",
    "audit": "What batch headers say of exactly-once: duplicates, gaps, zombies; on Spark.",
    "transactions": "Transactions on disk: list, describe, and those that hang.",
    "producers": "List the producers of a partition as a broker would.",
    "explain": "What an error of producers means, by release of broker and client.",
    "maintain": "Remove what nobody needs: orphans in remote storage, superseded rows.",
    "report": "Write the readiness report of the last run.",
    "config": "Show every setting, its value and where it is from.",
}
# Second words of the commands that are groups.
SUBCOMMANDS = {"maintain": ("tables", "remove-orphans"), "report": ("diff", "runs", "run"), "restore": ("fetch",)}
# Names that commands had, and where what they did is now.
MERGED = {"runs": "report runs", "version": "--version", "fetch": "restore fetch", "risk": "simulate --risk"}


def words_of_command(argv: Sequence[str]) -> str:
    """The words of the command that was called, as its documents name it; `tiersnap` where none was."""
    for word, following in pairwise([*argv, ""]):
        if word in COMMANDS:
            return f"{word} {following}" if following in SUBCOMMANDS.get(word, ()) else word
    return "tiersnap"
