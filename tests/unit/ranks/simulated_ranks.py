"""Ranks whose work is known: each runs a program of work, launches and waits, and the clock is simulated.

The simulation decides by itself when a collective is complete. It shares no code with what is tested.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from otel_rl.ranks.model.collectives import Collective, Wait
from otel_rl.ranks.stragglers.timeline import RankStep, TimeSpan

MS = 1_000_000
GROUP = "0\tdefault_pg\t0-7"


@dataclass
class Program:
    """What one rank does in one step, in order: ("work", ms, phase), ("launch", number), ("wait", number)."""

    parts: list[tuple] = field(default_factory=list)

    def work(self, ms: float, phase: str = "train") -> Program:
        self.parts.append(("work", ms, phase))
        return self

    def launch(self, number: int, operation: str = "all_reduce", group: str = GROUP) -> Program:
        self.parts.append(("launch", number, operation, group))
        return self

    def wait(self, number: int, group: str = GROUP) -> Program:
        self.parts.append(("wait", number, group))
        return self

    def all_reduce(self, number: int, group: str = GROUP) -> Program:
        return self.launch(number, group=group).wait(number, group)


def run(
    programs: dict[int, Program],
    transfer_ms: float = 1.0,
    began: dict[int, int] | None = None,
    leaves_later_ms: dict[int, float] | None = None,
):
    """Return the step of each rank when ``programs`` run together.

    ``leaves_later_ms``: rank -> so much later than the others it leaves each collective.
    """
    members: dict[Collective, set[int]] = {}
    for rank, program in programs.items():
        for part in program.parts:
            if part[0] == "launch":
                members.setdefault(Collective(part[3], part[1]), set()).add(rank)
    steps = {rank: RankStep(rank, (began or {}).get(rank, 0), 0) for rank in programs}
    now = {rank: step.began for rank, step in steps.items()}
    places = dict.fromkeys(programs, 0)
    while any(places[rank] < len(programs[rank].parts) for rank in programs):
        before = dict(places)
        for rank, program in programs.items():
            while places[rank] < len(program.parts) and _do(
                program.parts[places[rank]],
                steps,
                rank,
                now,
                members,
                transfer_ms + (leaves_later_ms or {}).get(rank, 0.0),
            ):
                places[rank] += 1
        assert places != before, "the programs wait for each other"
    for rank, step in steps.items():
        step.ended = now[rank]
    return steps


def _do(part, steps, rank, now, members, transfer_ms) -> bool:
    step = steps[rank]
    if part[0] == "work":
        ended = now[rank] + round(part[1] * MS)
        step.phases.append(TimeSpan(part[2], now[rank], ended))
        now[rank] = ended
    elif part[0] == "launch":
        collective = Collective(part[3], part[1])
        step.launches[collective], step.operations[collective] = now[rank], part[2]
    else:
        collective = Collective(part[2], part[1])
        launches = [steps[other].launches.get(collective) for other in members[collective]]
        if None in launches:
            return False
        ended = max(now[rank], max(launches) + round(transfer_ms * MS))
        step.waits.append(Wait(collective, now[rank], ended))
        now[rank] = ended
    return True
