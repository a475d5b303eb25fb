"""Options of `tiersnap simulate --risk`: what the numbers are reckoned with."""

from __future__ import annotations

from dataclasses import dataclass

import click

from tiersnap.jobs.old_options import common as params
from tiersnap.jobs.old_options.together import as_one
from tiersnap.snapshot.exactly_once.models.broker_eras import BROKER_ERAS, BrokerEra
from tiersnap.snapshot.exactly_once.risk.partition_risk import DEFAULT_READ_RATE, RiskSettings
from tiersnap.snapshot.exactly_once.risk.waiting import Retention

_MB = 1_000_000


@dataclass(frozen=True, slots=True)
class RiskRequest:
    """What was asked for; times in ms, `read_rate` in MB/s."""

    is_asked: bool
    boundaries: bool
    replicas: tuple[str, ...]
    limit: int
    retention: int | None
    retention_bytes: int | None
    tiering_enabled: bool
    delivery_timeout: int | None
    read_rate: int

    def settings(self, now: int, producer_expiration: int | None, broker: BrokerEra | None) -> RiskSettings:
        """Return the settings, with the times in ms and the brokers that all of `simulate` has."""
        return RiskSettings(
            now,
            producer_expiration,
            Retention(self.retention, self.retention_bytes),
            self.delivery_timeout or 0,
            self.read_rate * _MB,
            self.tiering_enabled,
            BROKER_ERAS[-1] if broker is None else broker,
        )


# Given to the command as `risk: RiskRequest`.
risk_options = as_one(
    "risk",
    RiskRequest,
    click.option(
        "--risk",
        "is_asked",
        is_flag=True,
        help="Instead, what the ways that KIP-952 rejected would cost the logs; the options below are for this.",
    ),
    click.option("--boundaries", is_flag=True, help="A row a segment's end instead of a row a partition."),
    click.option("--replica", "replicas", multiple=True, metavar="DIR", help="A log directory of another replica."),
    click.option(
        "--limit", type=click.IntRange(min=1), default=1000, show_default=True, help="Rows shown of a warehouse."
    ),
    click.option(
        "--retention",
        type=params.Duration(),
        default="7d",
        show_default=True,
        help="The topics' retention.ms; none keeps all.",
    ),
    click.option("--retention-bytes", type=click.IntRange(min=0), help="The topics' retention.bytes.  [default: none]"),
    click.option(
        "--tiering-enabled", is_flag=True, help="remote.storage.enable is true already: then waiting never ends."
    ),
    click.option(
        "--delivery-timeout",
        type=params.Duration(),
        default="2m",
        show_default=True,
        help="The producers' delivery.timeout.ms: for so long they send a batch again by themselves.",
    ),
    click.option(
        "--read-rate",
        type=click.IntRange(min=1),
        default=DEFAULT_READ_RATE // _MB,
        show_default=True,
        metavar="MB/S",
        help="Million bytes a second at which a log is replayed.",
    ),
)
