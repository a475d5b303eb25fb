"""`tiersnap version`."""

from __future__ import annotations

import platform

import click

from tiersnap.jobs.old_options import common as params
from tiersnap.jobs.output import Format, Output
from tiersnap.snapshot import __version__


@click.command()
@params.output_option
@click.pass_obj
def version(output: Output) -> None:
    """Print the version."""
    if output.format is Format.TABLE:
        click.echo(f"tiersnap {__version__}")
        return
    output.document({"tiersnap": __version__, "python": platform.python_version()})
