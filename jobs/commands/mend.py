"""`tiersnap mend`: objects that brokers look for and do not find, put back from where they were uploaded by mistake."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar

import click
from msgspec import UNSET, Meta, UnsetType

from tiersnap.jobs.command import command
from tiersnap.jobs.commands.publish import PlaceRequest, place_options
from tiersnap.jobs.option_types import once
from tiersnap.jobs.options import LAYOUTS, allow_plaintext_option, apply_option, cluster_options, topic_option
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
@cluster_options(required=True)
@place_options
@once("--from", "wrong", required=True, metavar="URI", help="Where the objects were uploaded by mistake.")
@once("--from-layout", type=click.Choice(LAYOUTS), help="How they lie there.  [default: as in --remote]")
@topic_option
@allow_plaintext_option
@apply_option("Put them back; without it the plan is shown.")
def mend(
    output: Output,
    cluster: Cluster,
    place: PlaceRequest,
    wrong: str,
    from_layout: str | None,
    topic: re.Pattern[str] | None,
    allow_plaintext: bool,
    apply: bool,
) -> int:
    r"""Put back objects of remote segments that brokers know and do not find in --remote.

    tiersnap mend --bootstrap-server broker-1:9092 --remote s3://bucket/tiers \
      --from s3://bucket/wrong-prefix

    For segments that were published at a wrong place: with a wrong --remote, prefix or --layout. Their objects come
    from --from, under the keys that brokers look for and under the same segment ids; in another layout they are built
    again. No record changes, nothing is overwritten, --from stays as it is. Brokers read them without a restart.

    That brokers read --remote is proven as by tiersnap publish. Plain text goes among no encrypted segments.
    """
    from tiersnap.remote_storage.cluster.mend import exit_code_of, plan_mending
    from tiersnap.remote_storage.cluster.missing_objects import find_missing, read_by_brokers
    from tiersnap.remote_storage.cluster.outcomes import MendOutcome
    from tiersnap.remote_storage.cluster.put_back import PutBack
    from tiersnap.remote_storage.layouts.open_layout import open_layout
    from tiersnap.remote_storage.stores.open_store import open_existing_store
    from tiersnap.snapshot.log.selection import matches_topic
    from tiersnap.snapshot.replay.remote_listing import Encryption

    prover = place.prover(cluster, output.talk, apply=apply, writes=apply)
    target, layout = prover.store, prover.layout(place.layout)
    source, lies_as = open_existing_store(wrong, place.s3, writes=False), open_layout(from_layout or layout.name)
    if (source.uri, lies_as.name) == (target.uri, layout.name):
        raise UsageError("--from is --remote, in the same layout", hint="name where they were uploaded by mistake")
    with prover.metadata_topic.read_all() as reader, Progress(output, "mending"):
        ask = partial(read_by_brokers, cluster, reader, lambda name: matches_topic(name, topic))
        missing = find_missing(ask, reader.cache.ours, target, layout)
        proof = prover.prove(layout) if missing.segments else None
        done = plan_mending(source, missing.segments, lies_as, layout, None if allow_plaintext else target)
        if apply:
            done = list(PutBack(source, target, layout, reader.read_to_end).each(done))
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
