"""The process and its node as the kernel tells them, and a kernel that does not."""

from __future__ import annotations

import os
import threading

import pytest

from otel_rl.runtime_metrics import host


def test_memory_grows_by_what_the_process_takes():
    resident, virtual = host.process_memory()
    taken = bytearray(64 << 20)
    taken[:: os.sysconf("SC_PAGE_SIZE")] = b"x" * len(taken[:: os.sysconf("SC_PAGE_SIZE")])
    later, _ = host.process_memory()

    assert virtual >= resident > 0
    assert later - resident > 48 << 20


def test_a_thread_and_a_descriptor_more_are_counted():
    threads, descriptors = host.process_threads(), host.process_descriptors()
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    reading, writing = os.pipe()
    try:
        assert host.process_threads() >= threads + 1
        assert host.process_descriptors() >= descriptors + 2
    finally:
        end.set()
        thread.join()
        os.close(reading)
        os.close(writing)


def test_cpu_time_has_its_modes():
    assert set(host.process_cpu()) == {"user", "system"}
    node = host.node_cpu()
    assert set(node) == {"user", "system", "idle", "iowait", "steal"}
    assert node["user"] > 0


def test_the_states_of_memory_add_up_to_what_the_node_has():
    total, states = host.node_memory()
    assert sum(states.values()) == pytest.approx(total, rel=0.02)


def test_the_memory_of_the_node_is_in_bytes():
    total, _ = host.node_memory()
    assert total == pytest.approx(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), rel=0.02)


def test_without_proc_nothing_is_told_and_nothing_raised(tmp_path):
    assert host.process_memory(tmp_path) is None
    assert host.process_threads(tmp_path) is None
    assert host.process_descriptors(tmp_path) is None
    assert host.node_cpu(tmp_path) == {}
    assert host.node_memory(tmp_path) is None


@pytest.mark.parametrize("text", ["", "MemTotal:\n", "MemTotal: x kB\nMemFree: 1 kB\n", "Other: 1 kB\n"])
def test_a_file_of_another_form_tells_nothing(tmp_path, text):
    (tmp_path / "meminfo").write_text(text)
    assert host.node_memory(tmp_path) is None
