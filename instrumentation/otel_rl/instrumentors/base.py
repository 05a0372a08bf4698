"""Base class of our instrumentors: version check, post-import hooks, exact restoring.

A subclass names its library, the supported versions, and per module a function that patches it once imported::

    class OpenAIInstrumentor(Instrumentor):
        library = "openai"
        requirement = package.REQUIREMENT
        modules = {"openai._base_client": patch.patch_base_client}

Nothing here imports a target library: modules that are loaded already are patched at once, others when they are
imported.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, ClassVar

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor

from otel_rl import instrumentor_status
from otel_rl.import_hooks import hooks
from otel_rl.instrumentors.dynamo import skip_our_frames
from otel_rl.instrumentors.patching import Patches
from otel_rl.internal_errors import guard

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from types import ModuleType

    PatchFunction = Callable[[ModuleType, Patches], None]


class Instrumentor(BaseInstrumentor):  # type: ignore[misc]  # the base has no annotations
    """Patches one library. Works under our distro, under upstream's, and by ``XInstrumentor().instrument()``."""

    #: Short name; the scope is ``otel_rl.<library>``, the entry point ``otel_rl_<library>``.
    library: ClassVar[str]
    #: Supported versions in requirements.txt notation.
    requirement: ClassVar[str]
    #: Module name -> function(module, patches), called once, when the module has been imported.
    modules: ClassVar[Mapping[str, PatchFunction]]

    def __init__(self) -> None:
        super().__init__()
        if not hasattr(self, "_patches"):  # the base makes this a singleton: __init__ runs at every call
            self._patches = Patches()
            self._applied: set[str] = set()
            self._hooked: set[str] = set()
            self._wanted = False

    def instrumentation_dependencies(self) -> Collection[str]:
        """The supported versions, for the dependency check of whoever loads the instrumentor."""
        return (self.requirement,)

    @property
    def entry_point(self) -> str:
        """Name under which the state is reported."""
        return f"otel_rl_{self.library}"

    def _instrument(self, **kwargs: Any) -> None:
        self._wanted = True
        skip_our_frames()
        instrumentor_status.report(self.entry_point, instrumentor_status.WAITING, "library not imported yet")
        for name in self.modules:
            if name in sys.modules or name not in self._hooked:
                # Hooks cannot be taken back: each asks whether we are still wanted.
                self._hooked.add(name)
                hooks.after_import(name, self._imported)

    def _imported(self, module: ModuleType) -> None:
        with guard(f"{self.entry_point}.import_hook"):
            if self._wanted:
                self._apply(module.__name__, module)

    def _apply(self, name: str, module: ModuleType) -> None:
        if name in self._applied:
            return
        self._applied.add(name)
        patched_before = len(self._patches)
        try:
            self.modules[name](module, self._patches)
        except Exception as error:
            # Half a module's patches could be worse than none, an enter without its exit for one.
            self._patches.restore(keep=patched_before)
            instrumentor_status.report(
                self.entry_point, instrumentor_status.FAILED, f"patching {name} failed: {type(error).__name__}: {error}"
            )
            with guard(f"{self.entry_point}.patch"):
                raise
        else:
            if instrumentor_status.snapshot()[self.entry_point]["state"] != instrumentor_status.FAILED:
                instrumentor_status.report(self.entry_point, instrumentor_status.ACTIVE)

    def _uninstrument(self, **kwargs: Any) -> None:
        self._wanted = False
        self._patches.restore()
        self._applied.clear()
        instrumentor_status.report(self.entry_point, instrumentor_status.SKIPPED, "uninstrumented")
