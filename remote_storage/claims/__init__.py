"""Claims: one small object a segment, by which the attempts to copy it know of each other."""

from tiersnap.remote_storage.claims.process import Process, is_gone, this_process
from tiersnap.remote_storage.claims.protocol import (
    STALE_AFTER_MS,
    claim,
    claimed_segments,
    finish,
    is_still_ours,
    list_beside_claims,
    list_claims,
    may_take_over,
    read_claim,
    read_claim_and_age,
    release,
    reopen,
)
from tiersnap.remote_storage.claims.record import Attempt, Claim, ClaimedSegment, ClaimedSnapshot

__all__ = [
    "STALE_AFTER_MS",
    "Attempt",
    "Claim",
    "ClaimedSegment",
    "ClaimedSnapshot",
    "Process",
    "claim",
    "claimed_segments",
    "finish",
    "is_gone",
    "is_still_ours",
    "list_beside_claims",
    "list_claims",
    "may_take_over",
    "read_claim",
    "read_claim_and_age",
    "release",
    "reopen",
    "this_process",
]
