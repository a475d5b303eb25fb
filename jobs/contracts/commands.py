"""Every command that has JSON, and its contract; `make schemas` writes docs/schemas/."""

from __future__ import annotations

from tiersnap.jobs.contracts import exactly_once, log_dir, records, remote
from tiersnap.jobs.contracts.envelope import Contract

CONTRACTS: dict[str, Contract] = {
    "doctor": Contract(result=log_dir.DoctorResult),
    "simulate": Contract(
        [
            *(records.SimulatedWrite, records.SimulatedProducer, exactly_once.SimulatedFleetWrite),
            *(exactly_once.PartitionRisk, exactly_once.BoundaryRisk),
        ],
        exactly_once.SimulateSummary,
    ),
    "restore": Contract([remote.RestoredPartition, remote.RestoredSegment]),
}
