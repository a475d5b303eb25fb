"""The part of `doctor` that checks whether brokers read the remote location."""

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
    """The verdict whether brokers read the remote location."""

    state: LocationState
    sentence: Annotated[str, Meta(description="the state, and the evidence for it")]

    @property
    def is_contradicted(self) -> bool:
        """Return whether brokers read another location."""
        return self.state is LocationState.CONTRADICTED

    def lines(self) -> Iterator[str]:
        """Yield the state with its evidence. If brokers read another location, yield the next step too."""
        yield f"{self.state}: {self.sentence}"
        if self.is_contradicted:
            yield NAME_THE_PLACE


def judge_location(situation: Situation, verdict: LocationVerdict | None) -> JudgedLocation | None:
    """Return the verdict on the remote location; None without a location or without evidence.

    Args:
        situation: has the settings of the broker on this host. They are the evidence if `verdict` is None.
        verdict: the verdict of a comparison with the cluster; None without a comparison.
    """
    if situation.remote.value is None:
        return None
    if verdict is not None:
        return _of(verdict)
    found = situation.verdict(situation.remote.value.location())
    if found.state is LocationState.UNPROVEN:
        return None
    return _of(found)


def _of(verdict: LocationVerdict) -> JudgedLocation:
    return JudgedLocation(verdict.state, verdict.sentence)
