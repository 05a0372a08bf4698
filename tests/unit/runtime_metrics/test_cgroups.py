"""Memory of control groups, both versions. The tests make the folders: the kernel's own cannot be limited here."""

from __future__ import annotations

import pytest

from otel_rl.runtime_metrics.cgroups import ROOT, SELF, MemoryGroup

MIB = 1 << 20


@pytest.fixture
def made(tmp_path):
    """Write files below a root, and a line of ``/proc/self/cgroup``; returns the group."""

    def make(own, files):
        for name, text in files.items():
            path = tmp_path / "root" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")
        (tmp_path / "cgroup").write_text(own)
        return MemoryGroup(tmp_path / "root", tmp_path / "cgroup")

    return make


def test_version_2_tells_usage_limit_and_events(made):
    group = made(
        "0::/job/step\n",
        {
            "job/step/memory.current": 300 * MIB,
            "job/step/memory.max": 512 * MIB,
            "job/step/memory.events": "low 0\nhigh 3\nmax 7\noom 1\noom_kill 1\noom_group_kill 0",
        },
    )
    assert group.exists
    assert (group.usage, group.limit) == (300 * MIB, 512 * MIB)
    assert group.events == {"high": 3, "max": 7, "oom": 1, "oom_kill": 1}


def test_a_limit_of_a_group_around_it_counts_where_it_is_less(made):
    group = made(
        "0::/job/step\n",
        {
            "job/step/memory.current": 1,
            "job/step/memory.max": "max",
            "job/memory.max": 256 * MIB,
            "memory.max": 512 * MIB,
        },
    )
    assert group.limit == 256 * MIB


def test_without_a_limit_there_is_none(made):
    group = made("0::/job\n", {"job/memory.current": 5, "job/memory.max": "max"})
    assert (group.usage, group.limit, group.events) == (5, None, {})


def test_inside_a_container_the_mount_itself_is_the_group(made):
    group = made("0::/kubepods/pod7/abc\n", {"memory.current": 9, "memory.max": 10})
    assert (group.usage, group.limit) == (9, 10)


def test_version_1_tells_usage_limit_and_kills(made):
    group = made(
        "9:name=systemd:/\n4:cpu,cpuacct:/\n3:memory:/job\n0::/\n",
        {
            "memory/job/memory.usage_in_bytes": 300 * MIB,
            "memory/job/memory.limit_in_bytes": 512 * MIB,
            "memory/job/memory.failcnt": 4,
            "memory/job/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2",
        },
    )
    assert (group.usage, group.limit) == (300 * MIB, 512 * MIB)
    assert group.events == {"max": 4, "oom_kill": 2}


def test_version_1_without_a_limit_has_the_largest_number(made):
    files = {"memory/memory.usage_in_bytes": 5, "memory/memory.limit_in_bytes": 9223372036854771712}
    assert made("3:memory:/process/1\n", files).limit is None


@pytest.mark.parametrize("own", ["", "nonsense\n", "0::/\n", "3:memory:/job\n"])
def test_where_nothing_is_mounted_there_is_nothing(made, own):
    group = made(own, {})
    assert (group.exists, group.usage, group.limit, group.events) == (False, None, None, {})


def test_files_that_cannot_be_read_are_no_error(made):
    group = made(
        "0::/\n", {"memory.current": "?", "memory.max": "-3", "memory.events": "oom_kill\nmax x\noom 1 2\nhigh 8"}
    )
    assert (group.usage, group.limit, group.events) == (None, None, {"high": 8})


@pytest.mark.skipif(not SELF.exists() or not ROOT.exists(), reason="no control groups")
def test_the_group_of_this_process_is_read_without_an_error():
    group = MemoryGroup()
    assert not group.exists or (group.usage or 0) > 0
