"""Options of `tiersnap risk`: what the numbers are reckoned with."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import click

from tiersnap.jobs.old_options import common as params
from tiersnap.jobs.old_options.release import BrokerRelease
from tiersnap.jobs.old_options.together import with_options
from tiersnap.snapshot.exactly_once.models.broker_eras import BROKER_ERAS, BrokerEra
from tiersnap.snapshot.exactly_once.risk.partition_risk import DEFAULT_READ_RATE, RiskSettings
from tiersnap.snapshot.exactly_once.risk.waiting import Retention

_MB = 1_000_000


def risk_options(command: Callable[..., object]) -> Callable[..., object]:
    """They are given to the command as `settings: RiskSettings`."""

    @wraps(command)
    def with_settings(
        *args: object,
        retention: int | None,
        retention_bytes: int | None,
        delivery_timeout: int | None,
        read_rate: int,
        tiering_enabled: bool,
        broker: BrokerEra | None,
        producer_expiration: int | None,
        now: int,
        **kwargs: object,
    ) -> object:
        settings = RiskSettings(
            now,
            producer_expiration,
            Retention(retention, retention_bytes),
            delivery_timeout or 0,
            read_rate * _MB,
            tiering_enabled,
            BROKER_ERAS[-1] if broker is None else broker,
        )
        return command(*args, settings=settings, **kwargs)

    return with_options(with_settings, _OPTIONS)


_OPTIONS: tuple[Callable[[Callable[..., object]], Callable[..., object]], ...] = (
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
    click.option(
        "--broker", type=BrokerRelease(), help="Brokers of this release append again, as 3.9.  [default: the newest]"
    ),
    params.producer_expiration_option,
    params.now_option,
)
