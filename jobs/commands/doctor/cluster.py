"""The checks of `doctor` about a cluster: hung copies, segments that were copied twice, and missing segments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, TypeGuard, TypeVar

from msgspec import Meta

from tiersnap.jobs.cli.output import and_more
from tiersnap.jobs.cli.publish_options import ProofRequest
from tiersnap.jobs.cli.sentences import MissingRemoteSegment
from tiersnap.jobs.commands.doctor.location import JudgedLocation
from tiersnap.jobs.situation.situation import COMMAND_LINE, Situation
from tiersnap.remote_storage.cluster.client import Cluster
from tiersnap.remote_storage.publish.location_proof import LocationState
from tiersnap.snapshot.errors import TiersnapError, TransientError
from tiersnap.snapshot.gate.exit_code import OtherProblem
from tiersnap.snapshot.gate.step_template import Hole, NextStep
from tiersnap.snapshot.units import count_of, human_bytes

if TYPE_CHECKING:
    from tiersnap.remote_storage.cluster.hung_copies import HungCopy
    from tiersnap.remote_storage.cluster.missing_objects import Missing, MissingSegment
    from tiersnap.remote_storage.metadata.metadata_cache import MetadataCache
    from tiersnap.remote_storage.publish.location_proof import LocationVerdict
    from tiersnap.snapshot.gate.printed_steps import Place, Step
    from tiersnap.snapshot.log.log_dir import Partition
    from tiersnap.snapshot.log.selection import NamedLogDir
    from tiersnap.snapshot.replay.remote_records import Records

MOST_LINES = 5  # lines of each kind in a section
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HungRemoteCopy:
    """A copy that a broker started and has not finished."""

    topic: str
    partition: int
    broker: int
    segment_id: str
    base_offset: int
    age_ms: int
    usual_ms: Annotated[
        int | None, Meta(description="usual duration of an upload in the partition; null if no upload has finished")
    ]
    waiting_bytes: Annotated[
        int,
        Meta(
            description="bytes of closed segments on this host from `base_offset` on; without LOGDIR the bytes of the "
            "segment at `base_offset`"
        ),
    ]


@dataclass(frozen=True, slots=True)
class CopiedTwice:
    """A segment that two attempts finished. Brokers read the segment with the id in `read`, not `segment_id`."""

    partition: str
    segment_id: str
    read: str


@dataclass(frozen=True, slots=True)
class CopyProblems:
    """The hung copies and the segments that were copied twice, as rows and as messages (`said`)."""

    hung: tuple[HungRemoteCopy, ...] = ()
    twice: tuple[CopiedTwice, ...] = ()
    said: tuple[str, ...] = ()


def find_copy_problems(
    cluster: Cluster | None, log_dirs: tuple[str, ...], now: int, hung_after: int | None, records: MetadataCache | None
) -> CopyProblems:
    """Return the hung copies and the segments that were copied twice, from the records of a cluster.

    Args:
        cluster: the cluster to ask; without one the result is empty.
        log_dirs: log directories of one broker.
        now: current time in epoch ms.
        hung_after: --hung-after in ms; if it is None, the result is empty.
        records: all records of the cluster; None to read them.

    Raises:
        UsageError: a log directory belongs to another cluster.
    """
    if cluster is None or hung_after is None:
        return CopyProblems()
    from tiersnap.remote_storage.cluster.copy_tasks import check_cluster_of
    from tiersnap.remote_storage.cluster.hung_copies import HungLimit, find_all_hung, read_all_records
    from tiersnap.snapshot.log.selection import open_log_dirs

    opened = open_log_dirs(log_dirs)
    if opened:
        check_cluster_of(cluster, {each.source: each.log_dir for each in opened})
    cache = read_all_records(cluster) if records is None else records
    hung = find_all_hung(cluster, cache, [each.source for each in opened], HungLimit(now, hung_after))
    rows = tuple(_rows(opened, hung))
    said = []
    for each, row in zip(hung, rows, strict=True):
        said.append(f"{each.says()}; {human_bytes(row.waiting_bytes)} wait")
    twice = tuple(_copied_twice(cache))
    return CopyProblems(rows, twice, (*said, *_of_twice(twice)))


def _rows(opened: Iterable[NamedLogDir], hung: Sequence[HungCopy]) -> Iterator[HungRemoteCopy]:
    begins = {(each.partition.topic, each.partition.partition): each.attempt.start_offset for each in hung}
    waiting = _waiting_bytes(opened, begins)
    for key, each in zip(begins, hung, strict=True):
        at, size = each.attempt, waiting.get(key, each.attempt.segment_size)
        yield HungRemoteCopy(*key, at.broker_id, at.id.segment_id, at.start_offset, each.age, each.usual, size)


def _copied_twice(cache: MetadataCache) -> Iterator[CopiedTwice]:
    from tiersnap.remote_storage.cluster.hung_copies import copied_twice

    for partition in cache.partitions():
        for segment_id, read in copied_twice(cache, partition):
            yield CopiedTwice(str(partition), segment_id, read)


def _of_twice(twice: Sequence[CopiedTwice]) -> Iterator[str]:
    if twice:
        first, are = twice[0], count_of(len(twice), "remote segment is", "remote segments are")
        yield (
            f"{are} duplicates of other remote segments: in {first.partition} brokers read segment {first.read}, "
            f"not segment {first.segment_id}"
        )


def _waiting_bytes(opened: Iterable[NamedLogDir], begins: Mapping[tuple[str, int], int]) -> Counter[tuple[str, int]]:
    """Return, by topic and partition, the bytes of closed segments at or above the offsets in `begins`."""
    from tiersnap.snapshot.log.selection import named

    waiting: Counter[tuple[str, int]] = Counter()
    for log_dir in opened:
        for partition in named(log_dir.log_dir, begins):
            key = partition.topic, partition.partition
            waiting[key] += closed_bytes(partition, begins[key])
    return waiting


def closed_bytes(partition: Partition, offset: int) -> int:
    """Return the bytes of the closed segments with a base offset of at least `offset`."""
    total = 0
    for each in partition.segments:
        if not each.is_active and each.base_offset >= offset:
            total += each.log.size
    return total


@dataclass(frozen=True, slots=True)
class RemoteRecords:
    """The published segments that remote storage lacks. The partition that lacks most segments is first."""

    known: Annotated[int, Meta(description="published segments that brokers read")]
    sentence: str
    place: Annotated[str, Meta(description="evidence that brokers read this remote location, or that they do not")]
    missing: list[MissingRemoteSegment]


@dataclass(frozen=True, slots=True)
class Compared:
    """The comparison of a cluster's records with a remote location.

    Attributes:
        missing: published segments that the location lacks.
        layout: name of the layout that brokers read.
        location: verdict whether brokers read the location.
        records: all records in __remote_log_metadata.
        has_all_records: whether every partition of __remote_log_metadata starts at offset 0, so no record was deleted.
    """

    missing: Missing
    layout: str
    location: LocationVerdict
    records: MetadataCache
    has_all_records: bool = False


def compare_records(situation: Situation, talk: Callable[[str], None]) -> Compared | None:
    """Return the comparison of the cluster's records with the remote location.

    Return None if the cluster or the location is unknown. Without --layout, use the layout of the brokers.
    """
    cluster, view = situation.cluster.value, situation.remote.value
    if cluster is None or view is None:
        return None
    from tiersnap.remote_storage.cluster.missing_objects import Known, find_missing, read_by_brokers

    store = view.open_store()
    prover = ProofRequest().prover(situation, store, talk, apply=False)
    location = prover.location(situation.layout)
    with prover.metadata_topic.read_all() as reader:

        def ask() -> Known:
            return read_by_brokers(cluster, reader, lambda _: True).segments

        missing = find_missing(ask(), ask, reader.cache.ours, location)
    return Compared(
        missing, location.layout.name, prover.verdict(location), reader.cache, not any(reader.log_starts.values())
    )


def compare_if_answered(
    situation: Situation, talk: Callable[[str], None]
) -> tuple[Compared | None, Situation, list[TiersnapError]]:
    """Return the result of `compare_records`, the situation, and the error of a cluster that does not answer.

    The list is empty if the cluster answers. If the cluster comes from a broker's settings and does not answer, the
    result is None, and the returned situation has no cluster.

    Raises:
        TransientError: the cluster of --bootstrap-server does not answer.
    """
    try:
        return compare_records(situation, talk), situation, []
    except TransientError as error:
        if situation.cluster.source == COMMAND_LINE:
            raise
        return None, situation.without_cluster(error.message), [error]


def records_here(cluster: Cluster | None, compared: Compared | None, log_dirs: Sequence[NamedLogDir]) -> Records | None:
    """Return the records of the partitions in log directories.

    The records come from the cluster. Without a cluster they come from __remote_log_metadata replicas in `log_dirs`.
    """
    from tiersnap.remote_storage.cluster.read_records import partitions_of, read_records, with_topic_ids
    from tiersnap.remote_storage.metadata.recorded import read_replicas, recorded

    if cluster is None:
        return read_replicas(each.log_dir for each in log_dirs)
    if compared is None:
        return read_records(cluster, log_dirs)
    found = {}
    for each in with_topic_ids(cluster, partitions_of(log_dirs)):
        known = recorded(compared.records, each, is_complete=compared.has_all_records)
        found[each.topic, each.partition] = known
    return found


def as_records(compared: Compared) -> RemoteRecords:
    """Return the JSON form of a comparison."""
    missing = compared.missing
    rows = [MissingRemoteSegment.of(each) for each in missing.segments]
    return RemoteRecords(missing.known, missing.sentence, compared.location.sentence, rows)


def lines_of(compared: Compared) -> Iterator[str]:
    """Yield a message about the missing segments, and a line for each of the first MOST_LINES segments."""
    missing = compared.missing
    yield missing.sentence
    yield from first_lines(missing.segments, _line_of, "segment")


def _line_of(missing: MissingSegment) -> str:
    at = missing.metadata
    whose = "published by tiersnap" if missing.is_ours else "uploaded by a broker"
    return (
        f"{at.id.topic_id_partition} offsets {at.start_offset} to {at.end_offset}: segment {at.id.segment_id}, "
        f"{whose}, lacks {' '.join(missing.lacking)}"
    )


def first_lines(found: Sequence[T], line_of: Callable[[T], str], noun: str) -> Iterator[str]:
    """Yield a line for each of the first MOST_LINES items, and a line with the number of other items."""
    yield from map(line_of, found[:MOST_LINES])
    if len(found) > MOST_LINES:
        yield and_more(len(found) - MOST_LINES, noun)


def problems_of_cluster(
    compared: Compared | None, copies: CopyProblems, location: JudgedLocation | None
) -> Iterator[OtherProblem]:
    """Yield the problems that determine the exit code: those of the cluster, and of the remote location."""
    if _lacks_segments(compared):
        yield OtherProblem.LOST_REMOTE_SEGMENT
    if copies.hung:
        yield OtherProblem.HUNG_COPY
    if location is not None and location.is_contradicted:
        yield OtherProblem.OTHER_LOCATION


def steps_of_cluster(
    place: Place, compared: Compared | None, copies: CopyProblems, freeing: Iterable[NextStep]
) -> Iterator[Step]:
    """Yield the steps that restore lost remote segments. If copies hang, yield the steps in `freeing` too."""
    if _lacks_segments(compared):
        yield from map(place.render, _mending(place, compared))
    if copies.hung:
        yield from map(place.render, _of_hung(copies, freeing))


def _lacks_segments(compared: Compared | None) -> TypeGuard[Compared]:
    return compared is not None and bool(compared.missing.segments)


def _of_hung(copies: CopyProblems, freeing: Iterable[NextStep]) -> Iterator[NextStep]:
    of = ", ".join(sorted({str(each.broker) for each in copies.hung}))
    for each in freeing:
        yield replace(each, note=f"run this command on the host of broker {of}")


def _mending(place: Place, compared: Compared) -> Iterator[NextStep]:
    """Yield two steps, `mend` and `mend --apply`. If brokers read another location, yield nothing."""
    if compared.location.state is not LocationState.CONTRADICTED:
        plan = _mend_of(place, compared)
        yield plan
        yield replace(plan, argv=(*plan.argv, "--apply"), note="applies the plan of the previous command")


def _mend_of(place: Place, compared: Compared) -> NextStep:
    from tiersnap.remote_storage.remote_log.segment_objects import mandatory
    from tiersnap.snapshot.gate.next_steps import MEND, mend_from

    if compared.missing.elsewhere is not None:
        return mend_from(place.values[Hole.REMOTE][0], compared.missing.elsewhere)
    whole = [mandatory(local=local) for local in (False, True)]
    if all(each.lacking in whole for each in compared.missing.segments):
        return replace(mend_from("URI"), note="URI is the location to which brokers uploaded the segments")
    return MEND
