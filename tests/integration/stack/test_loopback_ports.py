"""A port chosen for a server that starts a moment later is still free then."""

from __future__ import annotations

import socket
from collections import deque
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
    monkeypatch.setattr(loopback_ports, "_ports", deque([taken, following]))
    with socket.socket() as server:
        server.bind(("127.0.0.1", taken))
        server.listen()
        assert loopback_ports.free_ports(1) == [following]


@pytest.fixture
def own_ports(monkeypatch: pytest.MonkeyPatch):
    """The ports of a process of its own, of which all are free."""
    monkeypatch.setattr(loopback_ports, "_is_free", lambda _: True)
    monkeypatch.setattr(loopback_ports, "_ports", loopback_ports._candidates())
    return loopback_ports.END - loopback_ports.FIRST


def test_no_port_comes_again_as_long_as_there_are_others(own_ports: int):
    found = [port for _ in range(own_ports) for port in loopback_ports.free_ports(1)]
    assert sorted(found) == [*range(loopback_ports.FIRST, loopback_ports.END)]
    assert loopback_ports.free_ports(1) == found[:1]


def test_a_process_begins_with_ports_that_few_others_have(own_ports: int):
    first = loopback_ports.free_ports(own_ports // loopback_ports.SHARES)
    assert len({port % loopback_ports.SHARES for port in first}) == 1


def test_all_ports_at_once_are_different(own_ports: int):
    assert len(set(loopback_ports.free_ports(own_ports))) == own_ports


def test_more_ports_than_are_free_are_an_error(own_ports: int, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(RuntimeError, match=rf"{own_ports} ports of 127\.0\.0\.1 .* {own_ports + 1} are needed"):
        loopback_ports.free_ports(own_ports + 1)
    monkeypatch.setattr(loopback_ports, "_is_free", lambda _: False)
    with pytest.raises(RuntimeError, match=r"^0 ports"):
        loopback_ports.free_ports(1)
    assert loopback_ports.free_ports(0) == []
