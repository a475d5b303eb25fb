"""Errors as tables and tasks keep them: what was recorded of one gives one of the same kind again."""

from __future__ import annotations

import pickle
from dataclasses import fields

import pytest

from tiersnap.remote_storage.errors import ClaimedError, CorruptSegmentError, OtherLayoutError
from tiersnap.snapshot.errors import (
    RECORDED,
    CorruptDataError,
    GateError,
    NewerFormatError,
    ObjectExistsError,
    RecordedError,
    RemoteStorageError,
    TiersnapError,
    TransientError,
    UnfinishedError,
    UsageError,
    failure,
    names_of,
)

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ClaimedError("held", hint="later"), TransientError),
        (TransientError("no answer", hint="again"), TransientError),
        (CorruptSegmentError("torn", hint="look"), CorruptDataError),
        (CorruptDataError("damaged", hint="look"), CorruptDataError),
        (OtherLayoutError("refused", hint="the other"), GateError),
        (GateError("refused", hint="the other"), GateError),
        (UsageError("no such place", hint="give another"), UsageError),
        (RemoteStorageError("the server denied", hint="ask for it"), UsageError),
        (NewerFormatError("a newer tiersnap wrote", hint="update"), UsageError),
        (ObjectExistsError("other content", hint="look"), GateError),
        (UnfinishedError("a part failed", hint="look"), UnfinishedError),
    ],
)
def test_what_was_recorded_of_an_error_gives_one_of_its_kind_with_the_same_words(
    error: TiersnapError, kind: type[TiersnapError]
) -> None:
    kept = RecordedError.of(error, error.message)
    assert kept == RecordedError(error.message, kind is TransientError, type(error).__name__, error.hint)
    again = kept.raised
    assert (type(again), again.message, again.hint) == (kind, error.message, error.hint)


@pytest.mark.parametrize(
    ("told", "kind", "hint"),
    [
        ({"is_transient": True}, TransientError, "run the same command again"),
        ({"is_transient": False, "error_type": "CorruptSnapshotError"}, CorruptDataError, "tiersnap runbook 5"),
        ({"is_transient": False, "error_type": "GateError"}, GateError, "tiersnap runbook 4"),
        ({"is_transient": False, "error_type": "KeyError"}, UnfinishedError, "tiersnap runbook 6"),
        ({"is_transient": False}, UnfinishedError, "tiersnap runbook 6"),
    ],
)
def test_an_error_without_a_hint_is_given_where_to_read_on(
    told: dict[str, object], kind: type[TiersnapError], hint: str
) -> None:
    error = failure("it failed", **told)  # type: ignore[arg-type]
    assert type(error) is kind
    assert hint in error.hint


def test_columns_of_an_error_are_those_of_its_record() -> None:
    assert ("error", *RECORDED) == tuple(each.name for each in fields(RecordedError))


def test_names_of_a_kind_are_those_that_end_with_its_exit_code_however_far_below() -> None:
    damage, refusals = names_of(CorruptDataError), names_of(GateError)
    assert {"CorruptDataError", "CorruptSnapshotError", "CorruptSegmentError", "LostCopyError"} <= damage
    assert "NewerFormatError" not in damage
    assert {"GateError", "MissingProducerSnapshotError", "OtherLayoutError", "SegmentHoleError"} <= refusals
    assert damage.isdisjoint(refusals)


def test_an_error_comes_through_a_process_pool_with_all_that_it_says() -> None:
    error = ClaimedError("held", hint="later", key="claims/1", age=3)
    again = pickle.loads(pickle.dumps(error))
    assert again.as_dict() == error.as_dict()
    assert again.as_dict() == {
        "type": "ClaimedError",
        "message": "held",
        "hint": "later",
        "attrs": {"key": "claims/1", "age": 3},
    }
