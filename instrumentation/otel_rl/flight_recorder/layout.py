"""The format of a ring: little-endian, every part at a fixed place, all sizes written in the header.

====================  ==============================================================================
part                  holds
====================  ==============================================================================
header                what the file is, who writes it, two clocks, the last heartbeat, how it ended
texts                 names that records refer to by number: operations, phases, tools, groups
open operations       per thread a few entries; each is an operation that is open there
records               the ring of operations that are over: record ``n`` lies at place ``n % RECORDS``
====================  ==============================================================================

A reader maps the file while the writer writes. ``struct`` first fills the place with zeros, then writes the fields in
order. Records and entries hold their number first and last: where the two differ, the writer was in the middle.

An operation that begins takes an entry of its thread; its end gives the entry back and adds a record. So a record is
an operation that is over, with both of its moments. Where a thread has no entry left, a record tells of the begin.

An entry has two counters. ``begun`` is the number of the operation in the order of their begins, ``ended`` the same
number once that operation has ended.
"""

from __future__ import annotations

from struct import Struct

MAGIC = b"OTELRLFR"
VERSION = 1
SUFFIX = ".ring"

HEADER_SIZE = 4096
TEXTS, TEXT_SIZE = 256, 128
LANES, ENTRIES = 32, 16
ENTRY_SIZE = RECORD_SIZE = 64
#: A power of two: the place of a record is its number's last bits.
RECORDS = 8192

TEXTS_AT = HEADER_SIZE
ENTRIES_AT = TEXTS_AT + TEXTS * TEXT_SIZE
RECORDS_AT = ENTRIES_AT + LANES * ENTRIES * ENTRY_SIZE
SIZE = RECORDS_AT + RECORDS * RECORD_SIZE

#: Magic, version, then the sizes above: header, texts, one text, lanes, entries per lane, records. Written last.
FORMAT, FORMAT_AT = Struct("<8s7I"), 0
SIZES = (HEADER_SIZE, TEXTS, TEXT_SIZE, LANES, ENTRIES, RECORDS)
#: Pid, its start time in ticks, its pid namespace, boot id.
LIFETIME, LIFETIME_AT = Struct("<qqq40s"), 64
#: Monotonic clock and wall clock in ns, read together: when the ring was made, and at the last heartbeat.
CLOCKS, CREATED_AT, HEARTBEAT_AT = Struct("<qq"), 160, 176
#: Rank, world size, rank on this node; -1: not known.
RANK, RANK_AT = Struct("<qqq"), 192
#: Moment of the orderly end (monotonic, ns); 0 before.
END, END_AT = Struct("<q"), 216
#: Iteration of the step that began last, and when (monotonic, ns; 0: none).
LAST_STEP, LAST_STEP_AT = Struct("<qq"), 224
#: Texts of the header: run id, attempt, host, why the process ended.
HEADER_TEXT = Struct("<H254s")
RUN_ID_AT, ATTEMPT_AT, HOST_AT, REASON_AT = 1024, 1280, 1536, 1792

TEXT = Struct(f"<H{TEXT_SIZE - 2}s")
#: Of a name that had no room: the table is bounded.
OTHER, OTHER_TEXT = 1, "_OTHER"

#: Number, codes, sequence number, moment, argument, moment of the begin, number. Moments are ns of the monotonic clock.
RECORD = Struct("<QQqqqqQ")
#: The counter ``begun``, codes, sequence number, moment, argument, ``begun`` again.
ENTRY = Struct("<QQqqqQ")
#: Codes are one number, which costs less than five: kind, outcome, text of the name, lane, text of the group.
OUTCOME_SHIFT, NAME_SHIFT, LANE_SHIFT, GROUP_SHIFT = 8, 16, 32, 48
#: The parts of codes that stay when the same collective is waited for.
TEXTS_OF_CODES = 0xFFFF << NAME_SHIFT | 0xFFFF << GROUP_SHIFT
#: The counter ``ended`` of an entry, behind :data:`ENTRY`.
ENDED, ENDED_OFFSET = Struct("<Q"), ENTRY.size

#: What an operation is.
STEP, PHASE, COLLECTIVE, WAIT, TOOL, MODEL_CALL = range(1, 7)
KINDS = {STEP: "step", PHASE: "phase", COLLECTIVE: "collective", WAIT: "wait", TOOL: "tool", MODEL_CALL: "model call"}
#: What a record says of it: that it began, ended, or ended with an error.
BEGIN, DONE, FAILED = range(1, 4)
#: The lane of a thread that found none free.
NO_LANE = 0xFFFF
