# ruff: noqa: INP001, D100, ANN001, ANN201, ANN202, PLC0415, PTH100, PTH118, PTH120, UP031 - found by Python of any age; not part of the package
# mypy: ignore-errors
# Found on PYTHONPATH by every child interpreter, also by one that cannot import us or that is much older: decide in a
# millisecond, never raise, never print, never hide the sitecustomize that this one shadows. Plain syntax on purpose.
import os
import sys
import time

_here = os.path.dirname(os.path.abspath(__file__))


def run_shadowed(folder):
    """Run the sitecustomize that the one in ``folder`` hides, as the interpreter would have; its errors are its own."""
    from importlib.machinery import PathFinder

    others = [path for path in sys.path if os.path.abspath(path or ".") != folder]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    module = type(sys)("sitecustomize")
    module.__spec__, module.__file__, module.__loader__ = spec, spec.origin, spec.loader
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _child_processes():
    # By path: importing our package is what the decision is about.
    from importlib.machinery import SourceFileLoader

    path = os.path.join(os.path.dirname(os.path.dirname(_here)), "process", "child_processes.py")
    module = type(sys)("otel_rl_child_processes")
    SourceFileLoader(module.__name__, path).exec_module(module)
    return module


def _last():
    """Move our entry to the end: this folder must hide no module of the program or of a library."""
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != _here] + [_here]


def _standard_library_first():
    library = os.path.dirname(os.__file__)
    first = [path for path in sys.path if path in (library, os.path.join(library, "lib-dynload"))]
    sys.path[:] = first + [path for path in sys.path if path not in first]


def _start():
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return
    began, path, loaded, first = int(time.time() * 1e9), list(sys.path), frozenset(sys.modules), False
    try:
        _standard_library_first()
        child_processes = _child_processes()
        arguments = child_processes.original_arguments()
        first = os.environ.get(child_processes.MARKER) == child_processes.FIRST
        if child_processes.wanted(os.environ, arguments, os.getppid()):
            from otel_rl.distro.start import start

            start(loaded, path, began)
        elif child_processes.is_launcher(arguments):
            # It records nothing itself, but its ranks are a launch of their own.
            from otel_rl.process import launch

            replaced = child_processes.has_replaced_its_program(os.environ)
            launch.prepare(os.environ, arguments, begins=True, replaced=replaced)
            if child_processes.starts_ranks(arguments):
                from otel_rl.process.child_exits import exits

                exits.watch()
            if first:
                # Of the processes that a launcher starts, only its ranks are recorded.
                del os.environ[child_processes.MARKER]
    except Exception as error:
        # A child stays silent: what grades its stderr must not see us. The user asked for the first process.
        if first and isinstance(error, ImportError):
            sys.stderr.write(
                "otel-rl: nothing is recorded, since %s cannot import otel_rl: %s\n" % (sys.executable, error)
            )
        elif os.environ.get("OTEL_RL_RAISE_INTERNAL_ERRORS", "") in ("1", "true"):
            raise
    finally:
        sys.path[:] = path


if __name__ == "sitecustomize":
    _last()
    try:
        run_shadowed(_here)
    finally:
        _start()
