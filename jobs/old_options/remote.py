"""Options of the commands that reach remote storage; each arrives as one object."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING

import click

from tiersnap.jobs.old_options.common import Duration, Size
from tiersnap.jobs.old_options.once import LAYOUTS
from tiersnap.jobs.old_options.together import with_options
from tiersnap.remote_storage.stores.pace import check_rate
from tiersnap.remote_storage.stores.s3_settings import Checksums, S3Settings
from tiersnap.snapshot.readiness.copy_task import LEFT_FOR_MS
from tiersnap.snapshot.units import format_duration

if TYPE_CHECKING:
    from tiersnap.remote_storage.layouts.layout import Layout


def layout_option(command: Callable[..., object]) -> Callable[..., object]:
    """--layout, given to the command as `layout: Layout`."""

    def to_layout(_: click.Context, __: click.Parameter, name: str) -> Layout:
        # --help needs no layout, and need not wait for their modules.
        from tiersnap.remote_storage.layouts.open_layout import open_layout

        return open_layout(name)

    return click.option(
        "--layout",
        type=click.Choice(list(LAYOUTS)),
        default="aiven",
        show_default=True,
        callback=to_layout,
        help="How segments lie in remote storage: as the Aiven plugin or as Kafka's LocalTieredStorage reads them.",
    )(command)


layout_name_option = click.option(
    "--layout",
    type=click.Choice(list(LAYOUTS)),
    default="aiven",
    show_default=True,
    help="How segments lie in remote storage: as the Aiven plugin or as Kafka's LocalTieredStorage reads them.",
)


allow_plaintext_option = click.option(
    "--allow-plaintext",
    is_flag=True,
    help="Upload also where the plugin encrypts what lies in remote storage: what is uploaded is plain text.",
)
leave_to_broker_option = click.option(
    "--leave-to-broker",
    "left_for",
    type=Duration(),
    default=format_duration(LEFT_FOR_MS),
    show_default=True,
    help="Upload nothing of a partition of which a broker uploaded a segment within this time, by the clock of remote "
    "storage; none uploads beside brokers, too. With --bootstrap-server the cluster says whether one is at work.",
)


def rate_option(meant: str) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """--max-bytes-per-second, given to the command as `rate: int | None`; `meant` says of what."""

    def checked(_: click.Context, __: click.Parameter, value: int | None) -> int | None:
        return None if value is None else check_rate(value)

    help_text = f"{meant}, as 50MiB; at least 4MiB.  [default: as fast as it goes]"
    return click.option("--max-bytes-per-second", "rate", type=Size(), metavar="SIZE", callback=checked, help=help_text)


def s3_options(command: Callable[..., object]) -> Callable[..., object]:
    """The S3 options, given to the command as `s3: S3Settings`."""

    @wraps(command)
    def with_settings(
        *args: object, endpoint_url: str | None, region: str | None, path_style: bool, checksums: str, **kwargs: object
    ) -> object:
        endpoint = f"https://{endpoint_url}" if endpoint_url and "://" not in endpoint_url else endpoint_url
        s3 = S3Settings(endpoint_url=endpoint, region=region, path_style=path_style, checksums=Checksums(checksums))
        return command(*args, s3=s3, **kwargs)

    options = (
        click.option("--endpoint-url", help="S3 server other than AWS; https:// if no scheme is given."),
        click.option("--region", help="S3 region."),
        click.option("--path-style", is_flag=True, help="Name the bucket in the path, not in the host."),
        click.option(
            "--checksums",
            type=click.Choice([kind.value for kind in Checksums]),
            default=Checksums.AWS.value,
            show_default=True,
            help="compat for servers that refuse x-amz-checksum headers.",
        ),
    )
    return with_options(with_settings, options)
