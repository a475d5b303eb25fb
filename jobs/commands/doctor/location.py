"""The answer of `doctor` whether brokers read the remote location that was named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from tiersnap.remote_storage.publish.location_proof import NAME_THE_PLACE, LocationState

if TYPE_CHECKING:
    from tiersnap.jobs.situation.situation import Situation
    from tiersnap.remote_storage.publish.location_proof import LocationVerdict


@dataclass(frozen=True, slots=True)
class JudgedLocation:
    """State of the remote location."""

    state: LocationState
    sentence: Annotated[str, Meta(description="with the evidence")]

    @property
    def is_contradicted(self) -> bool:
        """Return whether brokers read another location."""
        return self.state is LocationState.CONTRADICTED

    def lines(self) -> Iterator[str]:
        """Yield the lines for people: state, reason, and the next step after a contradiction."""
        yield f"{self.state}: {self.sentence}"
        if self.is_contradicted:
            yield NAME_THE_PLACE


def judge_location(situation: Situation, verdict: LocationVerdict | None) -> JudgedLocation | None:
    """Return the state of the location by the broker of this host, or as the cluster shows; None if neither is known.

    Args:
        verdict: of the cluster; None if it was not asked.
    """
    if situation.remote.value is None:
        return None
    if verdict is not None:
        return _of(verdict)
    found = situation.verdict(situation.remote.value.location())
    return None if found.state is LocationState.UNPROVEN else _of(found)


def _of(verdict: LocationVerdict) -> JudgedLocation:
    return JudgedLocation(verdict.state, verdict.sentence)
