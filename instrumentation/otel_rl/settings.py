"""Every ``OTEL_RL_*`` environment variable, parsed once into one frozen object.

=================================  =========  =========================================================================
variable                           default    meaning
=================================  =========  =========================================================================
``OTEL_RL_RUN_ID``                 (made)     run id; otherwise the launcher's job id, otherwise made at start
``OTEL_RL_DATA_DIR``               ./otel-rl  the file store, used while no exporter or endpoint is configured
``OTEL_RL_QUIET``                  false      true: no summary line at the end
``OTEL_RL_CHILDREN``               launchers  Python children that record: ``launchers`` (ranks of torchrun,
                                              accelerate, deepspeed, Slurm and MPI, Ray workers, multiprocessing),
                                              ``all`` or ``none``
``OTEL_RL_FILE_MAX_BYTES``         64MiB      size at which a file of the store is rotated
``OTEL_RL_DATA_MAX_BYTES``         1GiB       most that one process writes; what comes after is counted as dropped
``OTEL_RL_EXIT_TIMEOUT``           1.5        seconds that the final delivery may delay the end of the process
``OTEL_RL_COLLECTIVES``            auto       recording of collectives: ``auto``, ``off`` or ``python``
``OTEL_RL_SLOWEST``                5          slowest collectives and tool calls kept per step
``OTEL_RL_WHOLE_STEPS``            100        all rollouts of every such iteration ask to be kept; 0 switches it off
``OTEL_RL_ROLE``                   (found)    role of this process: trainer, rollout, engine, tool, driver
``OTEL_RL_ALGORITHM``              (found)    algorithm of the run, e.g. grpo
``OTEL_RL_STATUS_FILE``            (none)     file that receives the state of every instrumentor as JSON at exit
``OTEL_RL_RAISE_INTERNAL_ERRORS``  false      true: errors of otel-rl itself surface (for its own tests)
=================================  =========  =========================================================================

A value that cannot be parsed costs one line on stderr, and the default is used.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from otel_rl.process.launch import write_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

CHILDREN = ("launchers", "all", "none")
COLLECTIVES = ("auto", "off", "python")
DEFAULT_DATA_DIRECTORY = "otel-rl"

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})
_LONGEST_EXIT = 3600
_UNITS = {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "kb": 10**3, "mb": 10**6, "gb": 10**9, "b": 1}


@dataclass(frozen=True)
class Settings:
    """The parsed variables; field ``x`` is ``OTEL_RL_X`` unless :data:`VARIABLES` says otherwise."""

    run_id: str | None = None
    data_directory: str = DEFAULT_DATA_DIRECTORY
    quiet: bool = False
    children: str = "launchers"
    file_max_bytes: int = 64 << 20
    data_max_bytes: int = 1 << 30
    exit_timeout: float = 1.5
    collectives: str = "auto"
    slowest: int = 5
    whole_steps: int = 100
    role: str | None = None
    algorithm: str | None = None
    status_file: str | None = None
    raise_internal_errors: bool = False


#: Environment variable -> field of :class:`Settings`.
VARIABLES = {
    f"OTEL_RL_{field.name.upper()}": field.name for field in fields(Settings) if field.name != "data_directory"
} | {"OTEL_RL_DATA_DIR": "data_directory"}


def _boolean(text: str) -> bool:
    lowered = text.lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    raise ValueError(text)


def _positive_bytes(text: str) -> int:
    lowered = text.lower()
    for unit, factor in _UNITS.items():
        if lowered.endswith(unit):
            return _positive(int(float(lowered[: -len(unit)]) * factor))
    return _positive(int(lowered))


def _positive(number: int) -> int:
    if number <= 0:
        raise ValueError(number)
    return number


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 <= number <= _LONGEST_EXIT:
        raise ValueError(text)
    return number


def _one_of(choices: tuple[str, ...]) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError(text)
        return text.lower()

    return parse


#: Field -> (parser, what it accepts in words).
_PARSERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "quiet": (_boolean, "true or false"),
    "children": (_one_of(CHILDREN), ", ".join(CHILDREN)),
    "file_max_bytes": (_positive_bytes, "a number of bytes such as 67108864 or 64MiB"),
    "data_max_bytes": (_positive_bytes, "a number of bytes such as 1073741824 or 1GiB"),
    "exit_timeout": (_seconds, "a number of seconds from 0 to 3600"),
    "collectives": (_one_of(COLLECTIVES), ", ".join(COLLECTIVES)),
    "slowest": (_count, "a whole number from 0"),
    "whole_steps": (_count, "a whole number from 0"),
    "raise_internal_errors": (_boolean, "true or false"),
}


def load(environ: Mapping[str, str], warn: Callable[[str], None] | None = None) -> Settings:
    """Parse ``environ``; each value that cannot be parsed is told to ``warn`` (default: a line on stderr)."""
    warn = warn or _warn
    defaults = Settings()
    values: dict[str, Any] = {}
    for variable, field in VARIABLES.items():
        text = environ.get(variable, "").strip()
        if not text:
            continue
        parse, accepted = _PARSERS.get(field, (str, ""))
        try:
            values[field] = parse(text)
        except (ValueError, OverflowError):
            default = getattr(defaults, field)
            shown = str(default).lower() if isinstance(default, bool) else default
            warn(f'otel-rl: {variable}="{text}" is not valid (accepted: {accepted}); using {shown}')
    return Settings(**values)


def _warn(line: str) -> None:
    from otel_rl.process import launcher_environment  # noqa: PLC0415 - it imports this module

    # All processes of the launch read the same environment: the leading one says it.
    if launcher_environment.detect(os.environ)["leads"]:
        write_line(line)


_current: Settings | None = None


def current() -> Settings:
    """The settings of this process, parsed at the first call."""
    global _current
    if _current is None:
        _current = load(os.environ)
    return _current


def reset() -> None:
    """Parse the environment again at the next :func:`current`."""
    global _current
    _current = None
