"""What kafka-transactions.sh prints."""

from __future__ import annotations

from tests.broker.harness.broker import Broker
from tests.broker.oracle.java import run_java

TOOLS_VERSION = "4.3.1"  # the jars of the other releases lack kafka-tools
MAIN = "org.apache.kafka.tools.TransactionsCommand"
HOST_AND_PORT = "HOST:PORT"


def kafka_transactions(broker: Broker, *words: str) -> str:
    """Standard output of `kafka-transactions.sh --bootstrap-server <broker> WORDS`.

    Raises:
        JavaProgramError: the tool ended with an error.
    """
    return run_java(TOOLS_VERSION, MAIN, ["--bootstrap-server", broker.bootstrap, *words])


def rows(text: str) -> list[dict[str, str]]:
    """The rows of a table of the tool, by heading."""
    heading, *lines = [[cell.strip() for cell in line.split("\t")[:-1]] for line in text.splitlines()]
    return [dict(zip(heading, line, strict=True)) for line in lines]
