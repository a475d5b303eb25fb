"""`tiersnap maintain`: what keeps remote storage and the tables free of what nobody needs."""

from __future__ import annotations

import click

from tiersnap.jobs.command import Group
from tiersnap.jobs.commands.maintain_tables import maintain_tables
from tiersnap.jobs.commands.remove_orphans import remove_orphans


@click.group(cls=Group)
def maintain() -> None:
    """Remove what nobody needs any more; each command shows a plan first."""


maintain.add_command(maintain_tables)
maintain.add_command(remove_orphans)
