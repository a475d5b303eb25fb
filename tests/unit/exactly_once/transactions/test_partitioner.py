"""The partition of `__transaction_state` that holds a transactional id."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiersnap.snapshot.exactly_once.transactions.coordinator import (
    MOST_PARTITIONS,
    likely_counts,
    partition_of,
    string_hash,
)

pytestmark = pytest.mark.unit

# Of Kafka 4.1.1: hash, partition of 50, partition of 3.
GOLDEN = {
    "my-txn": (-1061187895, 45, 1),
    "": (0, 0, 0),
    "a": (97, 47, 1),
    "polygenelubricants": (-2147483648, 0, 0),
    "tx-é": (3572704, 4, 1),
    "tx-😀": (112519500, 0, 0),
    "app-0_0": (-795167179, 29, 1),
    "app-1_12": (1119651099, 49, 0),
}


@pytest.mark.parametrize(("text", "expected"), GOLDEN.items())
def test_an_id_lies_where_kafka_puts_it(text: str, expected: tuple[int, int, int]) -> None:
    assert (string_hash(text), partition_of(text, 50), partition_of(text, 3)) == expected


def test_the_smallest_hash_counts_as_0_and_not_as_a_cleared_sign_bit_or_java_would_have_it() -> None:
    assert partition_of("polygenelubricants", 7) == 0
    assert 2**31 % 7 == 2


@given(st.sets(st.text(min_size=1, max_size=20), min_size=6, max_size=30), st.integers(2, 60))
def test_the_count_that_put_the_ids_there_is_among_the_likely_ones(ids: set[str], count: int) -> None:
    found_in = {each: partition_of(each, count) for each in ids}
    assert count in likely_counts(found_in, max(found_in.values()) + 1)


def test_without_ids_no_count_is_likelier_than_another() -> None:
    assert likely_counts({}, 3) == list(range(3, MOST_PARTITIONS + 1))


def test_a_few_misplaced_ids_do_not_hide_the_count() -> None:
    found_in = {f"app-{number}": partition_of(f"app-{number}", 50) for number in range(20)}
    found_in["moved"] = (partition_of("moved", 50) + 1) % 50
    assert likely_counts(found_in, 50) == [50]
