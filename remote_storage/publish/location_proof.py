"""Is `--remote` where the brokers keep their remote segments? What was found, and what follows from it.

Brokers believe each record that is published, whatever lies where they read. Local retention then deletes the local
files, and if the objects are elsewhere, consumers read nothing. So before the first record the place is proven, by one
of these:

    BROKER_SEGMENT      the newest segment that brokers uploaded themselves has an object there
    SERVER_PROPERTIES   a broker of the cluster that runs on this host was started with that place
    PROBE_TOPIC         a topic was made, its broker tiered it, and the segment was there

What contradicts counts more than what holds: a bucket that is replicated holds the brokers' segments, too, and they
do not read it. But a probe that was found says where brokers write now, whatever became of older segments.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from tiersnap.remote_storage.errors import UnprovenPlaceError, WrongPlaceError

NAME_THE_PLACE = "give the place, its prefix and --layout as the brokers' server.properties has them"
UNPROVEN_RISK = (
    "brokers believe what is published: if they read another place, local retention deletes the local files and "
    "consumers read nothing"
)


class EvidenceKind(StrEnum):
    """The kind of evidence that a proof rests on."""

    BROKER_SEGMENT = "BROKER_SEGMENT"
    SERVER_PROPERTIES = "SERVER_PROPERTIES"
    PROBE_TOPIC = "PROBE_TOPIC"
    PROBE_PLANNED = "PROBE_PLANNED"  # a plan makes no topic: --apply decides
    UNPROVEN = "UNPROVEN"  # --unproven


class EvidenceOutcome(StrEnum):
    """The outcome of evidence for the place."""

    HOLDS = "HOLDS"
    CONTRADICTS = "CONTRADICTS"
    SILENT = "SILENT"


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence of one look; `says` is a clause for people."""

    kind: EvidenceKind
    outcome: EvidenceOutcome
    says: str


@dataclass(frozen=True, slots=True)
class PlaceProof:
    """The proof that records may be published; `sentence` is shown to people and stands in the JSON."""

    evidence: EvidenceKind
    sentence: str


def decide(
    place: str, evidence: Iterable[Evidence], *, is_unproven_allowed: bool = False, is_probe_planned: bool = False
) -> PlaceProof:
    """Return the proof that brokers read `place`, by all evidence there is.

    Args:
        is_unproven_allowed: `--unproven` was given: nothing is refused.
        is_probe_planned: a probe topic will decide before anything is written.

    Raises:
        WrongPlaceError: something contradicts.
        UnprovenPlaceError: nothing holds.
    """
    found = list(evidence)
    holds = [each for each in found if each.outcome is EvidenceOutcome.HOLDS]
    against = [each for each in found if each.outcome is EvidenceOutcome.CONTRADICTS]
    is_probed = any(each.kind is EvidenceKind.PROBE_TOPIC for each in holds)
    counting = [each for each in against if not (is_probed and each.kind is EvidenceKind.BROKER_SEGMENT)]
    if holds and not counting:
        however = "".join(f"; however, {each.says}" for each in against)
        return PlaceProof(holds[0].kind, f"brokers read {place}: {'; '.join(each.says for each in holds)}{however}")
    said = "; ".join(each.says for each in counting or found) or "nothing was found that could tell"
    if is_unproven_allowed:
        return PlaceProof(EvidenceKind.UNPROVEN, f"nothing proves that brokers read {place}: {said}; {UNPROVEN_RISK}")
    if is_probe_planned and all(each.kind is EvidenceKind.BROKER_SEGMENT for each in counting):
        return PlaceProof(
            EvidenceKind.PROBE_PLANNED,
            f"nothing proves yet that brokers read {place}: {said}; with --apply a probe topic decides",
        )
    if counting:
        raise WrongPlaceError(
            f"{place}: not where brokers read: {said}", hint=f"{NAME_THE_PLACE}; --unproven goes on all the same"
        )
    raise UnprovenPlaceError(
        f"{place}: nothing proves that brokers read it: {said}",
        hint="run it on a broker's host as the broker's user, or give --probe-topic; --unproven goes on all the same",
    )
