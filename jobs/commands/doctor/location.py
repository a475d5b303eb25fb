"""The checks of `doctor` about the remote location: whether brokers read it, and whether its store is safe."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from tiersnap.jobs.situation.situation import NO_LOCATION
from tiersnap.remote_storage.publish.location_proof import NAME_THE_PLACE, LocationState

if TYPE_CHECKING:
    from tiersnap.jobs.commands.doctor.cluster import Compared
    from tiersnap.jobs.situation.remote_view import RemoteView
    from tiersnap.jobs.situation.situation import Situation
    from tiersnap.remote_storage.publish.location_proof import LocationVerdict
    from tiersnap.remote_storage.stores.probe_answer import ProbeAnswer


@dataclass(frozen=True, slots=True)
class JudgedLocation:
    """The verdict whether brokers read the remote location."""

    state: LocationState
    sentence: Annotated[str, Meta(description="whether brokers read the remote location, and the evidence")]

    @property
    def is_contradicted(self) -> bool:
        """Return whether brokers read another location."""
        return self.state is LocationState.CONTRADICTED

    def lines(self) -> Iterator[str]:
        """Yield the verdict and the evidence for it. If brokers read another location, yield the next step too."""
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


def view_to_ask(situation: Situation, compared: Compared | None, location: JudgedLocation | None) -> RemoteView:
    """Return the remote location with the brokers' layout. Leave out the URI if brokers read another location."""
    view = situation.remote.value or NO_LOCATION
    if location is not None and location.is_contradicted:
        view = replace(view, remote=None)
    if compared is not None:
        view = replace(view, layout=compared.layout)
    return view


def probe_location(view: RemoteView) -> list[ProbeAnswer]:
    """Probe the store of the remote location, and return the answers; no answers without a location."""
    from tiersnap.remote_storage.stores.open_store import open_existing_store
    from tiersnap.remote_storage.stores.probe import probe_store

    if view.remote is None:
        return []
    return list(probe_store(open_existing_store(view.remote, view.stores)))
