"""Sentences and result fields that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from tiersnap.jobs.cli.next_command import again, command_place
from tiersnap.jobs.cli.output import Output
from tiersnap.remote_storage.publish.location_proof import EvidenceKind, PlaceProof
from tiersnap.snapshot.errors import TiersnapError
from tiersnap.snapshot.gate.next_step import Hole
from tiersnap.snapshot.units import count_of

if TYPE_CHECKING:
    from tiersnap.remote_storage.cluster.missing_objects import MissingSegment
    from tiersnap.remote_storage.retire.store_leftovers import SweptStore
    from tiersnap.remote_storage.stores.object_store import ObjectStore
    from tiersnap.snapshot.gate.printed_steps import Place
    from tiersnap.snapshot.gate.verdict import Verdict
    from tiersnap.snapshot.replay.replay_start import Beginnings
    from tiersnap.snapshot.report.exactly_once import ForgetfulReplica

# Types of fields.
ForPeople = Annotated[str, Meta(description="the number before it, for people")]
ByName = Annotated[dict[str, int], Meta(description="counts by name")]
PlaceSentence = Annotated[str, Meta(description="why brokers are believed to read --remote")]
Mended = Annotated[int, Meta(description="of those written, how many took the place of a damaged object")]
Leftovers = Annotated[
    dict[str, int], Meta(description="removed `objects` of segments, `probes`, `files` and `uploads`, by kind")
]


@dataclass(frozen=True, slots=True)
class MissingRemoteSegment:
    """A segment that brokers know and whose objects are not all in remote storage."""

    topic: str
    topic_id: str | None
    partition: int
    segment_id: str
    base_offset: int
    next_base_offset: int
    size_bytes: Annotated[int, Meta(description="of its log")]
    is_ours: Annotated[bool, Meta(description="whether tiersnap published it")]
    lacking: Annotated[tuple[str, ...], Meta(description="suffixes of the objects that are missing")]

    @classmethod
    def of(cls, missing: MissingSegment) -> MissingRemoteSegment:
        """Return a segment of the cluster's records."""
        of = missing.metadata
        name = (of.id.topic, of.id.topic_id, of.id.partition, of.id.segment_id)
        return cls(*name, of.start_offset, of.end_offset + 1, of.segment_size, missing.is_ours, missing.lacking)


NOTHING_TO_TIER = "nothing to do: no segment can be tiered now"
_MOST_FAILURES = 20


def tell_failures(output: Output, errors: Sequence[TiersnapError], count: int = 0) -> None:
    """Print the errors, then each hint once; `errors` are the first of `count`, or all."""
    told = errors[:_MOST_FAILURES]
    for error in told:
        output.warn(f"failed: {error.message}")
    more = max(count, len(errors)) - len(told)
    if more:
        output.warn(f"… and {count_of(more, 'failure')} more")
    for hint in filter(None, dict.fromkeys(error.hint for error in told)):
        output.warn(f"  {hint}")


def tell_old_versions(output: Output, store: ObjectStore) -> None:
    """Print that deleted objects stay as old versions, if the bucket of `store` keeps them."""
    if said := store.old_versions():
        output.talk(said)


def tell_forgetful(output: Output, replicas: Sequence[ForgetfulReplica], place: Place) -> None:
    """Print the replicas that must not lead yet, and the step that restores their producers; nothing without any."""
    for each in replicas:
        lead = "" if each.lead is None else f"; until it is cured {each.lead} should lead"
        name = f"{each.topic}-{each.partition} in {each.log_dir}"
        output.warn(f"{name} knows {each.known} of {count_of(each.living, 'living producer')}{lead}")
    if replicas:
        from tiersnap.snapshot.gate.exit_code import OtherProblem

        step = place.clears(OtherProblem.REPLICA_WITHOUT_PRODUCERS)
        output.warn(f"next for forgotten producers: on the host of each, its broker stopped: {step}")


def tell_mended(output: Output, count: int) -> None:
    """Report the number of damaged snapshot objects that were replaced, if there are any."""
    if count:
        output.warn(f"computed again from the log and replaced: {count_of(count, 'damaged snapshot object')}")


def tell_finished_copies(output: Output, count: int) -> None:
    """Report the number of finished copies of other attempts, if there are any."""
    if count:
        are = count_of(count, "copy is", "copies are")
        output.talk(f"{are} finished that other attempts had uploaded: nothing was sent")


def tell_unknown_encryption(output: Output, partitions: int) -> None:
    """Report the number of partitions without a manifest, if there are any."""
    if partitions:
        output.talk(
            f"encryption unknown: {count_of(partitions, 'partition')} without a manifest to compare with; uploads are "
            "plain text"
        )


def tell_not_compared(output: Output, partitions: int, log_dirs: Sequence[str]) -> None:
    """Report the number of partitions that were not compared with remote storage, if there are any."""
    if partitions:
        from tiersnap.snapshot.gate.steps_by_problem import VERIFY_REMOTE

        place = command_place(log_dirs)
        output.talk(
            f"not compared: {count_of(partitions, 'partition')}: earlier segments are in remote storage"
            f"; next: {place.text(VERIFY_REMOTE)}"
        )


def tell_in_remote(output: Output, verdicts: Mapping[Verdict, int], step_of: Callable[[Verdict], str]) -> None:
    """Print how many segments in remote storage have no known record, and the next step; UPLOADED last."""
    from tiersnap.snapshot.gate.verdict import Verdict

    for verdict in (Verdict.IN_REMOTE, Verdict.UPLOADED):
        if count := verdicts.get(verdict, 0):
            output.talk(f"{count_of(count, 'segment')} {verdict}: {step_of(verdict)}")


def tell_left_to_brokers(output: Output, verdicts: Mapping[Verdict, int]) -> None:
    """Report the number of segments that are left to brokers, if there are any."""
    from tiersnap.snapshot.gate.verdict import Verdict

    if count := verdicts.get(Verdict.LEFT_TO_BROKER, 0):
        output.talk(
            f"left to brokers: {count_of(count, 'segment')}, because a working copy task would copy them again; if no "
            "copy task works, --leave-to-broker none uploads them"
        )


def leftovers_by_kind(objects: int, swept: SweptStore) -> dict[str, int]:
    """Return the counts of removed leftovers by kind, without zeros; `objects` is the count of segment objects."""
    counts = {"objects": objects, "probes": swept.probes, "files": swept.files, "uploads": swept.uploads}
    return {name: count for name, count in counts.items() if count}


def tell_leftovers(output: Output, objects: int, swept: SweptStore) -> None:
    """Say what ended attempts had left and was removed; nothing where nothing was."""
    named = count_of(objects, "object") if objects else ""
    if said := ", ".join(filter(None, (named, str(swept)))):
        output.talk(f"removed what ended attempts and killed processes had left: {said}")


def tell_place(output: Output, proof: PlaceProof | None) -> None:
    """Print the proof of the remote location; if nothing proves it, print that also when quiet."""
    if proof is not None:
        say = output.warn if proof.evidence is EvidenceKind.UNPROVEN else output.talk
        say(f"place: {proof.sentence}")


def place_fields(proof: PlaceProof | None) -> tuple[str, EvidenceKind] | tuple[()]:
    """Return the last fields of a summary, about the place; none without a proof."""
    return () if proof is None else (proof.sentence, proof.evidence)


def of_not_compared(snapshots: int, following: str, *, is_certain: bool = True) -> str:
    """Return how many snapshots are not compared, and the command that compares them.

    Args:
        is_certain: their logs are known to begin in remote storage.
    """
    are = count_of(snapshots, "snapshot is", "snapshots are")
    begin = "begin" if is_certain else "begin, or may begin,"
    return f"{are} not compared: their logs {begin} in remote storage; next: {following}"


def of_unlocated(unlocated: Mapping[str, str], *, remote: bool = True) -> Iterator[str]:
    """Yield a line about the logs whose start is unknown, if there are any, and the option that provides it.

    Args:
        unlocated: the reason, by partition.
        remote: whether to name --remote: not if the command never asks remote storage, or has asked it.
    """
    if unlocated:
        name, why = next(iter(unlocated.items()))
        more = f" (and of {count_of(len(unlocated) - 1, 'partition')} more)" if len(unlocated) > 1 else ""
        tells = "--remote may tell it, " if remote else ""
        yield f"log start of {name} unknown{more}: {why}: {tells}--log-start {name}=OFFSET states it"


def with_remote() -> str:
    """Return the running command, with a placeholder for the remote location."""
    return again("--remote", Hole.REMOTE.placeholder)


def of_unknown_beginnings(beginnings: Beginnings) -> Iterator[str]:
    """Yield why the beginning of each such log is unknown, and the next step."""
    from tiersnap.snapshot.replay.remote_listing import ELSEWHERE

    yield from of_unlocated(beginnings.unlocated, remote=beginnings.find is None)
    yield from (f"{name}: {why}" for name, why in beginnings.unknown.items())
    if beginnings.may_pass:
        yield f"next: {again()}"
    elif beginnings.unknown:
        yield f"{ELSEWHERE}; if they are: tiersnap runbook 'A log that begins in remote storage'"
