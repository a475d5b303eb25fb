"""The rules by which `mend` decides whether producers have expired."""

from __future__ import annotations

from dataclasses import dataclass

from tiersnap.snapshot.replay.expiry import BrokerExpiry, Expiry


@dataclass(frozen=True, slots=True)
class MendRules:
    """The expiry rules of a run. `producer_expiration` is the broker's producer.id.expiration.ms."""

    expiry: Expiry
    producer_expiration: int | None

    @property
    def now(self) -> int:
        """Return the time of the run, ms."""
        return self.expiry.now

    @property
    def broker_expiry(self) -> BrokerExpiry:
        """Return the rule by which a broker drops producers at the time of the run."""
        return BrokerExpiry(self.now, self.producer_expiration)
