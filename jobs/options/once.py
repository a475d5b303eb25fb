"""Options that are said on the command line each time, never taken from the environment or a settings file."""

from __future__ import annotations

from functools import partial

import click

LAYOUTS = ("aiven", "local-tiered-storage")


class OnceOption(click.Option):
    """What is meant for one partition at one time must not be left over in an environment variable or a file."""

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        """None, whatever the environment says."""
        return None


once = partial(click.option, cls=OnceOption)
