"""What is mutated, and which test files hold it: the cheapest first, because the first failure ends a mutant."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Target:
    """A module by its path, the test files that hold it, and the environment they need."""

    path: str
    tests: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def module(self) -> str:
        """Its name in the package."""
        return "tiersnap." + self.path.removesuffix(".py").replace("/", ".")


# Kernels run as plain Python: compiling them anew for each mutant would take a minute a mutant.
_UNCOMPILED = {"NUMBA_DISABLE_JIT": "1"}

_COORDINATOR = ("exactly_once/models/test_coordinator.py",)
_APPEND = ("exactly_once/models/test_append.py",)
_CLIENT = ("exactly_once/models/test_client.py",)
_EXPLAIN = ("exactly_once/test_explain.py",)
_LOSS = ("exactly_once/models/test_loss.py",)
_SIMULATE = ("exactly_once/test_simulate.py", "exactly_once/test_idle_tiered_log.py")
_RISK = ("exactly_once/test_risk_scenarios.py", "exactly_once/test_risk_warehouse.py", "exactly_once/test_risk.py")
_HANGING = ("exactly_once/transactions/test_hanging.py",)
_STATES = ("exactly_once/transactions/test_transaction_log.py", "exactly_once/transactions/test_commands.py")


def _each(folder: str, tests: dict[str, tuple[str, ...]]) -> tuple[Target, ...]:
    return tuple(Target(f"{folder}/{name}.py", files) for name, files in tests.items())


MODELS = _each(
    "snapshot/exactly_once/models",
    {
        "answers": (*_APPEND, *_EXPLAIN),
        "append": _APPEND,
        "audit_rules": ("exactly_once/models/test_audit_rules.py", *_LOSS),
        "coordinator_state": (*_COORDINATOR, *_EXPLAIN),
        "decision_table": _LOSS,
        "end_transaction": _COORDINATOR,
        "eras": (*_APPEND, *_EXPLAIN),
        "exception_groups": (*_CLIENT, *_EXPLAIN),
        "init_producer_id": _COORDINATOR,
        "produce_reaction": (*_CLIENT, *_EXPLAIN),
        "producer_entry": _APPEND,
        "transaction_reaction": (*_CLIENT, *_EXPLAIN),
        "verification": _APPEND,
    },
)
SIMULATE = _each(
    "snapshot/exactly_once/simulate",
    dict.fromkeys(
        ("log_dir", "outcomes", "replica", "replica_state", "what_if"),
        _SIMULATE,
    )
    | {"lost_producers": ("test_lost_producers.py",)}
    | dict.fromkeys(
        (
            *("exposure", "partition_risk", "replay_cost", "retention_wait"),
            *("risk_log_dirs", "risk_rows", "sightings", "survey"),
        ),
        _RISK,
    ),
)
TRANSACTIONS = _each(
    "snapshot/exactly_once/transactions",
    {
        "coordinator": (*_STATES, "exactly_once/transactions/test_partitioner.py"),
        "hanging": _HANGING,
        "hanging_search": _HANGING,
        "kafka_table": _STATES,
        "producers": (*_HANGING, *_STATES),
        "transaction_log": (*_STATES, *_HANGING),
    },
)
EXPLAIN = _each(
    "snapshot/exactly_once/explain",
    dict.fromkeys(("clients", "coordinator_situations", "explain"), _EXPLAIN),
)

TARGETS = (
    *MODELS,
    *EXPLAIN,
    *SIMULATE,
    *TRANSACTIONS,
    Target("snapshot/exactly_once/log_replay.py", (*_HANGING, *_SIMULATE, *_RISK)),
    Target("snapshot/kernels/fold.py", ("test_fold_kernels.py",), _UNCOMPILED),
    Target("snapshot/producer_fold.py", ("test_replay_starts.py", "test_producer_fold.py", "test_expiry.py")),
    Target(
        "snapshot/replay/partition_state.py",
        (
            "test_replay_starts.py",
            "test_replay.py",
            "test_repair.py",
            "test_log_begins_in_remote_storage.py",
            "test_lost_segment.py",
        ),
    ),
    Target("snapshot/replay/lost_offsets.py", ("test_lost_offsets.py", "test_lost_segment.py")),
    Target("snapshot/replay/comparison.py", ("test_trust_said.py", "test_readiness_gate.py")),
    Target(
        "snapshot/replay/snapshot_comparison.py",
        (
            "test_trust_said.py",
            "test_trust_moved_start.py",
            "test_snapshot_comparison.py",
            "test_replay_starts.py",
            "test_repair.py",
        ),
    ),
    Target("snapshot/gate/judge.py", ("test_readiness_gate.py", "test_left_to_broker.py", "test_index_damaged.py")),
    Target(
        "snapshot/gate/judge_partition.py",
        ("test_judged_snapshots.py", "test_index_damaged.py", "test_left_to_broker.py", "test_scan_window.py"),
    ),
    Target("snapshot/gate/verdict.py", ("test_verdicts.py", "test_refused.py")),
    Target("snapshot/gate/copy_task.py", ("test_copy_task.py", "test_left_to_broker.py")),
    Target("snapshot/gate/remote_check.py", ("test_remote_check.py", "test_refused.py", "test_mend_proof.py")),
    Target(
        "snapshot/gate/printed_steps.py",
        ("test_readiness_report_next_step.py", "commands/test_host_commands.py", "commands/test_printed_commands.py"),
    ),
    Target("snapshot/gate/trusted.py", ("test_trusted.py",)),
    Target("snapshot/gate/exit_code.py", ("test_refused.py",)),
    Target("snapshot/log/coverage.py", ("test_coverage.py",)),
    Target(
        "snapshot/replay/examine.py",
        (
            "test_examine_said.py",
            "test_readiness_gate.py",
            "test_replay_starts.py",
            "commands/test_scan.py",
            "commands/test_scan_damage.py",
            "test_log_begins_in_remote_storage.py",
        ),
    ),
    Target("snapshot/log/leader_epochs.py", ("test_coverage.py",)),
    Target("snapshot/log/log_start.py", ("test_log_start.py", "test_remote_start.py")),
    Target("snapshot/log/rebuilt_epochs.py", ("test_lost_leader_epochs.py", "test_repair_other_files.py")),
    Target("snapshot/formats/index_order.py", ("test_index_damaged.py",)),
    Target("snapshot/repair/other_files.py", ("test_repair_other_files.py", "test_power_loss.py")),
    Target("snapshot/formats/snapshot_file.py", ("test_snapshot_file.py",)),
    Target("snapshot/atomic_file.py", ("test_atomic_file.py", "test_repair.py", "commands/test_several_log_dirs.py")),
    Target("snapshot/repair/repair_plan.py", ("test_repair.py", "test_log_begins_in_remote_storage.py")),
    Target("snapshot/repair/files.py", ("test_atomic_file.py", "test_repair.py", "test_repair_killed.py")),
    Target(
        "snapshot/replay/replay_start.py",
        (
            "test_remote_start.py",
            "test_poisoned_tier.py",
            "test_log_begins_in_remote_storage.py",
            "test_repair_without_a_log_start.py",
        ),
    ),
    Target("remote_storage/remote_log/remote_state.py", ("test_remote_state.py",)),
    Target(
        "remote_storage/remote_log/remote_log.py",
        ("test_poisoned_tier.py", "test_log_begins_in_remote_storage.py", "test_claimed_starts.py"),
    ),
    Target("remote_storage/publish/readable_offsets.py", ("test_lost_copies.py", "test_readable_offsets.py")),
    Target("remote_storage/publish/publish.py", ("test_publish_read_back.py",)),
    Target("remote_storage/publish/pause_copying.py", ("test_cluster_settings.py",)),
    Target(
        "remote_storage/metadata/remote_index.py",
        ("test_remote_index.py", "test_publish_read_back.py", "test_metadata_records_plan.py"),
    ),
    Target("remote_storage/cluster/hung_copies.py", ("test_hung_copies.py",)),
    Target("remote_storage/verify/check_plan.py", ("test_check_plan.py", "test_tier_check.py")),
    Target("remote_storage/verify/check_task.py", ("test_check_task.py",)),
    Target("remote_storage/verify/broker_attempts.py", ("test_broker_attempts.py", "test_compare_whole.py")),
    Target(
        "remote_storage/verify/compare_whole.py",
        ("test_compare_whole.py", "test_broker_attempts.py", "test_orphans.py"),
    ),
    Target("remote_storage/verify/read_whole.py", ("test_mend_proof.py", "test_replace_wrong.py")),
    Target("remote_storage/remote_log/same_log.py", ("test_diverged_clone.py",)),
    Target("remote_storage/remote_log/known_manifests.py", ("test_known_manifests.py",)),
    Target("remote_storage/unblock/freeing.py", ("test_freeing.py",)),
    Target(
        "remote_storage/metadata/segment_metadata.py", ("test_remote_bundle.py", "test_metadata_records_lineage.py")
    ),
    Target("remote_storage/upload/already_there.py", ("test_already_there.py", "test_compare_whole.py")),
    Target("remote_storage/upload/bundle.py", ("test_remote_bundle.py",)),
    Target("remote_storage/upload/snapshot_source.py", ("test_remote_bundle.py",)),
    Target("remote_storage/upload/send_objects.py", ("test_remote_uploader.py", "test_checked_upload.py")),
    Target("remote_storage/remote_log/complete.py", ("test_whole_copies.py",)),
    Target("remote_storage/remote_log/finished.py", ("test_finished_segments.py", "test_orphans.py")),
    Target("remote_storage/remote_log/starts.py", ("test_claimed_starts.py",)),
    Target("remote_storage/retire/known_to_cluster.py", ("test_orphans.py",)),
    Target("remote_storage/locks/process.py", ("test_claim_protocol.py",)),
    Target(
        "remote_storage/locks/lock_object.py", ("test_claim_protocol.py", "test_lease.py", "test_cluster_settings.py")
    ),
    Target(
        "remote_storage/locks/claim_protocol.py",
        ("test_claim_protocol.py", "test_claims_kept.py", "test_claims_interleaved.py"),
    ),
    Target(
        "snapshot/replay/partition_replay.py",
        (
            "test_readiness_gate.py",
            "test_examine_said.py",
            "test_trust_moved_start.py",
            "exactly_once/test_idle_tiered_log.py",
            "test_replay_starts.py",
            "test_lost_segment.py",
            "test_poisoned_tier.py",
        ),
    ),
    Target("snapshot/formats/records.py", ("test_records_crc.py",)),
    Target("snapshot/formats/crc32c.py", ("test_records_crc.py",)),
    Target("remote_storage/upload/tier_partition.py", ("test_tier_partition.py",)),
    Target("remote_storage/upload/segments_in_flight.py", ("test_tier_ahead.py",)),
    Target("remote_storage/retire/orphans_find.py", ("test_orphans.py",)),
    Target("remote_storage/publish/segments_to_publish.py", ("test_lost_copies.py", "test_metadata_records_plan.py")),
    Target("remote_storage/mend/record_lineage.py", ("test_record_lineage.py",)),
    Target("remote_storage/mend/mend_plan.py", ("test_mend_proof.py", "test_replace_wrong.py")),
    Target("snapshot/errors.py", ("test_errors.py", "test_refused.py")),
)
