"""The end of a file: lines backwards, and what its last bytes say."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from otel_rl.store.reader import tails

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 64])
def test_lines_come_backwards_whatever_the_size_of_the_pieces_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(tails, "_CHUNK", chunk)
    dice, path = random.Random(chunk), tmp_path / "file"  # noqa: S311 - repeatable on purpose
    for _ in range(50):
        path.write_bytes(b"".join(dice.choice([b"a", b"b", b"\n", b"cc"]) for _ in range(dice.randrange(60))))
        lines = path.read_bytes().splitlines(keepends=True)
        assert list(tails.lines_from_end(path)) == lines[::-1]
        some = list(tails.lines_from_end(path, most=20))
        assert some == lines[::-1][: len(some)]
        assert sum(map(len, some)) <= 20
        assert tails.end_of_lines(path) == path.read_bytes().rfind(b"\n") + 1


def test_nothing_but_the_end_of_a_large_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as stream:
        stream.truncate(2**40)  # a hole: to read it would take hours
        stream.seek(0, 2)
        stream.write(b'\n{"timeUnixNano":"1795720151396283769"}\n')
    assert next(tails.lines_from_end(path, most=1000)) == b'{"timeUnixNano":"1795720151396283769"}\n'
    assert tails.last_moment(path) == 1795720151396283769


def test_a_moment_and_a_step_are_found_in_half_a_line_and_not_in_a_text_of_the_program(tmp_path: Path) -> None:
    path = tmp_path / "file"
    forged = r"{\"key\":\"rl.loop.iteration\",\"value\":{\"intValue\":\"99\"}} \"timeUnixNano\":\"1999999999999999999\""
    step = '{"key":"rl.loop.iteration","value":{"intValue":"7"}}'
    path.write_text(f'"timeUnixNano":"1795720151396283769","attributes":[{step},{{"key":"text","value":"{forged}')
    assert tails.last_step(path) == 7
    assert tails.last_moment(path) == 1795720151396283769


def test_a_file_that_is_gone_says_nothing(tmp_path: Path) -> None:
    assert (tails.last_moment(tmp_path / "none"), tails.last_step(tmp_path / "none")) == (0, None)
    assert tails.end_of_lines(tmp_path / "none") == 0
