"""A port chosen for a server that starts a moment later is still free then."""

from __future__ import annotations

import socket
from pathlib import Path

import loopback_ports
import pytest


def test_no_port_is_one_that_the_system_gives_to_clients():
    of_clients = Path("/proc/sys/net/ipv4/ip_local_port_range")
    if not of_clients.exists():
        pytest.skip("this system does not tell the range of its clients")
    lowest = int(of_clients.read_text().split()[0])
    if lowest < loopback_ports.END:
        pytest.skip(f"clients of this machine have ports from {lowest} on")
    assert all(port < lowest for port in loopback_ports.free_ports(200))


def test_ports_of_several_calls_differ():
    ports = loopback_ports.free_ports(50) + loopback_ports.free_ports(50)
    assert len(set(ports)) == 100


def test_port_of_a_server_is_left_out(monkeypatch: pytest.MonkeyPatch):
    taken, following = loopback_ports.free_ports(2)
    monkeypatch.setattr(loopback_ports, "_ports", iter([taken, following]))
    with socket.socket() as server:
        server.bind(("127.0.0.1", taken))
        server.listen()
        assert loopback_ports.free_ports(1) == [following]
