"""A broker with users: they log in by SASL/PLAIN on a listener of their own, and rules say what each of them may do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from tests.broker.harness.broker import Broker
from tests.broker.harness.disks import Disks
from tests.broker.harness.ports import free_ports
from tests.broker.harness.tiering import LocalTier
from tests.broker.harness.topics import SECONDS, admin_client

USER, PASSWORD = "tiersnap", "known-to-the-tests"
CLUSTER = "kafka-cluster"


class GuardedBroker(Broker):
    """A broker whose second listener wants a password; over the first one everything is allowed."""

    def __init__(
        self, disks: Disks, version: str, *, tier: LocalTier | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        clients, controller, users = free_ports(3)
        listeners = {"PLAINTEXT": clients, "CONTROLLER": controller, "SASL_PLAINTEXT": users}
        login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        guarded = {
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in listeners.items()),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{login} user_{USER}="{PASSWORD}";',
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
        super().__init__(disks, version, tier=tier, settings={**guarded, **(settings or {})})
        self._ports = clients, controller
        self.guarded = f"127.0.0.1:{users}"

    def command_config(self) -> Path:
        """Return the file with which USER logs in."""
        path = self.disks.root / "client.properties"
        values = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }
        path.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
        return path


def allow(broker: Broker, resource: str, operations: Iterable[AclOperation]) -> None:
    """Let USER do these operations to a topic, or to CLUSTER."""
    admin = admin_client(broker)
    at = (_kind(resource), resource, ResourcePatternType.LITERAL, f"User:{USER}", "*")
    rules = [AclBinding(*at, operation, AclPermissionType.ALLOW) for operation in operations]
    for created in admin.create_acls(rules).values():
        created.result(SECONDS)


def take_back(broker: Broker, resource: str, operation: AclOperation) -> None:
    """Take an operation that was allowed from USER."""
    admin = admin_client(broker)
    at = (_kind(resource), resource, ResourcePatternType.LITERAL, f"User:{USER}", "*")
    for deleted in admin.delete_acls([AclBindingFilter(*at, operation, AclPermissionType.ALLOW)]).values():
        assert len(deleted.result(SECONDS)) == 1


def _kind(resource: str) -> ResourceType:
    return ResourceType.BROKER if resource == CLUSTER else ResourceType.TOPIC
