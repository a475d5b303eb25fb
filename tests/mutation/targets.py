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

TARGETS = (
    Target("snapshot/kernels/fold.py", ("test_fold_kernels.py",), _UNCOMPILED),
    Target("snapshot/state/producer_state.py", ("test_carry.py", "test_producer_state.py", "test_expiry.py")),
    Target(
        "snapshot/state/carry.py",
        (
            "test_carry.py",
            "test_replay.py",
            "test_repair.py",
            "test_log_begins_in_remote_storage.py",
            "test_lost_segment.py",
        ),
    ),
    Target("snapshot/state/lost_offsets.py", ("test_lost_offsets.py", "test_lost_segment.py")),
    Target("snapshot/state/found_snapshot.py", ("test_carry.py", "test_repair.py")),
    Target("snapshot/state/trust.py", ("test_trust_said.py", "test_trust_moved_start.py", "test_trust.py")),
    Target("snapshot/gate/readiness.py", ("test_readiness_gate.py",)),
    Target("snapshot/gate/coverage.py", ("test_coverage.py",)),
    Target(
        "snapshot/gate/examine.py",
        (
            "test_examine_said.py",
            "test_readiness_gate.py",
            "test_carry.py",
            "test_scan.py",
            "test_scan_damage.py",
            "test_log_begins_in_remote_storage.py",
        ),
    ),
    Target("snapshot/log/lineage.py", ("test_coverage.py",)),
    Target("snapshot/formats/snapshot_file.py", ("test_snapshot_file.py",)),
    Target("snapshot/atomic_file.py", ("test_atomic_file.py", "test_repair.py", "test_several_log_dirs.py")),
    Target("snapshot/repair/plan.py", ("test_repair.py", "test_log_begins_in_remote_storage.py")),
    Target("snapshot/repair/files.py", ("test_atomic_file.py", "test_repair.py", "test_repair_killed.py")),
    Target(
        "snapshot/tasks/remote_start.py",
        (
            "test_remote_start.py",
            "test_poisoned_tier.py",
            "test_log_begins_in_remote_storage.py",
            "test_repair_without_a_log_start.py",
        ),
    ),
    Target("snapshot/state/remote_state.py", ("test_remote_state.py",)),
    Target("remote_storage/presence/remote_log.py", ("test_poisoned_tier.py", "test_log_begins_in_remote_storage.py")),
    Target("remote_storage/presence/vouching.py", ("test_claimed_starts.py",)),
    Target("remote_storage/cluster/lost_copies.py", ("test_lost_copies.py", "test_readable_offsets.py")),
    Target("remote_storage/cluster/read_back.py", ("test_publish_read_back.py",)),
    Target("remote_storage/cluster/put_aside.py", ("test_cluster_settings.py",)),
    Target(
        "remote_storage/metadata/remote_index.py",
        ("test_remote_index.py", "test_publish_read_back.py", "test_metadata_records_plan.py"),
    ),
    Target("remote_storage/cluster/freeing.py", ("test_freeing.py",)),
    Target("remote_storage/upload/bundle.py", ("test_remote_bundle.py",)),
    Target("remote_storage/upload/trusted_snapshot.py", ("test_remote_bundle.py",)),
    Target("remote_storage/upload/uploader.py", ("test_remote_uploader.py", "test_checked_upload.py")),
    Target("remote_storage/presence/whole.py", ("test_whole_copies.py",)),
    Target("remote_storage/presence/other_layout.py", ("test_whole_copies.py",)),
    Target("remote_storage/presence/finished.py", ("test_finished_segments.py", "test_orphans.py")),
    Target("remote_storage/presence/starts.py", ("test_claimed_starts.py",)),
    Target("remote_storage/expire/retention.py", ("test_expire_retention.py", "test_expire.py")),
    Target("remote_storage/expire/in_use.py", ("test_expire.py",)),
    Target("remote_storage/expire/manager.py", ("test_expire.py",)),
    Target("remote_storage/expire/plan.py", ("test_expire.py",)),
    Target("remote_storage/expire/delete.py", ("test_expire.py",)),
    Target("remote_storage/claims/process.py", ("test_claims.py",)),
    Target("remote_storage/claims/protocol.py", ("test_claims.py", "test_claims_interleaved.py")),
    Target("snapshot/errors.py", ("test_errors.py", "test_refused.py")),
)
