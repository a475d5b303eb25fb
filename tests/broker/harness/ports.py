"""Ports on loopback for brokers that come and go."""

from __future__ import annotations

import contextlib
import random
import socket

PORTS = range(20_000, 32_000)


def free_ports(count: int) -> list[int]:
    """Ports on loopback that nobody listens on, all different.

    Below the range that the kernel hands out: a client that keeps trying to reach a stopped broker on a port of that
    range may be given this very port for its own end, and be connected to itself.
    """
    ports: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            ports.append(port)
        if len(ports) == count:
            return ports
    raise AssertionError(f"not {count} free ports in {PORTS}")


def listens(port: int) -> bool:
    """Whether somebody accepts connections on 127.0.0.1:`port`."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0
