"""The rules of time by which `mend` judges producers."""

from __future__ import annotations

from dataclasses import dataclass

from tiersnap.snapshot.replay.expiry import BrokerExpiry, Expiry


@dataclass(frozen=True, slots=True)
class MendRules:
    """The rules of time: see Expiry; `producer_expiration` is the broker's, in ms."""

    expiry: Expiry
    producer_expiration: int | None

    @property
    def now(self) -> int:
        """Return the run's time, ms."""
        return self.expiry.now

    @property
    def broker_expiry(self) -> BrokerExpiry:
        """Return the rule by which a broker drops producers now."""
        return BrokerExpiry(self.now, self.producer_expiration)
