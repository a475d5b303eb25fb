"""docs/compatibility.md, made of the tests that pytest collects, their markers and parameters: `make compatibility`."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests import tier_counts
from tests.broker.harness import jars
from tests.broker.harness.releases import Release
from tests.broker.harness.tiering import AivenTier, LocalTier

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "compatibility.md"
NOT_TRIED = "not tried"
_STORES = {
    "directory": "a directory on a local disk",
    "s3": "S3 API of moto, over HTTP",
    "s3-compat": "the same with `--checksums compat`",
    "versitygw": "versitygw, which compares checksums",
    "Amazon S3, MinIO, Ceph, Google Cloud Storage, Azure Blob Storage": "",
}
_LAYOUTS = (LocalTier.layout, AivenTier.layout)
_SPARK = {
    "this host": "test_main_job.py",
    "a standalone cluster, by spark-submit": "test_standalone.py",
    "Spark Connect": "test_connect.py",
    "a warehouse on S3, by S3A": "test_warehouse_on_s3.py",
    "YARN, Kubernetes": "",
}
_TOP = """# Compatibility

Read this page to see whether your versions were tested. The tables name a test for each version. *Nightly* tests run in
`make nightly`, the others in CI. `make compatibility` writes this page. Versions that it does not list were not tested.
"""


def page(items: Sequence[pytest.Item]) -> str:
    """Return the text."""
    spark = next(each for each in _extra("spark") if each.startswith("pyspark"))
    return "\n".join(
        [
            _TOP,
            "## Brokers and storage managers\n",
            *_table(("Kafka", "LocalTieredStorage", "Aiven plugin 1.0.0", "other tests"), _brokers(items)),
            "\nKafka below 3.6 has no tiered storage. tiersnap repairs its logs, and tiers them for a later broker.\n",
            "## Stores\n",
            *_table(("store", "tried by"), _by_param(items)),
            f"\n## Spark\n\ntiersnap needs `{spark}`, and the Delta Lake release of `pyproject.toml`. The tests below "
            "use the Spark release of\n`uv.lock`. "
            "Tests of exactness also run nightly with 4.1 (`make nightly-spark`).\n",
            *_table(("where", "tried by"), _by_file(items)),
            "",
        ]
    )


def _brokers(items: Sequence[pytest.Item]) -> Iterator[tuple[str, ...]]:
    for version in sorted({*jars.VERSIONS, *jars.NIGHTLY}, key=lambda text: [int(part) for part in text.split(".")]):
        by_layout = ([each for each in items if _release(each) == (version, layout)] for layout in _LAYOUTS)
        others = [each for each in items if _release(each) is None and version in _versions(each)]
        yield (version, *map(_cell, by_layout), _cell(others))


def _release(item: pytest.Item) -> tuple[str, str] | None:
    """Version and layout of a test that runs on several releases."""
    found = getattr(item, "callspec", None)
    release = None if found is None else found.params.get("release")
    return (release.version, release.layout) if isinstance(release, Release) else None


def _versions(item: pytest.Item) -> set[str]:
    return {version for marker in item.iter_markers("kafka") for version in marker.args}


def _by_param(items: Sequence[pytest.Item]) -> Iterator[tuple[str, str]]:
    of_contract = [each for each in items if each.path.name == "test_object_store_contract.py"]
    for param, name in _STORES.items():
        yield name or param, _cell([each for each in of_contract if re.search(rf"\[{param}[\]-]", each.name)])


def _by_file(items: Sequence[pytest.Item]) -> Iterator[tuple[str, str]]:
    for where, name in _SPARK.items():
        yield where, _cell([each for each in items if each.path.name == name])


def _cell(items: Sequence[pytest.Item]) -> str:
    """Return the first test by name, one of each push before a nightly one."""
    first = min(items, key=_is_nightly, default=None)
    return NOT_TRIED if first is None else f"`{_name(first)}`{', nightly' if _is_nightly(first) else ''}"


def _is_nightly(item: pytest.Item) -> bool:
    return item.get_closest_marker("nightly") is not None


def _name(item: pytest.Item) -> str:
    return f"{item.path.relative_to(ROOT / 'tests')}::{getattr(item, 'originalname', item.name)}"


def _table(headings: Sequence[str], rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    for row in (headings, ["---"] * len(headings), *rows):
        yield f"| {' | '.join(row)} |"


def _extra(name: str) -> list[str]:
    found: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"][name]
    return found


def main() -> None:
    """Write the page; with --check, compare it and the counts of docs/contributing with the tests instead."""
    items = tier_counts.collect(*tier_counts.SIDE_TIERS)
    text = page(items)
    if "--check" not in sys.argv:
        PAGE.write_text(text, encoding="utf-8")
        return
    wrong = [] if PAGE.read_text(encoding="utf-8") == text else [f"{PAGE}: stale; next: make compatibility"]
    wrong += tier_counts.differences(tier_counts.counts(items), tier_counts.documented())
    sys.exit("\n".join(wrong) or 0)


if __name__ == "__main__":
    main()
