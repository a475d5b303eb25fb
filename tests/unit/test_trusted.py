"""Which snapshots may be uploaded, and which may start a replay."""

from __future__ import annotations

import pytest

from tiersnap.snapshot.gate.trusted import COMPARED, Provenance, SnapshotVerdict, may_be_uploaded, may_start_replay

pytestmark = pytest.mark.unit

# (may be uploaded, may start a replay), whatever the verdict says
COMPUTED = {
    "COMPUTED": (True, True),
    "COMPUTED_FROM_LOG_START": (True, True),
    "COMPUTED_FROM_SNAPSHOT": (True, True),
    "COMPUTED_FROM_LOCAL_START": (False, False),
    "COMPUTED_WITHIN_WINDOW": (True, False),
    "BROKER_UNVERIFIED": (True, False),
}


@pytest.mark.parametrize("provenance", [each for each in Provenance if each is not Provenance.BROKER])
def test_trust_in_a_snapshot_that_needs_no_verdict_is_that_of_its_provenance(provenance: Provenance) -> None:
    for verdict in (None, *SnapshotVerdict):
        found = may_be_uploaded(provenance, verdict), may_start_replay(provenance, verdict)
        assert found == COMPUTED[provenance]


@pytest.mark.parametrize("verdict", [None, *SnapshotVerdict])
def test_a_file_of_a_broker_is_trusted_if_it_says_what_the_log_says(verdict: SnapshotVerdict | None) -> None:
    is_trusted = verdict in ("MATCHES", "EXTENDS")
    assert may_be_uploaded(Provenance.BROKER, verdict) is is_trusted
    assert may_start_replay(Provenance.BROKER, verdict) is is_trusted


# (holds every producer of the log, was compared with it)
FILES = {
    "MATCHES": (True, True),
    "EXTENDS": (True, True),
    "SUSPECT": (False, True),
    "CORRUPT": (False, True),
    "MISSING": (False, False),
    "UNVERIFIED": (False, False),
    "NOT_COMPARED": (False, False),
}


@pytest.mark.parametrize("verdict", SnapshotVerdict)
def test_a_file_is_trusted_and_compared_by_its_verdict(verdict: SnapshotVerdict) -> None:
    assert (verdict.is_trusted, verdict in COMPARED) == FILES[verdict]


def test_only_a_scan_window_leaves_the_log_before_a_snapshot_unread() -> None:
    of_window = {each for each in Provenance if each.is_of_window}
    assert of_window == {Provenance.BROKER_UNVERIFIED, Provenance.COMPUTED_WITHIN_WINDOW}


def test_a_claim_with_unknown_words_starts_no_replay() -> None:
    assert not may_start_replay("MADE_UP", "MATCHES")
    assert not may_start_replay("BROKER", "")
