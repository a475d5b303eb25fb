"""What kafka-dump-log prints."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.broker.oracle.java import run_java

# kafka-dump-log's class moved between these versions, together with its jar.
_MAIN = {"4.1.1": "kafka.tools.DumpLogSegments", "4.3.1": "org.apache.kafka.tools.DumpLogSegments"}


def dump_log(files: Iterable[Path], *flags: str, version: str = "4.3.1") -> str:
    """Output of `kafka-dump-log --files <files> <flags>` of Kafka `version` (4.1.1 or 4.3.1), all files in one run.

    Each file's part begins with `Dumping <path>`. Flags are kafka-dump-log's, for instance `--print-data-log`,
    `--deep-iteration`, `--index-sanity-check`, `--verify-index-only`.

    Raises:
        JavaProgramError: the tool ended with an error.
    """
    return run_java(version, _MAIN[version], ["--files", ",".join(map(str, files)), *flags])
