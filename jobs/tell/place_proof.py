"""What `publish`, `unblock` and `mend` say of the place that --remote names."""

from __future__ import annotations

from tiersnap.jobs.output import Format, Output
from tiersnap.remote_storage.cluster.location_proof import EvidenceKind, PlaceProof


def members_of(output: Output, proof: PlaceProof | None) -> dict[str, object]:
    """Return what stands in the result's JSON: nothing without a proof, and in a table, where `tell` says it."""
    if proof is None or output.format is Format.TABLE:
        return {}
    return {"place": proof.sentence, "place_evidence": str(proof.evidence)}


def tell(output: Output, proof: PlaceProof | None) -> None:
    """Say why the place is trusted; if nothing proves it, also when quiet."""
    if proof is None:
        return
    say = output.warn if proof.evidence is EvidenceKind.UNPROVEN else output.talk
    say(f"place: {proof.sentence}")
