"""Fixes that the protocol test must notice by itself, each taken back in every `make mutate`."""

from __future__ import annotations

from tests.mutation.dangers import Danger

TESTS = ("test_protocol.py",)

_ARRIVAL, _STORE_LEFTOVERS = "remote_storage/upload/checked_upload.py", "remote_storage/retire/store_leftovers.py"
_LEFTOVERS, _SMALL = "remote_storage/remote_log/remote_inventory.py", "remote_storage/stores/small_object.py"
_UNFINISHED = "remote_storage/retire/orphans_find.py"

REVERTED = (
    Danger(
        "remote_storage/upload/copy_attempt.py",
        "a claim that was lost is not written again",
        "claim_protocol.put_again(self.job.store, self.claimed)",
        "pass",
    ),
    Danger(
        "remote_storage/remote_log/observe.py",
        "a lost segment whose upload was cut short is no lost one",
        "if claim is None:\n",
        "if claim is None or claim.finished is None:\n",
    ),
    Danger(
        "snapshot/replay/remote_records.py",
        "a copy that was begun keeps a lost segment from being uploaded",
        "if each.state is not RemoteSegmentState.COPY_SEGMENT_STARTED:",
        "if True:",
    ),
    Danger(
        "remote_storage/upload/stored_snapshots.py",
        "a damaged snapshot object is not computed again",
        "        except CorruptDataError:\n            info",
        "        except CorruptDataError:\n            raise\n            info",
    ),
    Danger(
        _ARRIVAL, "what was lost is not noticed", "        _check(store, key, put, listed.get(key))", "        pass"
    ),
    Danger(_ARRIVAL, "no checksum is compared", "if not put.proved:", "if False:"),
    Danger(
        "remote_storage/remote_log/observe.py",
        "no lost segment is tiered again",
        "if not complete_in_other_layout(location, found.partition, ids):",
        "if False:",
    ),
    Danger(
        _LEFTOVERS,
        "a late put stays",
        "return left.claim is not None and left.claim.may_delete(left.segment_id)",
        "return False",
    ),
    Danger(
        "remote_storage/upload/tier_host.py",
        "a late put stays where nothing is to be tiered",
        "swept = sweep_partition(job.store",
        "return\n            swept = sweep_partition(job.store",
    ),
    Danger(
        "remote_storage/retire/partition_leftovers.py",
        "what a killed attempt left stays",
        "return age > GRACE_MS and claim_protocol",
        "return False and claim_protocol",
    ),
    Danger(
        _STORE_LEFTOVERS, "an upload stays", "_abort(store, files), _abort(store, claimed)", "_abort(store, files), 0"
    ),
    Danger(_STORE_LEFTOVERS, "a temporary file stays", "_abort(store, files), _abort", "0, _abort"),
    Danger(_STORE_LEFTOVERS, "a probe stays", "failures = store.delete(probes)", "failures = ()"),
    Danger(_UNFINISHED, "remove-orphans leaves probes", "in old_probes(store, aged.now, -1):", "in ():"),
    Danger(_UNFINISHED, "remove-orphans leaves uploads", "in old_uploads(store, -1):", "in ():"),
    Danger(_SMALL, "damage is not read again", "message)\n        return read()", "message)\n        raise"),
    Danger(
        "remote_storage/locks/lock_object.py",
        "a damaged claim or record is not read again",
        "return read_twice_if_damaged(once)",
        "return once()",
    ),
)
