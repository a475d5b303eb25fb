"""Decide by evidence whether brokers read a remote location: PROVEN, UNPROVEN or CONTRADICTED.

Brokers believe each published record, and local retention then deletes the local files. If brokers read another
place, consumers read nothing. So one of these proves the location before the first record:

    READ_BACK           a broker returned bytes that exist in this location alone; see read_back
    SERVER_PROPERTIES   a broker of the cluster that runs on this host was started with this location

Presence and time of an object prove nothing: a replica, a backup and a copy of a bucket have the same objects with the
same times. These two are therefore no proof:

    BROKER_SEGMENT      the newest segment that brokers uploaded exists there, which suffices for reading, or is missing
    REPLICA_MARK        S3 replication made an object of the location, from one of another bucket
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tiersnap.remote_storage.errors import UnprovenPlaceError, WrongPlaceError

NAME_THE_PLACE = "give the location, its prefix and --layout as the brokers' server.properties has them"
HOW_TO_PROVE = (
    "add --prove --apply: the brokers then read a record back from there; or run it on a broker's host as the broker's "
    "user, where the broker's configuration tells"
)
_RISK = "if brokers read another location, local retention deletes the local files and consumers read nothing"


class LocationState(StrEnum):
    """The state of a remote location, by all evidence."""

    PROVEN = "PROVEN"
    UNPROVEN = "UNPROVEN"
    CONTRADICTED = "CONTRADICTED"


class EvidenceKind(StrEnum):
    """The kind of evidence that a decision rests on."""

    READ_BACK = "READ_BACK"
    SERVER_PROPERTIES = "SERVER_PROPERTIES"
    REPLICA_MARK = "REPLICA_MARK"
    BROKER_SEGMENT = "BROKER_SEGMENT"
    READ_BACK_PLANNED = "READ_BACK_PLANNED"  # a plan reads nothing back: --apply decides
    UNPROVEN = "UNPROVEN"  # --unproven


class EvidenceOutcome(StrEnum):
    """The outcome of evidence for the location."""

    PROVES = "PROVES"
    HINTS = "HINTS"  # suffices for reading
    SILENT = "SILENT"
    CONTRADICTS = "CONTRADICTS"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One piece of evidence; `sentence` is a clause for people."""

    kind: EvidenceKind
    outcome: EvidenceOutcome
    sentence: str

    @property
    def is_proof(self) -> bool:
        """Return whether it shows that brokers read the location."""
        return self.outcome is EvidenceOutcome.PROVES


# The first of these that was found decides; without one the location is unproven. The broker's configuration outranks
# the mark, because a bucket that was migrated by replication has marked objects. A read-back does not outrank it,
# because two buckets that are replicated both ways return each other's bytes.
_DECISIVE = (
    (EvidenceKind.READ_BACK, EvidenceOutcome.CONTRADICTS),
    (EvidenceKind.SERVER_PROPERTIES, EvidenceOutcome.CONTRADICTS),
    (EvidenceKind.SERVER_PROPERTIES, EvidenceOutcome.PROVES),
    (EvidenceKind.REPLICA_MARK, EvidenceOutcome.CONTRADICTS),
    (EvidenceKind.READ_BACK, EvidenceOutcome.PROVES),
    (EvidenceKind.BROKER_SEGMENT, EvidenceOutcome.CONTRADICTS),
)
_STATE_OF = {
    EvidenceOutcome.PROVES: LocationState.PROVEN,
    EvidenceOutcome.CONTRADICTS: LocationState.CONTRADICTED,
}


@dataclass(frozen=True, slots=True)
class PlaceProof:
    """Leave to write to a location; `sentence` is shown to people and stands in the JSON."""

    evidence: EvidenceKind
    sentence: str


@dataclass(frozen=True, slots=True)
class LocationVerdict:
    """The state of a location, and the evidence for it."""

    state: LocationState
    location: str  # for messages
    evidence: tuple[Evidence, ...]
    decided_by: Evidence | None  # None if the location is unproven

    @property
    def sentence(self) -> str:
        """Return the state and what decided it, in one sentence."""
        if self.decided_by is None:
            found = "; ".join(each.sentence for each in self.evidence) or "there is no evidence"
            return f"nothing proves that brokers read {self.location}: {found}"
        if self.state is LocationState.CONTRADICTED:
            return f"{self.location}: not where brokers read: {self.decided_by.sentence}"
        said = f"brokers read {self.location}: {self.decided_by.sentence}"
        for each in self.evidence:
            if each.outcome is EvidenceOutcome.CONTRADICTS:
                said += f"; however, {each.sentence}"
        return said

    def is_decided_by(self, kind: EvidenceKind) -> bool:
        """Return whether evidence of this kind decided."""
        return self.decided_by is not None and self.decided_by.kind is kind

    @property
    def is_open(self) -> bool:
        """Return whether a read-back can change the state: lost objects do not show that brokers read elsewhere."""
        return self.decided_by is None or self.is_decided_by(EvidenceKind.BROKER_SEGMENT)

    def refuse_contradiction(self) -> None:
        """Raise WrongPlaceError if the location is contradicted."""
        if self.state is LocationState.CONTRADICTED:
            raise WrongPlaceError(self.sentence, hint=NAME_THE_PLACE)

    def require(self, *, is_unproven_allowed: bool = False, is_read_back_planned: bool = False) -> PlaceProof:
        """Return leave to publish to the location, and to upload segments that are published in the same run.

        Args:
            is_unproven_allowed: `--unproven` was given, which covers missing evidence and no contradiction.
            is_read_back_planned: a read-back decides before anything is written.

        Raises:
            WrongPlaceError: the location is contradicted; no option overrides that.
            UnprovenPlaceError: nothing proves it.
        """
        if is_read_back_planned and self.is_open:
            said = f"{self.sentence}; with --apply a record that brokers read back decides"
            return PlaceProof(EvidenceKind.READ_BACK_PLANNED, said)
        self.refuse_contradiction()
        if self.decided_by is not None:
            return PlaceProof(self.decided_by.kind, self.sentence)
        if is_unproven_allowed:
            return PlaceProof(EvidenceKind.UNPROVEN, f"{self.sentence}; {_RISK}")
        raise UnprovenPlaceError(self.sentence, hint=HOW_TO_PROVE)


def decide(location: str, evidence: Sequence[Evidence]) -> LocationVerdict:
    """Return the state of a location by all evidence that was found."""
    found = tuple(evidence)
    for decisive in _DECISIVE:
        for each in found:
            if (each.kind, each.outcome) == decisive:
                return LocationVerdict(_STATE_OF[each.outcome], location, found, each)
    return LocationVerdict(LocationState.UNPROVEN, location, found, None)
