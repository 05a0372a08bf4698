"""Flight recorder: what this process is doing now and did last, in a file that outlives a kill.

A process that trains writes its steps, phases, collectives, tools and model calls into a ring of fixed size, which lies
in shared memory. The kernel keeps the file when the process is killed. :mod:`otel_rl.ranks.postmortem` reads it.

Modules, each importing only those below it:
    copies: what the I/O thread does: the heartbeat, copies in the run folder, and the end.
    recorder: the ring of this process, made with its first step or collective.
    ring: the writer: a file that is mapped, steps, phases, tools and model calls.
    collective_places: the records of collectives, which the hot path writes.
    waiting: calls that have been open for long, in a file beside the ring; writer and reader.
    files: names of rings, and the removal of old ones.
    reader: a ring as records and open operations, whatever state the file is in.
    layout: the format of the file.
"""
