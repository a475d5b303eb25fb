"""`tiersnap mend`: objects that brokers look for and do not find, put back or made again."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar

import click
from msgspec import UNSET, Meta, UnsetType

from tiersnap.jobs import options as opt
from tiersnap.jobs.command import command
from tiersnap.jobs.commands.publish import PlaceRequest, place_options
from tiersnap.jobs.option_types import once
from tiersnap.jobs.output import Output
from tiersnap.jobs.progress import Progress
from tiersnap.jobs.sentences import (
    MissingRemoteSegment,
    PlaceSentence,
    fields_of_missing,
    tell_failures,
    tell_place,
    tell_unknown_encryption,
)
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.cluster.location_proof import EvidenceKind
from tiersnap.remote_storage.cluster.outcomes import MendAction, MendOutcome
from tiersnap.snapshot.errors import UsageError

if TYPE_CHECKING:
    from tiersnap.remote_storage.cluster.mend import Mending


@dataclass(frozen=True)
class MendedSegment(MissingRemoteSegment):
    """A segment of `mend` that brokers know and whose objects were missing."""

    COLUMNS: ClassVar = ("topic", "partition", "base_offset", "next_base_offset", "segment_id", "action", "outcome")
    action: MendAction
    outcome: MendOutcome
    reason: Annotated[str, Meta(description='why it failed, or ""')]


@dataclass(frozen=True, slots=True)
class MendSummary:
    """All segments; the place is absent where nothing is missing."""

    NOT_TOLD: ClassVar = ("place", "place_evidence")
    known: Annotated[int, Meta(description="segments that brokers know and read")]
    missing: int
    mended: int
    encryption_unknown: Annotated[
        int, Meta(description="partitions of which no manifest shows whether the plugin encrypts")
    ]
    place: PlaceSentence | UnsetType = UNSET
    place_evidence: EvidenceKind | UnsetType = UNSET


@command(MendedSegment, summary=MendSummary)
@opt.cluster_options(required=True)
@place_options
@once("--from", "wrong", metavar="URI", help="Where the objects were uploaded by mistake: looked at first.")
@once("--from-layout", type=click.Choice(opt.LAYOUTS), help="How they lie there.  [default: as in --remote]")
@click.option("--log-dir", "log_dirs", multiple=True, help="A log directory of a replica: looked at second.")
@opt.topic_option
@opt.expiration_option
@opt.producer_expiration_option
@opt.now_option
@opt.allow_plaintext_option
@opt.apply_option("Put them back; without it the plan is shown.")
def mend(
    output: Output,
    cluster: Cluster,
    place: PlaceRequest,
    wrong: str | None,
    from_layout: str | None,
    log_dirs: tuple[str, ...],
    topic: re.Pattern[str] | None,
    expiration: int | None,
    producer_expiration: int | None,
    now: int,
    allow_plaintext: bool,
    apply: bool,
) -> int:
    r"""Put back objects of remote segments that brokers know and do not find in --remote.

    tiersnap mend --bootstrap-server broker-1:9092 --remote s3://bucket/tiers
    tiersnap mend --bootstrap-server broker-1:9092 --remote s3://bucket/tiers \
      --log-dir /var/lib/kafka/data --apply
    tiersnap mend --bootstrap-server broker-1:9092 --remote s3://bucket/tiers \
      --from s3://bucket/wrong-prefix

    An object comes from --from, if it was uploaded to a wrong prefix or in a wrong layout; or it is made again, as
    tiersnap tier makes it, from the log in --log-dir, or from the segment's other objects and the producer state that
    the tier tells where it begins. It gets the key that brokers look for, under the same segment id. No record changes,
    nothing is overwritten, --from stays as it is. Brokers read it without a restart. If an object cannot be made so
    that it fits the others, nothing is written (exit code 4).

    That brokers read --remote is proven as by tiersnap publish. Plain text goes among no encrypted segments.
    """
    from tiersnap.remote_storage.check.local_log import local_logs
    from tiersnap.remote_storage.cluster.make_again import MakeAgain, RemoteLogs
    from tiersnap.remote_storage.cluster.mend import Mending, exit_code_of, plan_mending
    from tiersnap.remote_storage.cluster.missing_objects import find_missing, log_starts, read_by_brokers
    from tiersnap.remote_storage.cluster.outcomes import MendAction, MendOutcome
    from tiersnap.remote_storage.cluster.put_back import PutBack, check_known
    from tiersnap.remote_storage.cluster.right_segments import MendRules
    from tiersnap.remote_storage.layouts.open_layout import open_layout
    from tiersnap.remote_storage.stores.open_store import open_existing_store
    from tiersnap.snapshot.log.selection import Selection, matches_topic
    from tiersnap.snapshot.replay.expiry import Expiry
    from tiersnap.snapshot.replay.remote_listing import Encryption
    from tiersnap.snapshot.replay.remote_start import Beginnings

    prover = place.prover(cluster, output.talk, apply=apply, writes=apply)
    target, layout = prover.store, prover.layout(place.layout)
    source = None if wrong is None else open_existing_store(wrong, place.s3, writes=False)
    lies_as = open_layout(from_layout or layout.name)
    if source is not None and (source.uri, lies_as.name) == (target.uri, layout.name):
        raise UsageError("--from is --remote, in the same layout", hint="name where they were uploaded by mistake")
    local = {} if not log_dirs else local_logs(log_dirs, Selection(topic), Beginnings(), check_crc=True)
    rules = MendRules(Expiry(expiration, now), producer_expiration)
    with prover.metadata_topic.read_all() as reader, Progress(output, "mending"):
        ask = partial(read_by_brokers, cluster, reader, lambda name: matches_topic(name, topic))
        missing = find_missing(ask, reader.cache.ours, target, layout)
        proof = prover.prove(layout) if missing.segments else None
        if source is None:
            done = [Mending(each, MendAction.NONE, MendOutcome.FAILED) for each in missing.segments]
        else:
            done = plan_mending(source, missing.segments, lies_as, layout, None if allow_plaintext else target)
            done = list(PutBack(source, target, layout, reader.read_to_end).each(done)) if apply else done
        starts = log_starts(cluster, {each.metadata.id.topic_id_partition for each in done})
        logs = RemoteLogs(target, layout, rules, local, starts)
        make = MakeAgain(logs, partial(check_known, reader.read_to_end), allow_plaintext, apply)
        done = list(make.each(done))
    errors = [each.error for each in done if each.error is not None]
    mended = sum(each.outcome is MendOutcome.MENDED for each in done)
    told = () if proof is None else (proof.sentence, proof.evidence)
    unknown = {each.metadata.id.topic_id_partition for each in done if each.encryption is Encryption.UNKNOWN}
    summary = MendSummary(missing.known, len(done), mended, len(unknown), *told)
    output.rows(MendedSegment, map(_row, done), summary=summary, errors=errors)
    tell_place(output, proof)
    output.talk(missing.sentence)
    tell_failures(output, errors)
    if done and not apply:
        tell_unknown_encryption(output, len(unknown))
        output.talk("nothing was put back: give --apply")
    return exit_code_of(done)


def _row(each: Mending) -> MendedSegment:
    reason = "" if each.error is None else each.error.message
    return MendedSegment(**fields_of_missing(each.missing), action=each.action, outcome=each.outcome, reason=reason)
