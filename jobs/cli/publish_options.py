"""The options --prove, --unproven and --no-publish, and the messages about published segments."""

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
    from tiersnap.remote_storage.publish.publish_uploads import PublishUploads
    from tiersnap.remote_storage.stores.object_store import ObjectStore
    from tiersnap.snapshot.gate.printed_steps import Place
    from tiersnap.snapshot.log.selection import Selection
    from tiersnap.snapshot.replay.expiry import BrokerExpiry


Talk = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ProofRequest:
    """The options for the proof that brokers read a remote location.

    Attributes:
        prove: the flag --prove: create a topic, and let the brokers read one of its records back from the location.
        unproven: the flag --unproven: continue without evidence that brokers read the location.
    """

    prove: bool = False
    unproven: bool = False

    def prover(self, situation: Situation, store: ObjectStore, talk: Talk, *, apply: bool) -> ProvePlace:
        """Return the ProvePlace that finds out whether the situation's brokers read a location in `store`.

        Raises:
            MetadataTopicAbsentError: the cluster has no topic `__remote_log_metadata`.
            UsageError, WrongClusterError, BrokerUnavailableError: see Situation.cluster_to_ask.
        """
        from tiersnap.remote_storage.cluster.metadata_topic import MetadataTopic
        from tiersnap.remote_storage.publish.location_evidence import ProvePlace

        cluster = situation.cluster_to_ask()
        options = self.prove, self.unproven, apply, talk
        return ProvePlace(cluster, MetadataTopic.of(cluster), store, situation.brokers, *options)


# The command receives these options as `proof: ProofRequest`.
proof_options = opt.as_one(
    "proof",
    ProofRequest,
    once(
        "--prove",
        is_flag=True,
        help="Prove that brokers read --remote: create a topic, let the brokers read one of its records back from "
        "--remote, and delete the topic. This takes minutes. The result is valid until a broker restarts. Needs "
        "Kafka 3.9 in KRaft mode.",
    ),
    once(
        "--unproven",
        is_flag=True,
        help="Publish even if nothing proves that brokers read --remote. The command still fails if evidence shows "
        "that brokers do not read --remote.",
    ),
)


@dataclass(frozen=True, slots=True)
class PublishRequest:
    """The options of `tier` and `run` for publishing uploaded segments."""

    proof: ProofRequest
    no_publish: bool = False

    def publisher(
        self,
        situation: Situation,
        store: ObjectStore,
        selection: Selection,
        expiry: BrokerExpiry,
        talk: Talk,
        *,
        apply: bool,
    ) -> PublishUploads | None:
        """Return the PublishUploads that publishes segments.

        Return None if --no-publish was given, no cluster is known, or the cluster has no tiered storage.

        Raises:
            WrongPlaceError: brokers read another location.
            TransientError: brokers or the store do not answer.
        """
        if situation.cluster.value is None or self.no_publish:
            return None
        from tiersnap.remote_storage.errors import MetadataTopicAbsentError
        from tiersnap.remote_storage.publish.publish_uploads import PublishUploads

        try:
            place = self.proof.prover(situation, store, talk, apply=apply)
        except MetadataTopicAbsentError as absent:
            talk(f"nothing is published: {absent.message}")
            talk(f"  {absent.hint}")
            return None
        log_dirs = situation.log_dirs.value or ()
        made = PublishUploads(place, place.location(situation.layout), log_dirs, selection, expiry)
        made.refuse_contradiction()
        return made


# The command receives these options as `publishing: PublishRequest`.
publishing_options = opt.as_one(
    "publishing",
    PublishRequest,
    proof_options,
    once("--no-publish", is_flag=True, help="Upload segments, but do not publish them."),
)


def to_publish(done: Published, uploads: Mapping[TopicIdPartition, int]) -> dict[str, int]:
    """Return the number of segments that --apply would publish, by topic. Return {} if segments were published.

    Args:
        done: the result of the command so far.
        uploads: by partition, the number of segments that --apply would upload and then publish.
    """
    if done.records or done.doubts:
        return {}
    refused = {plan.partition for plan in done.plans if plan.refusal is not None}
    planned: Counter[str] = Counter(each.topic_id_partition.topic for each in done.segment_ids)
    for partition, count in uploads.items():
        if partition not in refused:
            planned[partition.topic] += count
    return +planned


def tell_published(output: Output, done: Published, place: Place, planned: Mapping[str, int]) -> None:
    """Print whether brokers read the location, the number of published or `planned` segments, and the next steps."""
    tell_place(output, done.proof)
    output.talk(*_lines(done, place, planned))


def next_steps_of(done: Published, place: Place) -> Iterator[str]:
    """Yield the next steps for topics with disabled copying, and for partitions whose copy task still fails."""
    from tiersnap.remote_storage.metadata.topic_configs import COPY_DISABLE
    from tiersnap.snapshot.gate.exit_code import OtherProblem
    from tiersnap.snapshot.gate.kafka_tools import set_topic_config

    for topic in done.still_off:
        yield (
            f"{topic}: {COPY_DISABLE}=true was set by another program or user, so tiersnap leaves copying disabled; "
            "to enable it:"
        )
        yield place.text(set_topic_config(topic, COPY_DISABLE, "false"))
    unblock = place.clears(OtherProblem.STUCK_COPY_AHEAD)
    for partition in done.stuck_ahead:
        yield f"{partition}: the broker's copy task fails at a segment after the published segments; next: {unblock}"


def _lines(done: Published, place: Place, planned: Mapping[str, int]) -> Iterator[str]:
    if done.records:
        count = count_of(len(done.segment_ids), "segment")
        yield f"published {count}: brokers read them in remote storage, and local retention deletes their local files"
    elif uploaded := sum(planned.values()):
        paused = f"brokers stop copying for about three seconds in each of {count_of(len(planned), 'topic')}"
        yield f"--apply publishes {count_of(uploaded, 'uploaded segment')}: {paused}"
    yield from next_steps_of(done, place)
