"""Options of `tiersnap restore`: what is to be restored, and as what."""

from __future__ import annotations

import click

from tiersnap.jobs.old_options import common as params
from tiersnap.jobs.old_options.once import LAYOUTS, once
from tiersnap.jobs.old_options.together import as_one
from tiersnap.remote_storage.restore.request import RestoreRequest
from tiersnap.remote_storage.restore.target import PRODUCER_STATES

# Given to the command as `asked: RestoreRequest`.
restore_options = as_one(
    "asked",
    RestoreRequest,
    once("--topic", required=True, help="The topic's name."),
    once("--partition", "partitions", multiple=True, type=int, help="Only these; all there are by default."),
    once("--topic-id", help="In remote storage, where the topic was made anew and has segments under several ids."),
    click.option("--layout", type=click.Choice(LAYOUTS), help="Where there are segments in both layouts."),
    once("--cluster-id", help="The cluster that wrote the segments; asked for where no run recorded it."),
    once("--as-topic-id", help="What the target's cluster knows the topic by; as in remote storage by default."),
    once(
        "--producer-state",
        type=click.Choice(PRODUCER_STATES),
        help="keep in the same cluster. Into another one this has to be chosen: empty (but for the holders of open "
        "transactions), or keep where no ids collide.",
    ),
    once("--log-start", type=int, help="First offset wanted, of one partition; as the tier tells by default."),
    once(
        "--until",
        type=int,
        help="End the log of one partition below this offset; asked for where newer segments are not usable.",
    ),
    once("--without", multiple=True, metavar="SEGMENT_ID", help="Leave this copy of a segment out."),
    click.option(
        "--unpublished",
        is_flag=True,
        help="Also restore segments that the cluster does not know; without --bootstrap-server, those that tiersnap "
        "made.",
    ),
    params.producer_expiration_option,
    params.now_option,
)
