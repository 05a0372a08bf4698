"""Every module of the pack can be imported on this interpreter, with these packages."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

#: Modules of these libraries' instrumentors may import them; the environments of the other interpreters lack them.
TARGETS = {"torch"}
_PROGRAM = """
import importlib, json, pkgutil
import otel_rl

failed = {}
for module in pkgutil.walk_packages(otel_rl.__path__, "otel_rl.", onerror=lambda name: None):
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        failed[module.name] = error.name.partition(".")[0]
    except Exception as error:
        failed[module.name] = repr(error)
print(json.dumps(failed))
"""


def test_every_module_of_the_pack_can_be_imported():
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    failed = json.loads(done.stdout.splitlines()[-1])
    absent = {name for name in TARGETS if importlib.util.find_spec(name) is None}
    assert {name: why for name, why in failed.items() if why not in absent} == {}
