"""Judge a bucket's lifecycle rules for the objects below a prefix. Pure: rules as S3 gives them in, answers out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tiersnap.remote_storage.stores.probe_answer import ProbeAnswer, ProbeVerdict
from tiersnap.snapshot.units import count_of

_NAME = "lifecycle rules"
_OFFLINE = frozenset({"GLACIER", "DEEP_ARCHIVE"})  # objects there must be brought back before anybody reads them
_NO_ABORT = "no rule aborts unfinished uploads, which cost money unseen"
_ADD_ABORT = "add AbortIncompleteMultipartUpload of 7 days; tiersnap maintain remove-orphans ends those of tiersnap"


def judge_rules(rules: Sequence[Mapping[str, Any]], prefix: str) -> Iterator[ProbeAnswer]:
    """Yield answers about the rules for untagged objects whose keys begin with `prefix`; at least one.

    Args:
        rules: of S3's GetBucketLifecycleConfiguration.
    """
    ours = [rule for rule in rules if rule.get("Status") == "Enabled" and _reaches(rule, prefix)]
    bad = [answer for rule in ours for answer in _harm(rule)]
    yield from bad
    if not any("AbortIncompleteMultipartUpload" in rule for rule in ours):
        yield ProbeAnswer(_NAME, ProbeVerdict.WARN, _NO_ABORT, _ADD_ABORT)
    elif not bad:
        yield ProbeAnswer(_NAME, ProbeVerdict.OK, "none deletes segments or moves them out of reach")


def _harm(rule: Mapping[str, Any]) -> Iterator[ProbeAnswer]:
    name = f"the rule {rule.get('ID', '')!r}"
    expiration = rule.get("Expiration", {})
    if "Days" in expiration or "Date" in expiration:
        said = f"{name} deletes segments {_when(expiration)}, and no broker is told"
        step = "take the prefix out of the rule: retention.ms, or tiersnap expire, deletes"
        yield ProbeAnswer(_NAME, ProbeVerdict.FAIL, said, step)
    for transition in rule.get("Transitions", []):
        if transition.get("StorageClass") in _OFFLINE:
            said = f"{name} moves segments to {transition['StorageClass']} {_when(transition)}, where no broker reads"
            yield ProbeAnswer(_NAME, ProbeVerdict.FAIL, said, "use STANDARD_IA or GLACIER_IR, which are read at once")


def _when(action: Mapping[str, Any]) -> str:
    return f"after {count_of(action['Days'], 'day')}" if "Days" in action else f"on {action.get('Date')}"


def _reaches(rule: Mapping[str, Any], prefix: str) -> bool:
    """Return whether a rule applies to some of the objects, none of which has tags."""
    wanted = rule.get("Filter", {})
    wanted = {**wanted, **wanted.get("And", {})}
    if "Tag" in wanted or wanted.get("Tags"):
        return False
    of_rule = str(wanted.get("Prefix") or rule.get("Prefix") or "")
    return of_rule.startswith(prefix) or prefix.startswith(of_rule)
