"""Findings about sequences, one small function a kind: a column over rows of `history.sequences`, see `found.found`.

They are of batches with sequences alone, at most one of each. Such a batch fits where it goes on from the batch before
it in its epoch, or from the furthest that the epoch had reached, as after a duplicate; but a batch whose very sequences
lie at a lower offset is a duplicate whatever it follows, and so is one that goes on from a batch which did no harm and
is the first whose sequences readers get again.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from tiersnap.jobs.pipeline.audit.found import forgotten, found, of_batch, of_before
from tiersnap.snapshot.exactly_once.models.audit_rules import AuditKind

_GOES_BACK = "place < frontier"
_IS_COPY = f"({_GOES_BACK} and copy is not null)"
_FITS = "(frontier is null or step = 0 or place = frontier)"
_OVERLAPS = f"({_GOES_BACK} and place_end > lowest and not has_hole)"
_IS_PARTIAL = f"(if({_FITS}, is_read and was_read and not follows_double, {_OVERLAPS} or was_read) and not {_IS_COPY})"
_IS_ODD = f"not {_FITS} and not {_IS_COPY} and not {_IS_PARTIAL}"
_LEAPS = "(place > coalesce(run_frontier, frontier))"
# A cleaner takes batches out, so that in its topics a step forward says nothing.
_SAYS = "not (is_compacted and coalesce(step, 0) >= 0)"


def relations() -> tuple[Column, ...]:
    """All of these kinds."""
    kinds = (
        duplicate(),
        partial_duplicate(),
        reset(),
        gap(),
        backward(),
        first_write_of_an_epoch(),
        first_write(),
    )
    return tuple(F.when(F.col("is_data"), finding) for finding in kinds)


def duplicate() -> Column:
    """The same producer id, epoch and sequences at two offsets."""
    copy = F.col("copy")
    columns = {
        **_forgotten(),
        **of_before("copy"),
        "distance": F.col("frontier") - F.col("place"),
        "is_same": copy["crc"] == F.col("crc"),
        "is_hidden": F.col("is_aborted") | ~(copy["is_read"] | F.col("was_read")),
    }
    return found(AuditKind.DUPLICATE_EXACT, _IS_COPY, **columns)


def partial_duplicate() -> Column:
    """Some of its sequences are in the log before it, in batches cut otherwise."""
    return found(AuditKind.DUPLICATE_PARTIAL, _IS_PARTIAL, **_behind())


def reset() -> Column:
    """Sequence 0 again in the same epoch, and no batch with it before."""
    condition = f"{_IS_ODD} and base_sequence = 0 and {_SAYS}"
    return found(AuditKind.SEQUENCE_RESET, condition, **_forgotten(), distance=F.abs("step"))


def gap() -> Column:
    """Sequences are missing before it."""
    reached = F.when(F.col("place") > F.col("frontier"), F.col("frontier")).otherwise(F.col("run_frontier"))
    condition = f"{_IS_ODD} and base_sequence <> 0 and {_LEAPS} and not is_compacted"
    return found(AuditKind.GAP, condition, **_missing(), distance=F.col("place") - reached)


def backward() -> Column:
    """It lies behind what the epoch had reached, where some sequences are missing: late, or a partial duplicate."""
    condition = f"{_IS_ODD} and base_sequence <> 0 and not {_LEAPS} and {_SAYS}"
    return found(AuditKind.BACKWARD, condition, **_behind())


def first_write_of_an_epoch() -> Column:
    """The first batch of a higher epoch, and not with sequence 0."""
    is_first = "frontier is null and before is not null and producer_epoch > epoch_before"
    condition = f"{is_first} and base_sequence <> 0 and not is_compacted"
    return found(AuditKind.BUMP_NONZERO, condition, **_missing(), distance=F.col("base_sequence"))


def first_write() -> Column:
    """The first batch of a producer, not with sequence 0, in a log that still has its beginning."""
    condition = "before is null and base_sequence <> 0 and log_start_offset = 0 and not is_compacted"
    # Nothing is known of what is missing but that it was above the log start offset.
    columns = {**_missing(), "evidence_offset": F.col("log_start_offset")}
    return found(AuditKind.FIRST_WRITE_LOST, condition, **columns, distance=F.col("base_sequence"))


def _forgotten() -> dict[str, Column]:
    """With the batch before it."""
    return {**forgotten(), **of_before("before")}


def _behind() -> dict[str, Column]:
    """It lies behind the frontier: no harm where readers had nothing of those sequences."""
    is_hidden = F.col("is_aborted") | ~F.col("may_be_read")
    return {**_forgotten(), "is_hidden": is_hidden, "distance": F.col("frontier") - F.col("place")}


def _missing() -> dict[str, Column]:
    """Batches between the two are not there."""
    before = F.col("before")
    return {
        **of_batch(),
        **of_before("before"),
        "evidence_offset": before["last_offset"],
        "has_new_leader": F.col("partition_leader_epoch") > before["partition_leader_epoch"],
    }
