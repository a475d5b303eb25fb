"""Where a run writes, by its settings; OpenLineage names these places as its outputs."""

from __future__ import annotations

import pytest

from tiersnap.jobs.pipeline.settings import RunSettings

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("apply", "no_upload", "outputs"),
    [
        (False, False, ()),
        (False, True, ()),
        (True, True, ("s3://lake/tables",)),
        (True, False, ("s3://bucket/tiers", "s3://lake/tables")),
    ],
)
def test_outputs_of_a_run_are_the_places_that_it_writes(
    outputs: tuple[str, ...], *, apply: bool, no_upload: bool
) -> None:
    settings = RunSettings(("/logs",), "s3://bucket/tiers", "s3://lake/tables", apply=apply, no_upload=no_upload)
    assert settings.outputs == outputs
