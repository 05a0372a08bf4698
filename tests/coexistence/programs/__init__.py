"""What is called beside other instrumentors, one module for each library.

A module names our instrumentors (``OURS``), what each of its calls is (``EXPECTED``), and makes the calls by
:func:`calls`, which gets the addresses of the servers. Libraries are imported inside of it: tests read the rest.
"""

from __future__ import annotations

from typing import NamedTuple


class Expected(NamedTuple):
    """What one call is, whoever records it.

    Attributes:
        models: calls of a model.
        tokens: their input tokens, together.
        agents: runs of agents; 0 for a client.
        tools: calls of tools.
    """

    models: int = 1
    tokens: int = 7
    agents: int = 0
    tools: int = 0


class Servers(NamedTuple):
    """Addresses of the servers."""

    #: Root of the one that speaks the protocols of several providers.
    providers: str
    #: Base URL of the one that follows the plan in its prompt.
    scripted: str
