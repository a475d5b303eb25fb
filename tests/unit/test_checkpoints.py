"""The text files of a log directory: what Kafka writes is read, and what it would refuse is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiersnap.snapshot.errors import CorruptCheckpointError
from tiersnap.snapshot.formats import checkpoints

pytestmark = pytest.mark.unit

LARGEST = (1 << 63) - 1
topics = st.text("abcXYZ019._-", min_size=1, max_size=249)
offsets = st.dictionaries(st.tuples(topics, st.integers(0, (1 << 31) - 1)), st.integers(-1, LARGEST), max_size=8)


@given(offsets)
def test_offsets_are_read_as_they_were_written(entries: dict[tuple[str, int], int]) -> None:
    assert checkpoints.parse_offsets(checkpoints.format_offsets(entries), name="f") == entries


@given(st.dictionaries(st.integers(0, (1 << 31) - 1), st.integers(0, LARGEST), max_size=8))
def test_leader_epochs_are_read_as_they_were_written(entries: dict[int, int]) -> None:
    epochs = tuple(zip(sorted(entries), sorted(entries.values()), strict=True))
    assert checkpoints.parse_leader_epochs(checkpoints.format_leader_epochs(epochs), name="f") == epochs


@pytest.mark.parametrize(
    "text",
    [
        "1\n0\n",
        "0\n",
        "0\nx\n",
        "0\n²\n",
        "0\n-1\n",
        "0\n2\norders 0 1\n",
        "0\n1\norders 0\n",
        "0\n1\norders 0 1 2\n",
        "0\n1\norders zero 1\n",
        "0\n1\norders 0 9223372036854775808\n",
        "0\n1\norders 0 " + "9" * 400 + "\n",
    ],
)
def test_other_offsets_are_corrupt(text: str) -> None:
    with pytest.raises(CorruptCheckpointError, match="f:"):
        checkpoints.parse_offsets(text, name="f")


def test_an_empty_file_holds_no_entries() -> None:
    assert checkpoints.parse_offsets("", name="f") == {}
    assert checkpoints.parse_leader_epochs("", name="f") == ()


@pytest.mark.parametrize(
    "lines", [["-1 0"], ["0 -1"], ["2147483648 0"], ["1 0", "1 5"], ["2 0", "1 5"], ["1 5", "2 4"], ["1"], ["1 2 3"]]
)
def test_other_leader_epochs_are_corrupt(lines: list[str]) -> None:
    with pytest.raises(CorruptCheckpointError, match="f:"):
        checkpoints.parse_leader_epochs("\n".join(["0", str(len(lines)), *lines]) + "\n", name="f")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "version: 0",
        "version: -1\ntopic_id: lZ6vvmajTWKDBUTV6SQAtQ",
        "version: x\ntopic_id: lZ6vvmajTWKDBUTV6SQAtQ",
        "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        "version: 0\ntopic_id: lZ6vvmajTWKDBUTV6SQAtQ==",
        "version: 0\ntopic_id: lZ6vvmajTWKDBUTV6SQAtR",  # bits that no 16 bytes give
        "version: 0\ntopic_id: lZ6vvmajTWKDBUTV6SQA+Q",
        "\ufffd\ufffd\x00",
    ],
)
def test_other_metadata_is_corrupt(text: str) -> None:
    with pytest.raises(CorruptCheckpointError, match="f:"):
        checkpoints.parse_topic_id(text, name="f")


@given(st.binary(min_size=16, max_size=16).filter(any))
def test_a_topic_id_is_read_as_it_was_written(raw: bytes) -> None:
    import base64

    topic_id = base64.urlsafe_b64encode(raw).decode().rstrip("=")
    assert checkpoints.is_topic_id(topic_id)
    assert checkpoints.parse_topic_id(checkpoints.format_topic_id(topic_id), name="f") == topic_id
