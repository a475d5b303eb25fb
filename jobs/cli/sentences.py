"""Messages and result fields that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from tiersnap.jobs.cli.next_command import again, command_place
from tiersnap.jobs.cli.output import Output
from tiersnap.remote_storage.publish.location_proof import EvidenceKind, PlaceProof
from tiersnap.snapshot.errors import TiersnapError
from tiersnap.snapshot.gate.step_template import Hole
from tiersnap.snapshot.units import count_of

if TYPE_CHECKING:
    from tiersnap.remote_storage.cluster.missing_objects import MissingSegment
    from tiersnap.remote_storage.retire.store_leftovers import SweptStore
    from tiersnap.remote_storage.stores.object_store import ObjectStore
    from tiersnap.snapshot.gate.printed_steps import Place
    from tiersnap.snapshot.gate.verdict import Verdict
    from tiersnap.snapshot.replay.replay_start import Beginnings
    from tiersnap.snapshot.report.exactly_once import ReplicaWithoutProducers

# Types of fields that several results have.
ForPeople = Annotated[str, Meta(description="bytes as text with a unit")]
ByName = Annotated[dict[str, int], Meta(description="counts by name")]
PlaceSentence = Annotated[str, Meta(description="evidence that brokers read the location --remote")]
Mended = Annotated[int, Meta(description="number of damaged objects that were replaced")]
Leftovers = Annotated[
    dict[str, int],
    Meta(description="number of removed leftovers by kind: `objects` of segments, `probes`, `files` and `uploads`"),
]


@dataclass(frozen=True, slots=True)
class MissingRemoteSegment:
    """A segment that has a COPY_SEGMENT_FINISHED record, but not all of its objects in remote storage."""

    topic: str
    topic_id: str | None
    partition: int
    segment_id: str
    base_offset: int
    next_base_offset: int
    size_bytes: Annotated[int, Meta(description="bytes of the .log file")]
    is_ours: Annotated[bool, Meta(description="whether tiersnap published the segment")]
    lacking: Annotated[tuple[str, ...], Meta(description="suffixes of the missing objects")]

    @classmethod
    def of(cls, missing: MissingSegment) -> MissingRemoteSegment:
        """Return the row for a segment that lacks objects."""
        of = missing.metadata
        name = (of.id.topic, of.id.topic_id, of.id.partition, of.id.segment_id)
        return cls(*name, of.start_offset, of.end_offset + 1, of.segment_size, missing.is_ours, missing.lacking)


NOTHING_TO_TIER = "nothing to do: no segment can be tiered now"
_MOST_FAILURES = 20


def tell_failures(output: Output, errors: Sequence[TiersnapError], count: int = 0) -> None:
    """Print at most 20 errors, and each distinct hint once.

    Args:
        output: prints the lines.
        errors: all errors, or the first ones.
        count: number of all errors, if `errors` has only the first ones.
    """
    told = errors[:_MOST_FAILURES]
    for error in told:
        output.warn(f"failed: {error.message}")
    more = max(count, len(errors)) - len(told)
    if more:
        output.warn(f"… and {count_of(more, 'failure')} more")
    for hint in filter(None, dict.fromkeys(error.hint for error in told)):
        output.warn(f"  {hint}")


def tell_old_versions(output: Output, store: ObjectStore) -> None:
    """Print that deleted objects remain as old versions. Print nothing if the bucket of `store` has no versioning."""
    if said := store.old_versions():
        output.talk(said)


def print_replicas_without_producers(output: Output, replicas: Sequence[ReplicaWithoutProducers], place: Place) -> None:
    """Print the replicas that lost active producers, and the command that restores the producers."""
    for each in replicas:
        lead = "" if each.lead is None else f"; until this replica is repaired, {each.lead} should lead the partition"
        name = f"{each.topic}-{each.partition} in {each.log_dir}"
        output.warn(f"{name} has only {each.known} of {count_of(each.living, 'active producer')}{lead}")
    if replicas:
        from tiersnap.snapshot.gate.exit_code import OtherProblem

        step = place.clears(OtherProblem.REPLICA_WITHOUT_PRODUCERS)
        output.warn(f"to restore lost producers: on the host of each of these replicas, stop the broker, then: {step}")


def tell_mended(output: Output, count: int) -> None:
    """Print how many snapshot objects were replaced. Print nothing for 0."""
    if count:
        output.warn(f"replaced {count_of(count, 'damaged snapshot object')} by snapshots computed from the log")


def tell_finished_copies(output: Output, count: int) -> None:
    """Print the number of copy attempts that needed no upload, because all objects existed. Print nothing for 0."""
    if count:
        segments = count_of(count, "remote segment")
        output.talk(f"tiersnap sent no bytes for {segments}: other copy attempts had uploaded all objects")


def tell_unknown_encryption(output: Output, partitions: int) -> None:
    """Print how many partitions have no manifest, and that uploads to them are plain text. Print nothing for 0."""
    if partitions:
        output.talk(
            f"encryption unknown: {count_of(partitions, 'partition')} without a manifest that shows whether the "
            "plugin encrypts; tiersnap uploads plain text"
        )


def tell_not_compared(output: Output, partitions: int, log_dirs: Sequence[str]) -> None:
    """Print how many partitions were skipped because they begin in remote storage, and the next command.

    Print nothing for 0.
    """
    if partitions:
        from tiersnap.snapshot.gate.next_steps import VERIFY_REMOTE

        place = command_place(log_dirs)
        output.talk(
            f"snapshots not compared with the log: {count_of(partitions, 'partition')}, because the earlier segments "
            f"are only in remote storage; next: {place.text(VERIFY_REMOTE)}"
        )


def tell_in_remote(output: Output, verdicts: Mapping[Verdict, int], step_of: Callable[[Verdict], str]) -> None:
    """Print the number of IN_REMOTE and of UPLOADED segments, and the next step for each."""
    from tiersnap.snapshot.gate.verdict import Verdict

    for verdict in (Verdict.IN_REMOTE, Verdict.UPLOADED):
        if count := verdicts.get(verdict, 0):
            output.talk(f"{count_of(count, 'segment')} {verdict}: {step_of(verdict)}")


def tell_left_to_brokers(output: Output, verdicts: Mapping[Verdict, int]) -> None:
    """Print how many segments are LEFT_TO_BROKER, and the option that uploads them anyway. Print nothing for 0."""
    from tiersnap.snapshot.gate.verdict import Verdict

    if count := verdicts.get(Verdict.LEFT_TO_BROKER, 0):
        output.talk(
            f"left to brokers: {count_of(count, 'segment')}, because a working copy task of a broker would upload "
            "these segments a second time; to upload them if no copy task works: --leave-to-broker none"
        )


def leftovers_by_kind(objects: int, swept: SweptStore) -> dict[str, int]:
    """Return the counts of removed leftovers by kind, without zeros.

    `objects` is the number of removed objects of segments; `swept` has the other counts.
    """
    counts = {"objects": objects, "probes": swept.probes, "files": swept.files, "uploads": swept.uploads}
    return {name: count for name, count in counts.items() if count}


def tell_leftovers(output: Output, objects: int, swept: SweptStore) -> None:
    """Print the counts of removed leftovers by kind. Print nothing if no leftover was removed."""
    removed = [str(swept)]
    if objects:
        removed.insert(0, count_of(objects, "object"))
    if said := ", ".join(filter(None, removed)):
        output.talk(f"removed leftovers of ended attempts and killed processes: {said}")


def tell_place(output: Output, proof: PlaceProof | None) -> None:
    """Print the evidence that brokers read the remote location. If there is none, print a warning."""
    if proof is None:
        return
    line = f"place: {proof.sentence}"
    if proof.evidence is EvidenceKind.UNPROVEN:
        output.warn(line)
    else:
        output.talk(line)


def place_fields(proof: PlaceProof | None) -> tuple[str, EvidenceKind] | tuple[()]:
    """Return two fields of a summary, the sentence and the evidence kind of `proof`; () if `proof` is None."""
    return () if proof is None else (proof.sentence, proof.evidence)


def of_not_compared(snapshots: int, following: str, *, is_certain: bool = True) -> str:
    """Return a message: how many snapshots were not compared with the log, and the command that compares them.

    Args:
        snapshots: the number.
        following: the command.
        is_certain: whether the logs certainly begin in remote storage; if False, some may begin on disk.
    """
    are = count_of(snapshots, "snapshot is", "snapshots are")
    begin = "begin" if is_certain else "begin or may begin"
    return f"{are} not compared, because the logs {begin} in remote storage; next: {following}"


def of_unlocated(unlocated: Mapping[str, str], *, remote: bool = True) -> Iterator[str]:
    """Yield one line about the partitions with an unknown log start offset. It names options that provide the offset.

    Args:
        unlocated: the reason by partition; if it is empty, yield nothing.
        remote: whether --remote is one of these options. If it is False, the line names only --log-start.
    """
    if not unlocated:
        return
    name, why = next(iter(unlocated.items()))
    options = f"state the log start with --log-start {name}=OFFSET"
    if remote:
        options = f"add --remote, which may show the log start, or {options}"
    more = ""
    if len(unlocated) > 1:
        more = f"; {count_of(len(unlocated) - 1, 'more partition has', 'more partitions have')} an unknown log start"
    yield f"log start of {name} unknown: {why}; {options}{more}"


def with_remote() -> str:
    """Return the running command with `--remote` and a placeholder for the location."""
    return again("--remote", Hole.REMOTE.placeholder)


def of_unknown_beginnings(beginnings: Beginnings) -> Iterator[str]:
    """Yield a line for each log with an unknown start, with the reason. The last line has the next step."""
    from tiersnap.snapshot.replay.remote_listing import ELSEWHERE

    yield from of_unlocated(beginnings.unlocated, remote=beginnings.find is None)
    yield from (f"{name}: {why}" for name, why in beginnings.unknown.items())
    if beginnings.may_pass:
        yield f"next: {again()}"
    elif beginnings.unknown:
        yield f"{ELSEWHERE}; if these options are right: tiersnap runbook 'A log that begins in remote storage'"
