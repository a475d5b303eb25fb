"""Every command that has JSON, and its contract; `make schemas` writes docs/schemas/."""

from __future__ import annotations

from tiersnap.jobs.contracts import exactly_once, log_dir, records, remote, warehouse
from tiersnap.jobs.contracts.envelope import Contract

CONTRACTS: dict[str, Contract] = {
    "doctor": Contract(result=log_dir.DoctorResult),
    "dump": Contract(result=list[records.DumpedFile], line=[dict[str, object]]),
    "repair": Contract([log_dir.PlannedRepair]),
    "collect": Contract([log_dir.CollectedPartition], log_dir.CollectSummary),
    "simulate": Contract(
        [
            *(records.SimulatedWrite, records.SimulatedProducer, exactly_once.SimulatedFleetWrite),
            *(exactly_once.PartitionRisk, exactly_once.BoundaryRisk),
        ],
        exactly_once.SimulateSummary,
    ),
    "audit": Contract([exactly_once.AuditFinding], exactly_once.AuditSummary),
    "run": Contract([warehouse.VerdictCount], warehouse.RunSummary),
    "tier": Contract([remote.TieredPartition], remote.TierSummary),
    "unblock": Contract([remote.FreedPartition], remote.UnblockSummary),
    "mend": Contract([remote.MendedSegment], remote.MendSummary),
    "install": Contract([remote.InstalledSnapshot]),
    "restore": Contract([remote.RestoredPartition, remote.RestoredSegment]),
    "fetch": Contract([remote.FetchedCopy]),
    "expire": Contract([remote.ExpiredSegment, remote.UnexpiredPartition], remote.ExpireSummary),
    "decode": Contract([warehouse.DecodedSegments], warehouse.DecodeSummary),
    "transactions": Contract([records.ListedTransaction, records.OpenTransaction]),
    "producers": Contract([records.ListedProducer]),
    "explain": Contract([records.ExplainedRow, records.ExplainableName]),
    "maintain remove-orphans": Contract([remote.OrphanRow], remote.OrphansSummary),
    "maintain tables": Contract([warehouse.MaintainedTable]),
    "report": Contract(
        [warehouse.ReportedPartition, warehouse.ReportedTopic, warehouse.ReportedSegment], warehouse.ReportSummary
    ),
    "report diff": Contract([exactly_once.ChangedPartition], exactly_once.DiffSummary),
    "runs list": Contract([warehouse.ListedRun]),
    "runs show": Contract(result=warehouse.ShownRun),
    "config": Contract([warehouse.Setting]),
    "version": Contract(result=warehouse.VersionResult),
}
