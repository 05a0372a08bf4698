"""Makes the calls of one module of ``programs`` beside another instrumentor; prints what was recorded, as JSON.

    python calls_program.py PROGRAM [MODULE:CLASS ...] [--ours-after | --ours-before]

Runs like ``program.py``, which it shares the recording with.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from importlib.metadata import entry_points

from support.scripted_openai import ScriptedOpenAI

from coexistence.model_server import ModelServer
from coexistence.program import Recorded, instrument
from coexistence.programs import Servers


def _ours(libraries: tuple[str, ...]) -> None:
    ours = {one.name: one for one in entry_points(group="opentelemetry_instrumentor")}
    for library in libraries:
        ours[f"otel_rl_{library}"].load()().instrument(skip_dep_check=True)


def main(arguments: list[str]) -> int:
    name, *given = arguments
    program = importlib.import_module(f"coexistence.programs.{name}")
    recorded = Recorded()
    if "--ours-before" in given:
        _ours(program.OURS)
    instrument([argument for argument in given if not argument.startswith("--")], recorded)
    if "--ours-after" in given:
        _ours(program.OURS)
    found = {}
    with ModelServer() as providers, ScriptedOpenAI(add={"a": 1, "b": 2}, final_answer={"answer": "3"}) as scripted:
        made = program.calls(Servers(providers.url, scripted.base_url))
        recorded.take()
        for call, make in made.items():
            make()
            found[call] = recorded.take()
    print(json.dumps(found))
    sys.stdout.flush()
    # Some libraries leave threads that ask for their makers' servers.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
