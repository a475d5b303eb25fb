"""Option types for releases of Kafka."""

from __future__ import annotations

import click

from tiersnap.snapshot.exactly_once.models.broker_eras import BROKER_ERAS, BrokerEra
from tiersnap.snapshot.exactly_once.models.client_eras import CLIENT_ERAS, ClientEra
from tiersnap.snapshot.exactly_once.models.eras import era_of


class BrokerRelease(click.ParamType[BrokerEra]):
    """A release such as 3.9 or 3.9.1, as the era of its brokers."""

    name = "release"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> BrokerEra:
        """Parse, or fail as a usage error."""
        if isinstance(value, BrokerEra):
            return value
        try:
            return era_of(str(value), BROKER_ERAS)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class ClientRelease(click.ParamType[ClientEra]):
    """A release such as 3.9 or 3.9.1, as the era of its Java clients."""

    name = "release"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> ClientEra:
        """Parse, or fail as a usage error."""
        if isinstance(value, ClientEra):
            return value
        try:
            return era_of(str(value), CLIENT_ERAS)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class KafkaRelease(click.ParamType[str]):
    """A release such as 3.9 or 3.9.1, as it is typed."""

    name = "release"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Parse, or fail as a usage error."""
        try:
            era_of(str(value), BROKER_ERAS)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return str(value)
