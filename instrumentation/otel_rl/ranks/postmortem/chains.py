"""What a rank waits for beyond other ranks: a rollout, its tool, the server behind a call, and where that ends.

Calls are joined by their spans: one below another one's span is what that waits for, in another process too. Those of a
process below a rank, and of a rank itself, are what the rank waits for while its step is open, in a phase of calls.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.flight_recorder import layout, waiting
from otel_rl.process import lifetime, listeners
from otel_rl.semconv.attributes import RlCallKindValues as Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_rl.flight_recorder.waiting import WaitingCall, WaitingCalls
    from otel_rl.process.listeners import Listener
    from otel_rl.ranks.postmortem.ranks import RankState

#: Most calls of one chain: ids may be damaged.
_LONGEST = 16
#: What an engine or a service does for a request of another process.
_SERVING = frozenset({Kind.REQUEST, Kind.ENGINE})


class ChainLink(NamedTuple):
    """A call that has been open for long, and its process."""

    process: WaitingCalls
    call: WaitingCall


@dataclass
class WaitChain:
    """``rank`` waits for the first of ``links``, which waits for the next one; the last one is where it ends."""

    #: None: a process that no rank is known to wait for.
    rank: RankState | None
    links: list[ChainLink]
    #: Further calls that it waits for, which take less long.
    others: int = 0
    #: The rank does something else, and does not wait as far as is known: a rollout that is made ahead.
    is_meanwhile: bool = False
    #: Who listens at the address of the last call, where that is on this machine.
    listener: Listener | None = None
    #: How the process of the last call ended: nobody waits any more; empty where it may run.
    fate: str = ""

    @property
    def end(self) -> ChainLink:
        """What everything waits for."""
        return self.links[-1]

    @property
    def phases(self) -> list[str]:
        """Phases that the rank is in, the outermost first."""
        return _phases(self.rank) if self.rank is not None else []


@dataclass
class _Joined:
    """All calls of a run that have been open for long."""

    links: list[ChainLink]
    by_parent: dict[str, list[ChainLink]] = field(default_factory=dict)
    by_trace: dict[str, list[ChainLink]] = field(default_factory=dict)
    spans: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for link in self.links:
            self.spans.add(link.call.span)
            self.by_trace.setdefault(link.call.trace, []).append(link)
            if link.call.parent:
                self.by_parent.setdefault(link.call.parent, []).append(link)

    def next_of(self, link: ChainLink) -> list[ChainLink]:
        """Return what ``link`` waits for."""
        below = self.by_parent.get(link.call.span, []) if link.call.span else []
        if below or not link.call.trace:
            return [one for one in below if one is not link]
        is_request = link.call.kind == Kind.REQUEST
        return [
            other
            for other in self.by_trace[link.call.trace]
            if other.call.began >= link.call.began
            and other is not link
            # Where spans of others lie between: in one process what it does for a request, else who answers a call.
            and (
                other.process is link.process and other.call.kind != Kind.REQUEST
                if is_request
                else other.process is not link.process and other.call.kind in _SERVING
            )
            # Another call is known to wait for it.
            and not (other.call.parent and other.call.parent in self.spans)
        ]

    def path(self, first: ChainLink) -> list[ChainLink]:
        """Follow what is waited for, of several the one that is open for the longest."""
        path = [first]
        while len(path) < _LONGEST:
            following = [link for link in self.next_of(path[-1]) if link not in path]
            if not following:
                break
            path.append(min(following, key=lambda link: link.call.began))
        return path


def find_chains(states: list[RankState], lists: list[WaitingCalls]) -> list[WaitChain]:
    """Return a chain for each rank whose step waits for calls, and one for each process with none above it."""
    joined = _Joined([ChainLink(process, call) for process in lists for call in process.calls])
    if not joined.links:
        return []
    chains, told = [], set()
    waited_for = {id(other) for link in joined.links for other in joined.next_of(link)}
    firsts = [link for link in joined.links if id(link) not in waited_for]
    for state in states:
        if state.step_is_open and not any(entered.outcome == "open" for entered in state.unfinished):
            own = [link for link in firsts if _belongs_to(state, link, states)]
            phase = next(reversed(_phases(state)), None)
            waits = [link for link in own if waiting.is_waited_for(phase, in_step=link.call.in_step)]
            chains += _chain(joined, state, waits)
            ahead = [link for link in own if link not in waits]
            chains += [replace(chain, is_meanwhile=True) for chain in _chain(joined, state, ahead)]
            told |= {id(link) for link in own}
    left: dict[int, list[ChainLink]] = {}
    for link in firsts:
        if id(link) not in told:
            left.setdefault(id(link.process), []).append(link)
    for links in left.values():
        chains += [chain for chain in _chain(joined, None, links) if any(link.call.hangs for link in chain.links)]
    return chains


def _phases(state: RankState) -> list[str]:
    return [event.name for event in state.ring.open if event.kind == layout.PHASE]


def _belongs_to(state: RankState, link: ChainLink, states: list[RankState]) -> bool:
    """Return whether ``link`` is of ``state``: its own, or of a process below it."""
    own, process = state.ring.lifetime, link.process
    if link.call.kind == Kind.REQUEST:
        # A server, also one that it has started, answers others, too.
        return False
    if process.lifetime == own:
        return True
    of_states = {one.ring.lifetime for one in states}
    if process.lifetime in of_states:
        return False
    is_here = (own.boot_id, own.pid_namespace) == (process.lifetime.boot_id, process.lifetime.pid_namespace)
    pids = {lifetime.pid for lifetime in of_states}
    return is_here and next((pid for pid in process.ancestors if pid in pids), None) == own.pid


def _chain(joined: _Joined, state: RankState | None, firsts: Iterable[ChainLink]) -> list[WaitChain]:
    paths = [joined.path(link) for link in firsts]
    if not paths:
        return []
    # One that is beyond its limit explains more than one that is only long.
    worst = min(paths, key=lambda path: (not any(link.call.hangs for link in path), path[-1].call.began))
    end = worst[-1].call
    listener = None
    # The list may be of another machine or container, whose addresses mean others there, or of a run that is over.
    if end.kind in (Kind.MODEL, Kind.SERVICE) and end.port and lifetime.is_alive(worst[-1].process.lifetime):
        listener = listeners.find_listener(end.address, end.port)
    return [WaitChain(state, worst, len(paths) - 1, listener=listener)]
