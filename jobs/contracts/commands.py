"""Every command that has JSON, and its contract; `make schemas` writes docs/schemas/."""

from __future__ import annotations

import json
from pathlib import Path

from tiersnap.jobs.contracts import exactly_once, log_dir, records, remote, warehouse
from tiersnap.jobs.contracts.envelope import Contract, document_schema

CONTRACTS: dict[str, Contract] = {
    "doctor": Contract(result=log_dir.DoctorResult),
    "scan": Contract([log_dir.ScannedPartition, log_dir.ScannedSegment]),
    "dump": Contract(result=list[records.DumpedFile], line=[dict[str, object]]),
    "repair": Contract([log_dir.PlannedRepair]),
    "verify": Contract([log_dir.VerifiedSnapshot], log_dir.VerifySummary),
    "collect": Contract([log_dir.CollectedPartition], log_dir.CollectSummary),
    "simulate": Contract(
        [records.SimulatedWrite, records.SimulatedProducer, exactly_once.SimulatedFleetWrite], records.SimulateSummary
    ),
    "audit": Contract([exactly_once.AuditFinding], exactly_once.AuditSummary),
    "risk": Contract([exactly_once.PartitionRisk, exactly_once.BoundaryRisk], exactly_once.RiskSummary),
    "run": Contract([warehouse.VerdictCount], warehouse.RunSummary),
    "tier": Contract([remote.TieredPartition], remote.TierSummary),
    "publish": Contract([remote.PublishedPartition], remote.PublishSummary),
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
# It runs other commands, and prints what they print.
WITHOUT_JSON = frozenset({"demo"})


def file_name(command: str) -> str:
    """`maintain tables` -> `maintain-tables.schema.json`."""
    return f"{command.replace(' ', '-')}.schema.json"


def schema_files() -> dict[str, str]:
    """Text of every file of docs/schemas/, by name."""
    return {
        file_name(command): json.dumps(document_schema(command, contract), indent=2) + "\n"
        for command, contract in CONTRACTS.items()
    }


if __name__ == "__main__":
    folder = Path("docs/schemas")
    folder.mkdir(exist_ok=True)
    for name, text in schema_files().items():
        (folder / name).write_text(text, encoding="utf-8")
