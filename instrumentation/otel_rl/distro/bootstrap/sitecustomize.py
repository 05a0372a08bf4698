# ruff: noqa: INP001, D100, ANN001, ANN201, ANN202, PLC0415, PTH100, PTH118, PTH120 - found by Python of any age; not part of the package
# mypy: ignore-errors
# Found on PYTHONPATH by every child interpreter, also by one that cannot import us or that is much older: decide in a
# millisecond, never raise, never print, never hide the sitecustomize that this one shadows. Plain syntax on purpose.
import os
import sys

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


def _start():
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return
    try:
        child_processes = _child_processes()
        argv = child_processes.original_arguments()
        if child_processes.wanted(os.environ, argv, os.getppid()):
            from otel_rl.distro.start import start_child

            start_child()
        elif child_processes.is_launcher(argv):
            # It records nothing itself, but its ranks are a launch of their own.
            from otel_rl.process import launch

            launch.prepare(os.environ, argv, begins=True)
    except Exception:
        if os.environ.get("OTEL_RL_RAISE_INTERNAL_ERRORS", "") in ("1", "true"):
            raise


if __name__ == "sitecustomize":
    try:
        run_shadowed(_here)
    finally:
        _start()
