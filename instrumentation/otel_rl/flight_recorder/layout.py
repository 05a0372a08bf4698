"""The format of a ring: little-endian, every part at a fixed place, all sizes written in the header.

====================  ==============================================================================
part                  holds
====================  ==============================================================================
header                what the file is, who writes it, two clocks, the last heartbeat, how it ended
names                 of phases, tools, model calls and loops; records refer to them by number
groups                process groups (:mod:`otel_rl.ranks.model.groups`), each with the number of its failed launches
operations            names of collectives
open operations       entries of steps, phases, parts of the run, tools and model calls that are open
records               of those that are over: first steps, phases and parts, then tools and model calls; record ``n`` of
                      either lies at place ``n % length`` of its part
collectives           launches and waits, open ones too, each at the place that was free the longest
====================  ==============================================================================

A reader maps the file while the writer writes. Records hold their first word again as the last one that is written:
where the two differ, the writer was in the middle.

A collective has one record for its launch and one for the wait. Its ``began`` is written with the begin, its ``ended``
with the end. The place keeps the ``ended`` of the record that was there before. So a record is open while ``ended`` is
before ``began``. A place with an open record is not used again.

An entry has two counters. ``begun`` is the number of the operation in the order of their begins, ``ended`` the same
number once that operation has ended.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

MAGIC = b"OTELRLFR"
VERSION = 4
SUFFIX = ".ring"


class TextTable(NamedTuple):
    """Texts by number, each with its length in front, and ``more`` bytes behind it."""

    at: int
    length: int
    size: int
    more: int = 0

    @property
    def end(self) -> int:
        """Where the next part begins."""
        return self.at + self.length * self.size

    @property
    def text(self) -> Struct:
        """One text."""
        return Struct(f"<H{self.size - self.more - 2}s")


HEADER_SIZE = 4096
NAMES = TextTable(HEADER_SIZE, 256, 128)
#: Behind the text: the number of launches by Python that have raised.
FAILED_LAUNCHES = Struct("<Q")
GROUPS = TextTable(NAMES.end, 512, 136, FAILED_LAUNCHES.size)
#: Bytes of a group's text. Behind it: how often its process has made it, after a tab, up to :data:`MOST_GENERATIONS`.
MOST_GENERATIONS = 99_999
GROUP_ROOM = GROUPS.text.size - 2 - len(f"\t{MOST_GENERATIONS}")
OPERATIONS = TextTable(GROUPS.end, 64, 64)
#: Steps and phases have places of their own: however many tools and model calls are open, these are seen.
STEP_ENTRIES = 64
CALL_ENTRIES = 448
ENTRIES = STEP_ENTRIES + CALL_ENTRIES
ENTRY_SIZE = RECORD_SIZE = 64
#: A step may have thousands of calls: their records do not overwrite those of steps and phases.
STEP_RECORDS = 512
CALL_RECORDS = 128
RECORDS = STEP_RECORDS + CALL_RECORDS
COLLECTIVE_WORDS = 4
COLLECTIVE_SIZE = COLLECTIVE_WORDS * 8
#: Places are given out by the segment.
SEGMENTS = 48
SEGMENT = 256
COLLECTIVES = SEGMENTS * SEGMENT

ENTRIES_AT = OPERATIONS.end
RECORDS_AT = ENTRIES_AT + ENTRIES * ENTRY_SIZE
COLLECTIVES_AT = RECORDS_AT + RECORDS * RECORD_SIZE
SIZE = COLLECTIVES_AT + COLLECTIVES * COLLECTIVE_SIZE

#: Magic, version, then sizes: header, names, groups, operations, entries, records, collectives. Written last.
FORMAT = Struct("<8s8I")
FORMAT_AT = 0
SIZES = (HEADER_SIZE, NAMES.length, GROUPS.length, OPERATIONS.length, ENTRIES, RECORDS, COLLECTIVES)
#: Pid, its start time in ticks, its pid namespace, boot id.
LIFETIME = Struct("<qqq40s")
LIFETIME_AT = 64
#: Monotonic clock and wall clock in ns, read together: when the ring was made, and at the last heartbeat.
CLOCKS = Struct("<qq")
CREATED_AT = 160
HEARTBEAT_AT = 176
#: Rank, world size, rank on this node; -1: not known.
RANK = Struct("<qqq")
RANK_AT = 192
#: Moment of the orderly end (monotonic, ns); 0 before.
END = Struct("<q")
END_AT = 216
#: Iteration of the step that began last, and when (monotonic, ns; 0: none).
LAST_STEP = Struct("<qq")
LAST_STEP_AT = 224
#: Operations that are open and found no entry: steps and phases, tools and model calls.
UNLISTED = Struct("<qq")
UNLISTED_AT = 240
#: When the step that ended last was over (monotonic, ns), and ns that the process had waited in collectives by then.
WAITED = Struct("<qq")
WAITED_AT = 256
#: Since when (monotonic, ns) the watchdog of the process sees a hang; 0: it sees none.
HANG = Struct("<q")
HANG_AT = 272
#: Texts of the header: run id, attempt, host, why the process ended, its launcher.
HEADER_TEXT = Struct("<H254s")
RUN_ID_AT = 1024
ATTEMPT_AT = 1280
HOST_AT = 1536
REASON_AT = 1792
LAUNCHER_AT = 2048

#: Of a name that had no room: the tables are bounded. Number 0 is the empty name.
OTHER = 1
OTHER_TEXT = "_OTHER"
FAILED_LAUNCHES_OFFSET = GROUPS.size - GROUPS.more

#: Number, codes, moment, argument, moment of the begin, number. Moments are ns of the monotonic clock. The writer
#: writes single words, so none has more than 63 bits.
RECORD = Struct("<QQqqqQ")
#: The counter ``begun``, codes, moment, argument, ``begun`` again.
ENTRY = Struct("<QQqqQ")
#: Codes: kind, outcome, number of the name; of a step also the number of its loop among those without a name.
OUTCOME_SHIFT = 8
NAME_SHIFT = 16
LOOP_SHIFT = 32
KIND_MASK = OUTCOME_MASK = 0xFF
NAME_MASK = LOOP_MASK = 0xFFFF
#: The counter ``ended`` of an entry, behind :data:`ENTRY`.
ENDED = Struct("<Q")
ENDED_OFFSET = ENTRY.size
#: Bytes of a word, as the writer sees entries and records.
WORD = 8

#: ``began``, what it is, ``began`` again, ``ended``. Moments are seconds of the monotonic clock. All four are floats:
#: no other numbers does Python make and write as fast.
COLLECTIVE_RECORD = Struct("<dddd")
#: What it is, in one number of less than 53 bits, which a float holds: the number of the collective in its group, its
#: operation, its group, flags, and the thread that launched it.
SEQUENCE_BITS = 32
OPERATION_BITS = 6
GROUP_BITS = 9
OPERATION_SHIFT = SEQUENCE_BITS
GROUP_SHIFT = OPERATION_SHIFT + OPERATION_BITS
FLAGS_SHIFT = GROUP_SHIFT + GROUP_BITS
SEQUENCE_MASK, OPERATION_MASK, GROUP_MASK = ((1 << bits) - 1 for bits in (SEQUENCE_BITS, OPERATION_BITS, GROUP_BITS))
#: The record is of the wait; the number is that of torch; a send or receive has none; it has failed.
IS_WAIT, IS_NUMBERED_BY_TORCH, HAS_NO_NUMBER, HAS_FAILED = (1 << FLAGS_SHIFT + bit for bit in range(4))
#: Number of the thread: 0 the main one, then in the order of their first launches, the last number for all later ones.
THREAD_SHIFT = FLAGS_SHIFT + 4
THREAD_BITS = 2
LAST_THREAD = (1 << THREAD_BITS) - 1

#: What an operation is.
STEP, PHASE, COLLECTIVE, WAIT, TOOL, MODEL_CALL, PART = range(1, 8)
OF_STEPS = frozenset({STEP, PHASE, PART})
#: Shortest part of the run, in ns, that leaves a record: a loop waits for each of its batches.
SHORTEST_PART = 1_000_000_000
KINDS = {STEP: "step", PHASE: "phase", COLLECTIVE: "collective", WAIT: "wait", TOOL: "tool", MODEL_CALL: "model call"}
KINDS[PART] = "part of the run"
#: Parts of the run by their names, which are mostly those of `rl.run.part`, and what the argument of each counts.
LOADER = "data_loader"
PARTS = {
    "rendezvous": ("init_process_group", "world size {}"),
    "model": ("the loading of a model", ""),
    "tokenizer": ("the loading of a tokenizer", ""),
    "dataset": ("the preparation of a data set", "{} rows"),
    "trainer": ("the setup of a trainer", ""),
    "checkpoint": ("the loading of a checkpoint", ""),
    "engine": ("the start of an inference engine", ""),
    LOADER: ("the wait for a batch of its data loader", "{} workers"),
}


def part_words(name: str, argument: int) -> str:
    """Return what stands behind `in` for a part of the run: ``init_process_group (world size 2)``."""
    words, counted = PARTS.get(name, (name, ""))
    return f"{words} ({counted.format(argument)})" if counted and argument else words


#: What a record says of it: that it began, ended, or ended with an error.
BEGIN, DONE, FAILED = range(1, 4)
