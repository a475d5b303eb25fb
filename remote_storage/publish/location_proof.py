"""Decide by evidence whether brokers read a remote location: PROVEN, UNPROVEN or CONTRADICTED.

Brokers accept each published record, and local retention then deletes the local files. If brokers read another
location, consumers can no longer read the offsets of the deleted files. So one of two kinds of evidence must prove the
location before the first record is written:

    READ_BACK           a broker returned bytes that exist only in this location; see read_back.py
    SERVER_PROPERTIES   a broker of the cluster runs on this host, and its server.properties names this location

Existence and write time of an object are no proof: a replica, a backup and a copy of a bucket have the same objects.
Two further kinds of evidence can contradict a location:

    BROKER_SEGMENT      the newest segment that brokers uploaded is missing. An existing segment is only a hint. A hint
                        suffices for commands that only read the location
    REPLICA_MARK        S3 replication wrote an object of the location
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tiersnap.remote_storage.errors import UnprovenPlaceError, WrongPlaceError

NAME_THE_PLACE = "give --remote, its prefix and --layout as in server.properties of the brokers"
HOW_TO_PROVE = (
    "add --prove --apply: the brokers then read a record back from the location. Or run the command on a broker's "
    "host as the broker's user: tiersnap then reads the broker's configuration"
)
_RISK = (
    "if brokers read another location, local retention deletes the local files, and then consumers cannot read these "
    "offsets"
)


class LocationState(StrEnum):
    """The state of a remote location: PROVEN if evidence proves that brokers read it."""

    PROVEN = "PROVEN"
    UNPROVEN = "UNPROVEN"
    CONTRADICTED = "CONTRADICTED"


class EvidenceKind(StrEnum):
    """The kind of evidence for a location."""

    READ_BACK = "READ_BACK"
    SERVER_PROPERTIES = "SERVER_PROPERTIES"
    REPLICA_MARK = "REPLICA_MARK"
    BROKER_SEGMENT = "BROKER_SEGMENT"
    READ_BACK_PLANNED = "READ_BACK_PLANNED"  # a plan makes no read-back; --apply does
    UNPROVEN = "UNPROVEN"  # the user gave --unproven


class EvidenceOutcome(StrEnum):
    """The effect of evidence on the state of a location."""

    PROVES = "PROVES"
    HINTS = "HINTS"  # suffices for commands that only read
    SILENT = "SILENT"  # neither for nor against the location
    CONTRADICTS = "CONTRADICTS"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One piece of evidence; `sentence` is a clause for messages."""

    kind: EvidenceKind
    outcome: EvidenceOutcome
    sentence: str

    @property
    def is_proof(self) -> bool:
        """Return whether this evidence proves that brokers read the location."""
        return self.outcome is EvidenceOutcome.PROVES


# The first entry that matches any evidence decides. Without a match the location is unproven.
# SERVER_PROPERTIES precedes REPLICA_MARK, because a bucket that was migrated by replication has marked objects.
# REPLICA_MARK precedes a proving READ_BACK, because two-way replication copies the nonce to the other bucket.
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
    """The permission to write to a location. `sentence` is printed and is in the JSON."""

    evidence: EvidenceKind
    sentence: str


@dataclass(frozen=True, slots=True)
class LocationVerdict:
    """The state of a location with all evidence."""

    state: LocationState
    location: str  # for messages
    evidence: tuple[Evidence, ...]
    decided_by: Evidence | None  # None if the location is unproven

    @property
    def sentence(self) -> str:
        """Return the state and the decisive evidence as one sentence."""
        if self.decided_by is None:
            found = "; ".join(each.sentence for each in self.evidence) or "there is no evidence"
            return f"nothing proves that brokers read {self.location}: {found}"
        if self.state is LocationState.CONTRADICTED:
            return f"{self.location}: brokers read another location: {self.decided_by.sentence}"
        said = f"brokers read {self.location}: {self.decided_by.sentence}"
        for each in self.evidence:
            if each.outcome is EvidenceOutcome.CONTRADICTS:
                said += f"; however, {each.sentence}"
        return said

    def is_decided_by(self, kind: EvidenceKind) -> bool:
        """Return whether evidence of this kind decided the state."""
        return self.decided_by is not None and self.decided_by.kind is kind

    @property
    def is_open(self) -> bool:
        """Return whether a read-back can change the state.

        It can if the state is UNPROVEN, or if only evidence of the kind BROKER_SEGMENT contradicts the location.
        """
        return self.decided_by is None or self.is_decided_by(EvidenceKind.BROKER_SEGMENT)

    def refuse_contradiction(self) -> None:
        """Raise WrongPlaceError if the evidence contradicts the location."""
        if self.state is LocationState.CONTRADICTED:
            raise WrongPlaceError(self.sentence, hint=NAME_THE_PLACE)

    def require(self, *, is_unproven_allowed: bool = False, is_read_back_planned: bool = False) -> PlaceProof:
        """Return the permission to publish to the location, and to upload segments for that publication.

        Args:
            is_unproven_allowed: the user gave `--unproven`, which overrides missing evidence, but no contradiction.
            is_read_back_planned: a read-back will prove or contradict the location before the first record is written.

        Raises:
            WrongPlaceError: the evidence contradicts the location.
            UnprovenPlaceError: no evidence proves the location.
        """
        if is_read_back_planned and self.is_open:
            said = f"{self.sentence}; to check this location, --apply lets brokers read a record back"
            return PlaceProof(EvidenceKind.READ_BACK_PLANNED, said)
        self.refuse_contradiction()
        if self.decided_by is not None:
            return PlaceProof(self.decided_by.kind, self.sentence)
        if is_unproven_allowed:
            return PlaceProof(EvidenceKind.UNPROVEN, f"{self.sentence}; {_RISK}")
        raise UnprovenPlaceError(self.sentence, hint=HOW_TO_PROVE)


def decide(location: str, evidence: Sequence[Evidence]) -> LocationVerdict:
    """Return the verdict about a location from all evidence."""
    found = tuple(evidence)
    for decisive in _DECISIVE:
        for each in found:
            if (each.kind, each.outcome) == decisive:
                return LocationVerdict(_STATE_OF[each.outcome], location, found, each)
    return LocationVerdict(LocationState.UNPROVEN, location, found, None)
