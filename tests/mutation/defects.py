"""Defects that lost, hid or doubled data, each made again in every `make mutate`: its test must fail.

A defect is the line that cures it, and the line as good as none that stood there before.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.mutation.dangers import Danger


class Defect(NamedTuple):
    """A cure taken back, and the tests that notice it."""

    danger: Danger
    tests: tuple[str, ...]


def _defect(path: str, name: str, before: str, after: str, *tests: str) -> Defect:
    return Defect(Danger(path, name, before, after), tests)


_BELOW = "test_lost_below.py::test_"
_MEND, _PROOF, _ORPHANS = "remote_storage/mend", "test_mend_proof.py::test_", "test_orphans.py::test_"

NOTHING_GOOD_IS_DELETED = (
    _defect(
        f"{_MEND}/mend_plan.py",
        "mend deletes a segment beside a wrong one",
        "if why := proof.doubt(other):",
        'if why := "":',
        f"{_PROOF}no_copy_is_deleted_while_the_one_that_brokers_read_is_wrong",
    ),
    _defect(
        f"{_MEND}/mend_plan.py",
        "mend deletes one of two whole segments that differ",
        "and proof.differ(name, other)",
        "and False",
        f"{_PROOF}no_copy_is_deleted_if_both_are_whole_and_differ",
    ),
    _defect(
        "remote_storage/retire/remaining.py",
        "remove-orphans deletes a segment beside a wrong one",
        'return first_problem(log, others, self._read_once, then=f": {_MEND}")',
        'return ""',
        "test_readable_bytes.py::test_remove_orphans_deletes_what_no_consumer_needs",
    ),
    _defect(
        "remote_storage/retire/orphans.py",
        "remove-orphans deletes the log of an incomplete segment unread",
        "    if copy is None or finished is not None:\n",
        '    if copy is None:\n        return ""\n    if finished is not None:\n',
        f"{_ORPHANS}the_only_right_log_stays_if_its_manifest_is_damaged",
        f"{_ORPHANS}the_only_right_log_stays_if_its_indexes_are_lost",
    ),
    _defect(
        "remote_storage/retire/attempt_log.py",
        "the manifest of a segment that goes outweighs its log",
        "    if log.digest:\n",
        "    if complete is not None:\n"
        "        end, epoch = complete.end_offset, complete.leader_epochs[-1][0]\n"
        "        return AttemptLog(log.start_offset, end, epoch)\n"
        "    if log.digest:\n",
        f"{_ORPHANS}a_manifest_does_not_outweigh_the_log_beside_it",
    ),
    _defect(
        "remote_storage/retire/partition_leftovers.py",
        "tier deletes the log of an ended attempt unread",
        "if why := _why_kept(store, found, each, log_start):",
        'if why := "":',
        "test_leftovers.py::test_sweep_partition_keeps_a_killed_attempts_log_beside_a_damaged_one",
    ),
    _defect(
        "remote_storage/retire/partition_leftovers.py",
        "tier deletes the log of a superseded attempt that lost an object unread",
        "    if left.objects is None or left.objects.log is None:\n",
        "    if isinstance(left, IncompleteSegment) or left.objects.log is None:\n",
        "test_leftovers.py::test_sweep_partition_keeps_a_superseded_log_beside_a_damaged_one",
    ),
    _defect(
        "jobs/commands/doctor/cluster.py",
        "doctor recommends to delete one of two sound copies",
        "        yield from map(place.render, _of_hung(copies, freeing))\n",
        "        yield from map(place.render, _of_hung(copies, freeing))\n"
        "    from tiersnap.snapshot.gate.next_steps import MEND\n"
        "    yield from [place.render(MEND)] * len(copies.twice)\n",
        f"{_PROOF}verify_and_doctor_recommend_nothing_over_two_sound_copies",
    ),
    _defect(
        "remote_storage/locks/claim_protocol.py",
        "tier deletes a segment that was finished",
        "finished.claim.reopened_by(attempt)",
        "finished.claim.taken_by(attempt)",
        "test_lost_remote_segments.py::test_tier_deletes_no_finished_segment_with_an_object_of_another_size",
    ),
    _defect(
        "jobs/commands/mend.py",
        "an environment variable switches on a deletion",
        '@once("--delete-bad"',
        '@click.option("--delete-bad"',
        "commands/test_settings.py::test_settings_and_environment_never_switch_on_a_deletion",
    ),
    _defect(
        "remote_storage/stores/probe_s3.py",
        "nothing names a bucket that keeps old versions",
        "if status is not None:",
        "if False:",
        "test_probe.py::test_old_versions_names_a_bucket_that_keeps_them",
    ),
)
NOTHING_UNREAD_IS_PUBLISHED = (
    _defect(
        f"{_MEND}/put_back.py",
        "mend puts a segment back unread",
        "segment.check(right, planned)",
        "pass",
        "test_mend.py::test_mend_puts_back_no_damaged_object_and_says_why",
    ),
    _defect(
        f"{_MEND}/right_segments.py",
        "mend takes the log of a diverged clone",
        "            self._refuse_other_lineage(record, runs, told.digest)",
        "            pass",
        f"{_PROOF}the_log_of_a_diverged_clone_is_refused",
    ),
    _defect(
        f"{_MEND}/right_segments.py",
        "mend takes no log from another copy of the segment",
        "twin = self.stored.undamaged_twin(record)\n",
        "twin = None\n",
        f"{_PROOF}a_lost_log_is_made_again_from_another_copy",
    ),
    _defect(
        f"{_MEND}/stored_logs.py",
        "mend takes no log from a copy that lost another object",
        "*self._incomplete_twins(record)]",
        "]",
        f"{_PROOF}the_log_of_an_incomplete_copy_replaces_a_wrong_one",
    ),
    _defect(
        f"{_MEND}/mend.py",
        "mend takes a backup before a right local log",
        "        done = self._by_local_log(again, lost)\n",
        "        done = list[Mending]()\n",
        "test_replace_wrong.py::test_a_right_local_log_is_used_before_a_backup",
    ),
    _defect(
        f"{_MEND}/right_segments.py",
        "mend keeps the largest timestamp of a wrong time index",
        "    if end.max_timestamp >= 0:\n",
        "    if False:\n",
        f"{_PROOF}a_replaced_segment_is_published_with_its_largest_timestamp",
    ),
    _defect(
        "remote_storage/remote_log/same_log.py",
        "tier takes a diverged clone for the log that is in remote storage",
        "if remote != batch.header:",
        "if False:",
        "test_diverged_clone.py::test_tier_refuses_a_diverged_clone_and_writes_nothing",
    ),
    _defect(
        "remote_storage/verify/broker_attempts.py",
        "unblock finishes a broker's attempt that is not the log",
        "why = _why(each)",
        'why = ""',
        "test_broker_attempts.py::test_unblock_uploads_a_segment_again_when_its_attempt_is_wrong",
    ),
    _defect(
        "remote_storage/layouts/chunk_index.py",
        "a chunk is decompressed at once",
        'for piece in pieces(data, "zstd", size + 1):',
        'for piece in [b"".join(pieces(data, "zstd", size + 1))]:',
        "test_chunk_index.py::test_decompress_holds_a_few_pieces_when_a_small_chunk_claims_much",
    ),
    _defect(
        "remote_storage/stores/s3_store.py",
        "a listing makes no progress on a server that ignores start-after",
        "if after and key <= after:",
        "if False:",
        "../s3/test_object_store_contract.py::test_list_makes_progress_when_a_server_ignores_start_after",
    ),
    _defect(
        "snapshot/context_pool.py",
        "a deadline does not reach threads",
        "lambda: context.run(fn, *args, **kwargs)",
        "lambda: fn(*args, **kwargs)",
        "test_requests.py::test_in_parallel_asks_under_the_deadline_of_its_caller",
    ),
    _defect(
        "remote_storage/remote_log/observe.py",
        "segments of ours that lost all objects stay lost",
        "if not complete_in_other_layout(location, found.partition, ids):",
        "if False:",
        "test_lost_remote_segments.py::test_tier_uploads_segments_again_when_all_of_them_is_gone",
    ),
)
NOTHING_LOST_IS_HIDDEN = (
    _defect(
        "remote_storage/verify/partition_check.py",
        "verify finds a partition sound that lost its first segment, which no file holds",
        "        if head is not None:\n",
        "        if False:\n",
        "test_lost_head.py::test_verify_tells_a_lost_head_from_retention_by_the_log_start_of_the_cluster",
    ),
    _defect(
        "remote_storage/remote_log/log_head.py",
        "verify finds a partition sound that lost a middle segment, which no file holds",
        "    yield from ((stop, begin) for (_, stop), (begin, _) in pairwise(covered))\n",
        "    yield from ()\n",
        "test_lost_head.py::test_verify_names_a_lost_middle_that_no_file_holds",
    ),
    _defect(
        "remote_storage/remote_log/observe.py",
        "tier, scan and doctor find a log whole that lost segments below its first local file",
        "lost=lost)",
        "lost=())",
        f"{_BELOW}every_command_names_lost_offsets",
    ),
    _defect(
        "remote_storage/remote_log/lost_below.py",
        "the checkpoint of a running broker proves a loss that retention made",
        "        if self.ask is None:\n            return start\n        told",
        "        if self.ask is None:\n            return KnownLogStart(start.offset, is_current=True)\n        told",
        f"{_BELOW}checkpoint_of_a_running_broker_proves_no_lost_head",
    ),
    _defect(
        "remote_storage/remote_log/lost_below.py",
        "a segment that another host finishes meanwhile is called lost",
        "again = self._listed_again()",
        "again = self._listed_first()",
        f"{_BELOW}segment_that_another_host_finishes_meanwhile_is_not_lost",
    ),
    _defect(
        "remote_storage/remote_log/lost_below.py",
        "a segment in the other layout is called lost",
        "places = self.location, self.location.in_other_layout",
        "places = (self.location,)",
        f"{_BELOW}segments_that_are_complete_in_the_other_layout_are_not_lost",
    ),
)
NOTHING_UNKNOWN_IS_COMPUTED = (
    _defect(
        "snapshot/log/log_start.py",
        "a log begins at its first file if no checkpoint names its start",
        "return begin if remote is not None and remote <= begin else None",
        "return first",
        "test_log_start.py::test_repair_makes_nothing_when_the_log_start_is_unknown",
    ),
    _defect(
        "snapshot/exactly_once/simulate/log_dir.py",
        "simulate predicts what an unknown log start hides",
        "if begins.goes_back(partition) and begins.start is None and begins.copy is None:",
        "if False:",
        "test_log_start.py::test_a_command_names_the_unknown_log_start_and_the_option",
    ),
    _defect(
        "snapshot/replay/window_start.py",
        "a scan window needs no proof of what is open where it begins",
        "unproven = self._why_unproven(shown)",
        'unproven = ""',
        "test_scan_window.py::test_window_tiers_nothing_when_nothing_proves_what_is_open_where_it_begins",
    ),
    _defect(
        "remote_storage/upload/checked_upload.py",
        "a segment before a scan window ends inside a transaction that its snapshot lacks",
        "        if lacking:",
        "        if False:",
        "test_scan_window_bundled.py::test_window_uploads_nothing_from_a_segment_on_that_ends_inside_a_transaction",
    ),
    _defect(
        "snapshot/gate/exit_code.py",
        "verify --remote ends with 0 over a SUSPECT segment",
        "        RemoteVerdict.SUSPECT: ExitCode.GATE_REFUSED,\n",
        "",
        "test_tier_check.py::test_verify_names_each_poisoned_snapshot_and_no_other",
    ),
    _defect(
        "snapshot/gate/judge_partition.py",
        "a plan calls a segment READY of which a scan window read nothing",
        "return is_of_window and end.snapshot_offset < end.folded_from",
        "return False",
        "test_judged_snapshots.py::test_segment_is_unread_if_it_ends_before_the_scan_window_begins",
    ),
    _defect(
        "jobs/pipeline/verdicts.py",
        "a segment that an upload refused is uploaded again",
        "found.snapshots, coverage, _refused(refusals, found)",
        "found.snapshots, coverage",
        "test_scan_window_bundled.py::test_plan_and_run_give_a_segment_that_ends_inside_a_transaction_a_verdict",
    ),
    _defect(
        "snapshot/log/leader_epochs.py",
        "own uploads count as lost if the log start is inside a segment",
        "agreed[0] = (start, agreed[0][1])",
        "agreed[0] = agreed[0]",
        "test_log_start_inside_a_segment.py::test_tier_knows_its_own_uploads_when_the_log_start_is_inside_a_segment",
    ),
)
THE_LOCATION = (
    _defect(
        "remote_storage/publish/location_proof.py",
        "a segment that brokers uploaded proves the location",
        "return LocationVerdict(LocationState.UNPROVEN, location, found, None)",
        "hint = next((each for each in found if each.outcome is EvidenceOutcome.HINTS), None)\n"
        "    state = LocationState.PROVEN if hint else LocationState.UNPROVEN\n"
        "    return LocationVerdict(state, location, found, hint)",
        "test_prove_place.py::test_newest_segment_that_brokers_uploaded_is_a_hint_and_no_proof",
    ),
    _defect(
        "remote_storage/publish/location_proof.py",
        "--unproven overrides a contradiction",
        "        self.refuse_contradiction()\n        if self",
        "        if not is_unproven_allowed:\n            self.refuse_contradiction()\n        if self",
        "test_place_proof.py::test_require_lets_no_option_override_a_contradiction",
    ),
    _defect(
        "remote_storage/publish/read_back_topic.py",
        "any record that brokers return proves the location",
        "if message.value() == nonce",
        "if True",
        "test_read_back.py::test_read_back_is_silent_when_brokers_go_on_reading_their_own_copy",
    ),
    _defect(
        "remote_storage/locks/read_back_record.py",
        "a kept proof counts in a copy of the location",
        "if self._place_of(found.content) != self._place_of(self._empty):",
        "if False:",
        "test_read_back.py::test_kept_read_back_does_not_count_in_a_copy_at_the_same_path",
    ),
    _defect(
        "jobs/situation/situation.py",
        "tier and unblock take a location that the broker's settings contradict",
        "self.verdict(open_location(store, self.layout or DEFAULT_LAYOUT)).refuse_contradiction()",
        "pass",
        "test_situation_of_commands.py::test_location_that_contradicts_the_broker_is_refused",
    ),
    _defect(
        "jobs/pipeline/before_spark.py",
        "run uploads beside a broker to a location that it does not read",
        "    beside_brokers(settings.sources, open_location(store, settings.layout)).refuse_contradiction()\n",
        "",
        "test_situation_of_commands.py::test_run_refuses_a_location_that_the_running_broker_does_not_read",
    ),
    _defect(
        "jobs/cli/publish_options.py",
        "tier uploads to a location without the segments that brokers know",
        "        made.refuse_contradiction()\n",
        "",
        "test_tier_location.py::test_tier_uploads_nothing_where_segments_of_brokers_are_missing",
    ),
    _defect(
        "remote_storage/unblock/unblock.py",
        "unblock writes to a location that nothing proves",
        "            proof = self._prove()\n",
        "            check_conditions(self.host.location.store)\n            proof = self._prove()\n",
        "test_release.py::test_unblock_writes_no_object_when_nothing_proves_the_location",
    ),
    _defect(
        "jobs/commands/doctor/cluster.py",
        "doctor prints a command with a location that brokers do not read",
        "if compared.location.state is not LocationState.CONTRADICTED:",
        "if True:",
        "commands/test_doctor_records.py::test_next_step_is_no_command_when_brokers_read_another_location",
    ),
)
AFTER_A_POWER_LOSS = (
    _defect(
        "snapshot/gate/judge.py",
        "a segment with a damaged index is READY",
        "if segment.index_faults and not self.mends_indexes:",
        "if False:",
        "test_index_damaged.py::test_scan_names_each_broken_index_and_what_mends_it",
    ),
    _defect(
        "remote_storage/verify/whole_segment.py",
        "verify --remote does not look at the order of an index",
        "if data is not None and (fault := fault_of_order(name, data, extent)):",
        'if fault := "":',
        "test_index_damaged.py::test_verify_finds_broken_indexes_in_remote_storage_at_the_default_depth",
    ),
    _defect(
        "snapshot/repair/index_check.py",
        "an upload sends damaged indexes",
        "if self._data is None or (self.fault and self._data != rebuilt):",
        "if self._data is None:",
        "test_index_damaged.py::test_tier_uploads_right_indexes_in_the_place_of_broken_ones",
    ),
    _defect(
        "snapshot/repair/other_files.py",
        "an empty partition.metadata stays",
        "        topic_id = self.find_topic_id(partition.topic)\n",
        "        topic_id = None\n",
        "test_power_loss.py::test_topic_gets_its_id_back_by_topic_ids",
    ),
    _defect(
        "snapshot/log/rebuilt_epochs.py",
        "lost leader epochs stay lost",
        "    rebuilt = epochs_of_batches(filesystem, segments)\n",
        "    rebuilt = ()\n",
        "test_lost_leader_epochs.py::test_tier_uploads_epochs_that_the_batches_tell",
    ),
    _defect(
        "snapshot/log/stray_partitions.py",
        "a stray folder with records is not named",
        "if other.state == _STATE and (size := _bytes_of_logs(log_dir.filesystem, path)):",
        "if False and (size := 0):",
        "test_stray_partitions.py::test_stray_folder_is_named_with_its_bytes_and_its_meaning",
    ),
    _defect(
        "snapshot/exactly_once/transactions/hanging.py",
        "a transaction in the last epoch waits for its coordinator",
        "if value.producer_epoch == LARGEST_EPOCH:",
        "if False:",
        "exactly_once/transactions/test_hanging.py::test_command_prints_how_to_abort_what_no_coordinator_will",
    ),
    _defect(
        "snapshot/exactly_once/transactions/hanging.py",
        "a transaction that is overdue for hours beside its coordinator does not hang",
        "if at_work >= HANGS_AFTER_MS:",
        "if False:",
        "exactly_once/transactions/test_hanging.py::test_overdue_hangs_if_its_coordinator_wrote_an_hour_later",
    ),
)
PLANS_AND_PEACE = (
    _defect(
        "remote_storage/publish/paused_topics.py",
        "publish gives up beside a run that is at its topic for seconds",
        "noted = after_other_run(partial(self._save, partitions), self.talk)",
        "noted = self._save(partitions)",
        "test_publish_paused.py::test_while_paused_waits_for_a_run_that_took_the_topic_after_the_check",
    ),
    _defect(
        "snapshot/log/log_start.py",
        "the log start of the leader does not count above an older checkpoint",
        "if offset is None or told is None or offset <= told:",
        "if True:",
        "test_log_start.py::test_the_log_start_of_the_leader_counts_if_it_is_above_the_checkpoint",
    ),
    _defect(
        "snapshot/log/listed_again.py",
        "a segment that retention deletes while it is read is an alarm",
        "    if not found.segments:",
        "    if True:",
        "commands/test_deleted_meanwhile.py::test_segment_that_retention_deletes_is_left_out_by_a_second_look",
    ),
    _defect(
        "jobs/pipeline/one_writer.py",
        "a plan creates the folder of the warehouse and writes its lock",
        "        _refuse_locked(warehouse, Path(folder))\n        yield _nothing\n        return\n",
        "        pass\n",
        "test_lease.py::test_a_plan_waits_for_a_run_in_a_folder_and_changes_no_file",
    ),
    _defect(
        "jobs/commands/mend.py",
        "the last line of mend counts what it has just put back as missing",
        "if not apply or not done:",
        "if True:",
        "test_replace_wrong.py::test_mend_with_a_cluster_refuses_a_topic_that_it_does_not_have",
    ),
)

DEFECTS = (
    *NOTHING_GOOD_IS_DELETED,
    *NOTHING_UNREAD_IS_PUBLISHED,
    *NOTHING_LOST_IS_HIDDEN,
    *NOTHING_UNKNOWN_IS_COMPUTED,
    *THE_LOCATION,
    *AFTER_A_POWER_LOSS,
    *PLANS_AND_PEACE,
)
