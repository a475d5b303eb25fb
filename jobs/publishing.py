"""Options of `tier` and `run` that decide whether they publish, and their sentences about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tiersnap.jobs import options as opt
from tiersnap.jobs.commands.publish import ProofRequest, Talk, next_steps_of, proof_options
from tiersnap.jobs.option_types import once
from tiersnap.jobs.output import Output
from tiersnap.jobs.sentences import tell_place
from tiersnap.snapshot.units import count_of

if TYPE_CHECKING:
    from tiersnap.jobs.situation.situation import Situation
    from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
    from tiersnap.remote_storage.publish.publish import Published
    from tiersnap.remote_storage.publish.tell_brokers import TellBrokers
    from tiersnap.remote_storage.stores.object_store import ObjectStore
    from tiersnap.snapshot.gate.commands import Place
    from tiersnap.snapshot.log.selection import Selection
    from tiersnap.snapshot.replay.expiry import BrokerExpiry


@dataclass(frozen=True, slots=True)
class PublishRequest:
    """The wish to publish what a command uploads, and how the remote location is proven."""

    proof: ProofRequest
    no_publish: bool = False

    def teller(
        self,
        situation: Situation,
        store: ObjectStore,
        selection: Selection,
        expiry: BrokerExpiry,
        talk: Talk,
        *,
        apply: bool,
    ) -> TellBrokers | None:
        """Return what publishes; None without a cluster, or one without tiered storage.

        Raises:
            WrongPlaceError: brokers read another location.
            TransientError: brokers or the store do not answer.
        """
        if situation.cluster.value is None or self.no_publish:
            return None
        from tiersnap.remote_storage.errors import MetadataTopicAbsentError
        from tiersnap.remote_storage.publish.tell_brokers import TellBrokers

        try:
            place = self.proof.prover(situation, store, talk, apply=apply)
        except MetadataTopicAbsentError as absent:
            talk(f"nothing is published: {absent.message}")
            talk(f"  {absent.hint}")
            return None
        made = TellBrokers(place, place.location(situation.layout), situation.log_dirs.value or (), selection, expiry)
        made.refuse_contradiction()
        return made


# Given to the command as `publishing: PublishRequest`.
publishing_options = opt.as_one(
    "publishing",
    PublishRequest,
    proof_options,
    once("--no-publish", is_flag=True, help="Stop after the upload: brokers are not told of the segments."),
)


def to_publish(done: Published, uploads: Mapping[TopicIdPartition, int]) -> dict[str, int]:
    """Return how many segments --apply publishes, by topic; nothing of a run that has published.

    Args:
        uploads: number of segments that it uploads first, by partition.
    """
    if done.records or done.doubts:
        return {}
    refused = {plan.partition for plan in done.plans if not plan.is_open and plan.refusal is not None}
    planned: Counter[str] = Counter(each.topic_id_partition.topic for each in done.told)
    for partition, count in uploads.items():
        planned[partition.topic] += 0 if partition in refused else count
    return +planned


def tell_published(output: Output, done: Published, place: Place, planned: Mapping[str, int]) -> None:
    """Say what was published, or is `planned`, why the rest was not, and what comes next."""
    tell_place(output, done.proof)
    output.talk(*_lines(done, place, planned))


def _lines(done: Published, place: Place, planned: Mapping[str, int]) -> Iterator[str]:
    if done.records:
        count = count_of(len(done.told), "segment")
        yield f"published {count}: brokers read them, and local retention deletes their files"
    elif uploaded := sum(planned.values()):
        paused = f"copying of {count_of(len(planned), 'topic')} is paused for about three seconds each"
        yield f"--apply also publishes {count_of(uploaded, 'uploaded segment')}; {paused}"
    yield from next_steps_of(done, place)
