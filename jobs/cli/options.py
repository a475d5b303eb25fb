"""Options that several commands share. A command receives some groups of options as one value, such as a Cluster."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from tiersnap.jobs.cli.option_types import (
    DURATION,
    LOG_START,
    PARTITION,
    PATTERN,
    PLACE,
    SERVERS,
    SIZE,
    TIME,
    TIME_OR_BOUNDARY,
    Word,
    expand,
    once,
)
from tiersnap.jobs.cli.output import Output
from tiersnap.jobs.cli.text_files import read_properties
from tiersnap.jobs.situation.remote_view import RemoteView
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.stores.paced_store import check_rate
from tiersnap.remote_storage.stores.s3_settings import Checksums, S3Settings
from tiersnap.remote_storage.stores.store_settings import StoreSettings
from tiersnap.snapshot.gate.copy_task import LEFT_FOR_MS, ClusterAnswer
from tiersnap.snapshot.units import format_duration

if TYPE_CHECKING:
    from tiersnap.remote_storage.remote_log.log_head import AskLogStart
    from tiersnap.snapshot.formats.checkpoints import TopicPartition
    from tiersnap.snapshot.log.log_dir import Partition
    from tiersnap.snapshot.log.selection import NamedLogDir, Selection
    from tiersnap.snapshot.replay.expiry import BrokerExpiry, Expiry

# The types that commands need to annotate their arguments.
__all__ = ["BrokerExpiry", "Cluster", "RemoteView", "Selection", "StoreSettings"]
TopicPattern = re.Pattern[str] | None
LogStarts = Mapping["TopicPartition", int]
Function = Callable[..., object]
Option = Callable[[Function], Function]
LAYOUTS = ("aiven", "local-tiered-storage")
OF_BEGINNINGS = "Remote location. It is read for logs whose first segments exist only in remote storage."


def is_typed(ctx: click.Context, name: str) -> bool:
    """Return whether the command line set the parameter. If the environment or a settings file set it, return False."""
    return ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE


def as_one(name: str, make: Callable[..., object], *options: Option) -> Option:
    """Return a decorator that groups options. It calls `make` with their values, and passes the result to the command.

    Args:
        name: the command's argument that receives the result.
        make: called with the options' values as keyword arguments.
        options: decorators that add the options; the help lists the options in this order.
    """
    values = inspect.signature(make).parameters

    def gather(function: Function) -> Function:
        @wraps(function)
        def with_one(*args: object, **given: object) -> object:
            grouped = {each: given.pop(each) for each in values.keys() & given.keys()}
            return function(*args, **{name: make(**grouped)}, **given)

        decorated: Function = with_one
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return gather


# One at a time -------------------------------------------------------------------------------------------------------

topic_option = click.option(
    "--topic", type=PATTERN, help="Process only topics whose whole name matches this regular expression."
)
crc_option = click.option(
    "--check-crc/--no-check-crc", default=True, show_default=True, help="Verify the CRC-32C of every batch."
)
expiration_option = click.option(
    "--expiration",
    type=DURATION,
    default="7d",
    show_default=True,
    help="Omit a producer from a snapshot if the producer had been idle this long at the end of the segment. Use the "
    "broker's transactional.id.expiration.ms; `none` keeps all producers.",
)
as_of_option = click.option(
    "--as-of",
    type=TIME_OR_BOUNDARY,
    default="boundary",
    show_default=True,
    help="Omit producers that had been idle for --expiration at this time: `now`, an ISO 8601 time, or `boundary` for "
    "the end of each segment.",
)
producer_expiration_option = click.option(
    "--producer-expiration",
    type=DURATION,
    default="1d",
    show_default=True,
    help="The broker's producer.id.expiration.ms. A snapshot may omit producers that expired.",
)
now_option = click.option(
    "--now",
    type=TIME,
    default="now",
    help="Use this time as the current time, for example for an old copy of a disk.  [default: the clock of this host]",
)


def _broker_expiry(producer_expiration: int | None, now: int) -> BrokerExpiry:
    from tiersnap.snapshot.replay.expiry import BrokerExpiry

    return BrokerExpiry(now, producer_expiration)


# The command receives these options as `broker_expiry: BrokerExpiry`.
broker_expiry_options = as_one("broker_expiry", _broker_expiry, producer_expiration_option, now_option)
remote_option = click.option("--remote", required=True, help="Remote location: s3://bucket/prefix, or a directory.")
layout_option = click.option(
    "--layout",
    type=click.Choice(LAYOUTS),
    default="aiven",
    show_default=True,
    help="Layout of object keys: aiven for Aiven's plugin, or local-tiered-storage for Kafka's LocalTieredStorage.",
)
warehouse_option = click.option(
    "--warehouse", type=PLACE, default="tiersnap-warehouse", show_default=True, help="Folder of the Delta tables."
)
allow_plaintext_option = click.option(
    "--allow-plaintext",
    is_flag=True,
    help="Upload plain text even if the plugin of the brokers encrypts their segments in remote storage.",
)
replace_option = click.option(
    "--replace",
    is_flag=True,
    help="Upload a computed snapshot in place of a broker's snapshot that is CORRUPT or SUSPECT.",
)
topic_ids_option = click.option(
    "--topic-ids",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with a line `TOPIC ID` for each topic, such as `orders a1b2c3d4e5f6g7h8i9j0kA`.",
)
leave_to_broker_option = click.option(
    "--leave-to-broker",
    "left_for",
    type=DURATION,
    default=format_duration(LEFT_FOR_MS),
    show_default=True,
    help="Skip a partition if a broker uploaded one of its segments within this time, by the clock of remote storage. "
    "`none` skips no partition. With --bootstrap-server, tiersnap instead asks the cluster which copy tasks "
    "work.",
)
every_boundary_option = click.option(
    "--all",
    "every_boundary",
    is_flag=True,
    help="Write the snapshot at the end of each segment, even if the snapshot exists.",
)
hung_after_option = click.option(
    "--hung-after",
    type=DURATION,
    default="30m",
    show_default=True,
    help="Report a broker's upload as hung if it runs this long, and ten times as long as other uploads of the "
    "partition.",
)
broker_option = click.option(
    "--broker-id",
    type=int,
    metavar="N",
    help="Broker id to write into the published records.  [default: the partition's leader]",
)


def apply_option(help_text: str) -> Option:
    """Return the option --apply. Without this flag a command prints a plan, and changes nothing."""
    return click.option("--apply", is_flag=True, help=help_text)


def rate_option(meant: str) -> Option:
    """Return the option --max-bytes-per-second, with a help that begins with `meant`.

    The command receives the value as `rate: int | None`, in bytes per second.
    """

    def checked(_: click.Context, __: click.Parameter, value: int | None) -> int | None:
        return None if value is None else check_rate(value)

    help_text = f"{meant}, such as 50MiB; at least 4MiB.  [default: no limit]"
    return click.option("--max-bytes-per-second", "rate", type=SIZE, metavar="SIZE", callback=checked, help=help_text)


def expiry(expiration: int | None, as_of: int | None, broker_expiry: BrokerExpiry) -> Expiry:
    """Return the expiration rules of --expiration (ms) and --as-of (epoch ms).

    Raises:
        UsageError: see `Expiry.checked`.
    """
    from tiersnap.snapshot.replay.expiry import Expiry

    return Expiry(expiration, broker_expiry.now, as_of).checked(broker_expiry.expiration)


# Log directories -----------------------------------------------------------------------------------------------------


def log_dirs_argument(*, required: bool = True) -> Option:
    """Return the argument LOGDIR. The command receives it as `log_dirs: tuple[str, ...]`."""
    return click.argument(
        "log_dirs",
        type=Word(),
        metavar="LOGDIR..." if required else "[LOGDIR]...",
        nargs=-1,
        required=required,
        envvar="TIERSNAP_SOURCE",
        callback=lambda _, __, words: expand(words),
    )


def _selection(topic: TopicPattern, partitions: tuple[TopicPartition, ...]) -> Selection:
    from tiersnap.snapshot.log.selection import Selection

    return Selection(topic, frozenset(partitions))


def partitions_option(said: str) -> Option:
    """Return the repeatable option --partition; `said` is its help."""
    return once("--partition", "partitions", multiple=True, type=PARTITION, metavar="TOPIC-PARTITION", help=said)


# The command receives these options as `selection: Selection`.
selection_options = as_one(
    "selection",
    _selection,
    topic_option,
    partitions_option("Process only this partition; repeatable."),
)


def _log_starts(stated: tuple[tuple[TopicPartition, int], ...]) -> LogStarts:
    return dict(stated)


# The command receives this option as `log_starts: LogStarts`.
log_start_option = as_one(
    "log_starts",
    _log_starts,
    once(
        "--log-start",
        "stated",
        multiple=True,
        type=LOG_START,
        metavar="TOPIC-PARTITION=OFFSET",
        help="State the log start offset (first local or remote offset) of a partition whose log start tiersnap "
        "cannot find; repeatable.",
    ),
)


# Remote storage ------------------------------------------------------------------------------------------------------


def _store_settings(endpoint_url: str | None, region: str | None, path_style: bool, checksums: str) -> StoreSettings:
    endpoint = f"https://{endpoint_url}" if endpoint_url and "://" not in endpoint_url else endpoint_url
    return StoreSettings(
        S3Settings(endpoint_url=endpoint, region=region, path_style=path_style, checksums=Checksums(checksums))
    )


# The command receives these options as `stores: StoreSettings`.
store_options = as_one(
    "stores",
    _store_settings,
    click.option("--endpoint-url", help="URL of an S3 server other than AWS; the default scheme is https."),
    click.option("--region", help="S3 region."),
    click.option("--path-style", is_flag=True, help="Put the bucket name into the URL path, not into the host name."),
    click.option(
        "--checksums",
        type=click.Choice([kind.value for kind in Checksums]),
        default=Checksums.AWS.value,
        show_default=True,
        help="Checksums of requests; `compat` for servers that refuse x-amz-checksum headers.",
    ),
)


def remote_view_options(help_text: str, option: Callable[..., Option] = once) -> Option:
    """Return the options --remote, --layout and those of the store. The command receives them as `view: RemoteView`.

    Args:
        help_text: help of --remote.
        option: the function that makes --remote, `click.option` or `once`.
    """
    return as_one("view", RemoteView, option("--remote", help=help_text), layout_option, store_options)


# Clusters ------------------------------------------------------------------------------------------------------------


def cluster_options(
    help_text: str = "Broker of the cluster.", *, required: bool = False, option: Callable[..., Option] = click.option
) -> Option:
    """Return the options --bootstrap-server and --command-config.

    The command receives them as `cluster: Cluster | None`.

    Args:
        help_text: help of --bootstrap-server.
        required: whether --bootstrap-server is required, so that `cluster` is never None.
        option: the function that makes --bootstrap-server, `click.option` or `once`.
    """

    def make(bootstrap_server: str | None, command_config: Path | None) -> Cluster | None:
        properties = read_properties(command_config) if command_config else {}
        return None if bootstrap_server is None else Cluster(bootstrap_server, properties)

    return as_one(
        "cluster",
        make,
        option("--bootstrap-server", required=required, type=SERVERS, metavar="HOST:PORT", help=help_text),
        click.option(
            "--command-config",
            type=click.Path(dir_okay=False, path_type=Path),
            help="File of client properties: `name=value` lines with librdkafka's names, such as security.protocol.",
        ),
    )


@dataclass(frozen=True)
class CopyTaskSource:
    """The source that tells whether a broker's copy task works on a partition.

    Attributes:
        cluster: the cluster to ask. Without a cluster, tiersnap assumes that a copy task works for `left_for` after
            a broker's upload.
        left_for: ms for which tiersnap skips a partition after a broker's last upload; None to skip no partition.
    """

    cluster: Cluster | None
    left_for: int | None = None

    def about(self, log_dirs: Iterable[NamedLogDir], topic: TopicPattern, output: Output) -> ClusterAnswer:
        """Ask the cluster about the partitions in the log directories; see `ask_about_log_dirs` for the answer.

        Without a cluster, the answer contains only the records in local replicas of `__remote_log_metadata`.
        """
        if self.cluster is None:
            from tiersnap.remote_storage.metadata.recorded import read_replicas

            return ClusterAnswer(records=read_replicas(each.log_dir for each in log_dirs))
        from tiersnap.remote_storage.cluster.copy_tasks import ask_about_log_dirs

        return ask_about_log_dirs(self.cluster, log_dirs, topic, talk=output.talk)

    @property
    def ask_log_start(self) -> AskLogStart | None:
        """Return a function that asks the cluster for the log start offset of a partition; None without a cluster."""
        if self.cluster is None:
            return None
        from tiersnap.remote_storage.cluster.log_starts import log_start_of

        return partial(log_start_of, self.cluster)

    def located(self, partitions: Iterator[tuple[NamedLogDir, Partition]]) -> Iterator[tuple[NamedLogDir, Partition]]:
        """Yield the partitions. If the local log start offset is unknown or outdated, take the leader's.

        For the rule see `snapshot.log.log_start`. Without a cluster, yield the partitions unchanged.
        """
        if self.cluster is None:
            return partitions
        from tiersnap.remote_storage.cluster.log_starts import located

        return located(self.cluster, partitions)
