"""How often `tier` makes each form of a segment."""

from pathlib import Path

from tests.trace_tier import BUNDLED, traced_tier


def test_tier_makes_each_form_of_a_segment_once(tmp_path: Path) -> None:
    trace, tiered = traced_tier(BUNDLED, tmp_path)
    listed = trace.made["Segment"]
    assert tiered == 18
    assert {name: trace.made[name] for name in ("SegmentBundle", "RemoteLogSegmentMetadata", "CopyEvent")} == {
        "SegmentBundle": tiered,
        "RemoteLogSegmentMetadata": tiered,
        "CopyEvent": 3 * tiered,  # started, finished, and finished with the bytes that were sent
    }
    # Judged before and after it was tiered.
    assert trace.made["SegmentReadiness"] == listed + tiered
