"""A log that lives: after each thing that happens to it, the next run says what a first run would say."""

from __future__ import annotations

import shutil
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference.examples import examples
from tests.reference.fleet_run import Ran, Runner
from tests.reference.living_log import STEPS, LivingLog, live
from tiersnap.remote_storage.layouts import keys
from tiersnap.remote_storage.layouts.keys import KeyKind

pytestmark = pytest.mark.unit

# Not `run`, and not what only says where a fact is from.
COMPARED = (
    "base_offset",
    "next_base_offset",
    "size_bytes",
    "largest_timestamp",
    "verdict",
    "reason",
    "snapshot",
    "snapshot_provenance",
    "high_watermark",
    "last_stable_offset",
    "log_start_offset",
    "damage_kind",
)
histories = st.lists(st.sampled_from(STEPS), min_size=4, max_size=12)


def verdicts(ran: Ran) -> list[dict[str, Any]]:
    return [{name: row[name] for name in COMPARED} for row in ran.readiness]


def boundaries(runner: Runner, log: LivingLog) -> dict[int, str]:
    """What is said of the file at each boundary above the log's beginning."""
    facts = runner.tables.facts((str(log.log_dir), "orders", 0))
    first = log.bases()[0]
    return {
        row["snapshot_offset"]: row["compared"]
        for row in facts
        if row["kind"] == "BOUNDARY" and row["snapshot_offset"] > first
    }


@settings(max_examples=examples(4))
@given(seed=st.integers(0, 2**32), steps=histories)
def test_every_run_says_what_a_first_run_would_say(
    tmp_path_factory: pytest.TempPathFactory, seed: int, steps: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("history")
    try:
        log = LivingLog(folder / "logs", seed)
        log.write_checkpoints()
        # Without --apply: what lies in remote storage is a history that a first run does not have.
        kept = Runner(folder / "kept", log.log_dir)
        kept(apply=False)
        for number, step in enumerate(steps):
            live(log, step, folder / f"oracle{number}")
            observed = kept(apply=False)
            first = Runner(folder / f"first{number}", log.log_dir)
            expected = first(apply=False)
            assert verdicts(observed) == verdicts(expected), (number, step)
            listed, seen = boundaries(first, log), boundaries(kept, log)
            assert {offset: seen.get(offset) for offset in listed} == listed, (number, step)
            assert kept(apply=False).commits == 0, (number, step)
    finally:
        shutil.rmtree(folder)


@settings(max_examples=examples(4))
@given(seed=st.integers(0, 2**32), steps=histories)
def test_a_log_that_is_tiered_as_it_lives_has_one_copy_of_each_segment_and_no_hole(
    tmp_path_factory: pytest.TempPathFactory, seed: int, steps: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("history")
    try:
        log = LivingLog(folder / "logs", seed)
        log.write_checkpoints()
        runner = Runner(folder / "kept", log.log_dir)
        ends = dict[int, int]()
        for number, step in enumerate(["append", *steps]):
            live(log, step, folder / f"oracle{number}")
            ran = runner()
            assert ran.errors == [], (number, step)
            ends |= {row["base_offset"]: row["next_base_offset"] + 1 for row in ran.tiered}
            assert "READY" not in ran.verdicts, (number, step)
            objects = runner.objects()
            assert runner().did_nothing, (number, step)
            assert runner.objects() == objects, (number, step)
        manifests = [keys.parse(key) for key in runner.objects()]
        starts = sorted(key.offset for key in manifests if key.kind is KeyKind.RSM_MANIFEST)
        assert starts == sorted(ends)
        # A segment that retention took before it was tiered is a hole that nobody can fill.
        assert all(ends[start] <= following for start, following in pairwise(starts))
    finally:
        shutil.rmtree(folder)
