"""What an install without extras says of the commands that need one."""

from __future__ import annotations

import click

from tiersnap.snapshot.errors import MissingExtraError
from tiersnap.snapshot.installed import with_extra

_EXTRA_OF = {
    "pyspark": "spark",
    "py4j": "spark",
    "delta": "spark",
    "deltalake": "spark",
    "pandas": "spark",
    "boto3": "s3",
    "botocore": "s3",
    "s3transfer": "s3",
    "confluent_kafka": "kafka",
    "moto": "demo",
}


def missing_extra(error: ImportError, what: str) -> MissingExtraError | None:
    """What to raise for a module that an extra brings; None where it is no such module."""
    module = (error.name or "").partition(".")[0]
    if module not in _EXTRA_OF:
        return None
    return MissingExtraError(f"{what} needs {module}", hint=with_extra(_EXTRA_OF[module]))


class UnavailableCommand(click.Command):
    """Stands for a command whose module cannot be imported: its help says what is missing, a call raises it."""

    def __init__(self, name: str, summary: str, error: MissingExtraError) -> None:
        super().__init__(
            name,
            help=f"{summary}\n\nIts options can be shown once it is complete here: {error.message}. {error.hint}",
            params=[click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)],
            context_settings={"ignore_unknown_options": True},
        )
        self._error = error

    @property
    def reason(self) -> str:
        """What is missing, and how to get it."""
        return f"{self._error.message}: {self._error.hint}"

    def invoke(self, ctx: click.Context) -> object:
        """Raise the error.

        Raises:
            MissingExtraError: always.
        """
        raise self._error
