"""The options that prove a remote location, those of `tier` and `run` that publish, and the sentences about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tiersnap.jobs.cli import options as opt
from tiersnap.jobs.cli.option_types import once
from tiersnap.jobs.cli.output import Output
from tiersnap.jobs.cli.sentences import tell_place
from tiersnap.snapshot.units import count_of

if TYPE_CHECKING:
    from tiersnap.jobs.situation.situation import Situation
    from tiersnap.remote_storage.metadata.segment_metadata import TopicIdPartition
    from tiersnap.remote_storage.publish.location_evidence import ProvePlace
    from tiersnap.remote_storage.publish.publish import Published
    from tiersnap.remote_storage.publish.tell_brokers import TellBrokers
    from tiersnap.remote_storage.stores.object_store import ObjectStore
    from tiersnap.snapshot.gate.printed_steps import Place
    from tiersnap.snapshot.log.selection import Selection
    from tiersnap.snapshot.replay.expiry import BrokerExpiry


Talk = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ProofRequest:
    """The proof of a remote location: by a read-back (`prove`), or none (`unproven`)."""

    prove: bool = False
    unproven: bool = False

    def prover(self, situation: Situation, store: ObjectStore, talk: Talk, *, apply: bool) -> ProvePlace:
        """Return the ProvePlace that proves the remote location of `store`, with the brokers of the situation.

        Raises:
            MetadataTopicAbsentError: the cluster has no metadata topic.
            UsageError, WrongClusterError, BrokerUnavailableError: see Situation.cluster_to_ask.
        """
        from tiersnap.remote_storage.cluster.metadata_topic import MetadataTopic
        from tiersnap.remote_storage.publish.location_evidence import ProvePlace

        cluster = situation.cluster_to_ask()
        options = self.prove, self.unproven, apply, talk
        return ProvePlace(cluster, MetadataTopic.of(cluster), store, situation.brokers, *options)


# Given to the command as `proof: ProofRequest`.
proof_options = opt.as_one(
    "proof",
    ProofRequest,
    once(
        "--prove",
        is_flag=True,
        help="Let the brokers read a record back from --remote, through a topic that is created and deleted again. "
        "Takes minutes; the result is kept until a broker restarts. Needs Kafka 3.9 in KRaft mode.",
    ),
    once("--unproven", is_flag=True, help="Continue without a proof, but never against a contradiction."),
)


@dataclass(frozen=True, slots=True)
class PublishRequest:
    """The options for the publication of uploaded segments, and for the proof of the remote location."""

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
        """Return the TellBrokers that publishes; None without a cluster, or if it has no tiered storage.

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
    once("--no-publish", is_flag=True, help="Stop after the upload: do not publish the segments."),
)


def to_publish(done: Published, uploads: Mapping[TopicIdPartition, int]) -> dict[str, int]:
    """Return the number of segments that --apply publishes, by topic; empty if the run has published.

    Args:
        uploads: number of segments that it uploads first, by partition.
    """
    if done.records or done.doubts:
        return {}
    refused = {plan.partition for plan in done.plans if plan.refusal is not None}
    planned: Counter[str] = Counter(each.topic_id_partition.topic for each in done.told)
    for partition, count in uploads.items():
        if partition not in refused:
            planned[partition.topic] += count
    return +planned


def tell_published(output: Output, done: Published, place: Place, planned: Mapping[str, int]) -> None:
    """Report the published or `planned` segments, why others are not published, and the next step."""
    tell_place(output, done.proof)
    output.talk(*_lines(done, place, planned))


def next_steps_of(done: Published, place: Place) -> Iterator[str]:
    """Yield the next steps for topics with disabled copying, and for copy tasks that fail after published segments."""
    from tiersnap.remote_storage.metadata.topic_configs import COPY_DISABLE
    from tiersnap.snapshot.gate.exit_code import OtherProblem
    from tiersnap.snapshot.gate.kafka_tools import set_topic_config

    for topic in done.still_off:
        yield f"{topic}: somebody has disabled copying, so it is still disabled; next:"
        yield place.text(set_topic_config(topic, COPY_DISABLE, "false"))
    unblock = place.clears(OtherProblem.STUCK_COPY_AHEAD)
    for partition in done.stuck_ahead:
        yield f"{partition}: copying goes on behind what was published, and fails there; next: {unblock}"


def _lines(done: Published, place: Place, planned: Mapping[str, int]) -> Iterator[str]:
    if done.records:
        count = count_of(len(done.told), "segment")
        yield f"published {count}: brokers read them, and local retention deletes their files"
    elif uploaded := sum(planned.values()):
        paused = f"copying of {count_of(len(planned), 'topic')} is paused for about three seconds each"
        yield f"--apply also publishes {count_of(uploaded, 'uploaded segment')}; {paused}"
    yield from next_steps_of(done, place)
