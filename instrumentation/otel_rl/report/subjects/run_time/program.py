"""The program of the run, as the leading process recorded it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from otel_rl.report.core import human
from otel_rl.report.subjects.run_time.aggregate import FACTS
from otel_rl.semconv import attributes as names

if TYPE_CHECKING:
    from otel_rl.store.reader import Log

#: Characters of the command line in the head of the page.
_LONGEST_COMMAND = 400
_SHORT_COMMIT = 12


class Program:
    """The event on the program, of the latest attempt; of several processes that of a trainer."""

    def __init__(self) -> None:
        self._attributes: dict[str, Any] = {}
        self._order: tuple[Any, ...] = ()

    def add_log(self, log: Log) -> None:
        """Take in the event; other log records are ignored."""
        if log.event not in FACTS or names.PROCESS_CREATION_TIME not in log.attributes:
            return
        order = log.process.attempt, names.RL_RUN_SEED in log.attributes, log.time
        if order >= self._order:
            self._order, self._attributes = order, dict(log.attributes)

    @property
    def command(self) -> str | None:
        """The program and its arguments as a shell takes them; None where they were not recorded."""
        values = self._list(names.PROCESS_COMMAND_ARGS)
        # What was removed stays readable.
        words = [value if "***" in value and " " not in value else shlex.quote(value) for value in values]
        command = " ".join(words)
        return (command if len(command) <= _LONGEST_COMMAND else f"{command[:_LONGEST_COMMAND]} ...") or None

    def facts(self) -> list[tuple[str, str | None]]:
        """Return (name, value) for the head of the page; None for what is not known."""
        commit = self._text(names.VCS_REF_HEAD_REVISION)
        return [
            ("Model", self._text(names.RL_MODEL_NAME)),
            ("Data set", self._text(names.RL_DATASET_NAME)),
            ("Seed", self._text(names.RL_RUN_SEED)),
            ("Commit", commit and commit[:_SHORT_COMMIT]),
            ("Versions", human.listed(self._list(names.RL_RUN_LIBRARY_VERSIONS))),
        ]

    def _text(self, name: str) -> str | None:
        value = self._attributes.get(name)
        return None if value is None else str(value)

    def _list(self, name: str) -> list[str]:
        value = self._attributes.get(name)
        return [str(item) for item in value] if isinstance(value, list) else []
