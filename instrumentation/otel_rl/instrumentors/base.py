"""Base class of our instrumentors: version check, post-import hooks, exact restoring.

A subclass is in the folder with the library's name. It has the supported versions, and per module the function that
patches it once imported::

    class OpenAIInstrumentor(Instrumentor):
        requirements = ("openai >= 1.26, < 4",)
        modules = {"openai._base_client": "patch:patch_base_client"}

The class is all that is imported before the library is: the functions are named, not imported. Modules that are loaded
already are patched at once, others when they are imported. The first import of one of ``modules`` loads the
instrumentor (:mod:`otel_rl.distro.loader`), which finds them in a table that is generated from the classes.
"""

from __future__ import annotations

import importlib
import re
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from otel_rl.core import instrumentor_status
from otel_rl.core.guard import guard, logger
from otel_rl.core.import_hooks import hooks

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from types import ModuleType

    from typing_extensions import Self

    from otel_rl.instrumentors.patching import Patches

    PatchFunction = Callable[[ModuleType, Patches], None]

PREFIX = "otel_rl_"


class Instrumentor:
    """Patches one library. Works under our distro, under upstream's, and by ``XInstrumentor().instrument()``.

    One object per class. It is a ``BaseInstrumentor`` of OpenTelemetry by registration: the module of that class
    imports more than a process should pay for that imports nothing instrumented.
    """

    #: Short name, by default that of the folder; the scope is ``otel_rl.<library>``, the entry point
    #: ``otel_rl_<library>``.
    library: ClassVar[str]
    #: Supported versions in requirements.txt notation. The first is the library itself, without which nothing is
    #: patched. Others are its companions: modules of a companion in an unsupported version are left alone.
    requirements: ClassVar[tuple[str, ...]]
    #: Other distributions that bring the same library with the same versions: builds for other hardware.
    builds: ClassVar[tuple[str, ...]] = ()
    #: Module name -> ``"module:function"`` in the folder of the subclass, or the function itself. It is called as
    #: ``function(module, patches)``, once, when the module has been imported.
    modules: ClassVar[Mapping[str, str | PatchFunction]]
    #: Libraries whose instrumentors of ours open what this one adds to.
    needs: ClassVar[tuple[str, ...]] = ()

    #: What is recorded of a training with this library: how ``steps`` are known, which ``phases``, which ``values``.
    training: ClassVar[Mapping[str, str]] = {}

    #: Importing this library does not suggest an AI workload: the last line does not warn that nothing was recorded.
    general_purpose: ClassVar[bool] = False

    #: As OpenTelemetry's base class names it: who asks for the state of another instrumentor looks here.
    _instance: ClassVar[Instrumentor | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Name the library after the folder of the class."""
        super().__init_subclass__(**kwargs)
        if not hasattr(cls, "library"):
            cls.library = cls.__module__.rpartition(".")[2]

    def __new__(cls) -> Self:
        """Return the one object of this class."""
        instance = cls.__dict__.get("_instance")
        if instance is None:
            instance = cls._instance = super().__new__(cls)
            instance._set_up()
        existing: Self = instance
        return existing

    def _set_up(self) -> None:
        from opentelemetry.instrumentation.instrumentor import BaseInstrumentor  # noqa: PLC0415 - see the class

        from otel_rl.instrumentors.patching import Patches  # noqa: PLC0415 - for the same reason

        BaseInstrumentor.register(Instrumentor)
        self._patches = Patches()
        self._applied: set[str] = set()
        self._hooked: set[str] = set()
        self._instrumented = False
        self._unsupported: list[str] = []

    @classmethod
    def triggers(cls) -> tuple[str, ...]:
        """Modules whose import makes this instrumentor worth loading: those it patches, and last the library itself.

        The library itself, since a version that is not supported may not have the others.
        """
        library = re.match(r"[\w.-]+", cls.requirements[0])
        top = library.group().replace("-", "_") if library else ""
        return (*(module for module in cls.modules if module != top), top)

    @property
    def is_instrumented_by_opentelemetry(self) -> bool:
        """True between :meth:`instrument` and :meth:`uninstrument`."""
        return self._instrumented

    @classmethod
    def supported(cls) -> tuple[str, ...]:
        """Return the requirement of the library, under the name of the build that is installed."""
        if not cls.builds:
            return cls.requirements[:1]
        from otel_rl.instrumentors.companions import of_installed_build  # noqa: PLC0415 - needed with builds only

        return (of_installed_build(cls.requirements[0], cls.builds),)

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return the supported versions of the library, for the dependency check of whoever loads the instrumentor."""
        return self.supported()

    @classmethod
    def entry_point_name(cls) -> str:
        """Name of its entry point."""
        return f"{PREFIX}{cls.library}"

    @property
    def entry_point(self) -> str:
        """Name under which the state is reported."""
        return self.entry_point_name()

    @property
    def missing(self) -> tuple[str, ...]:
        """Names that this version of the library lacks, the required ones and the others."""
        return tuple(self._patches.missing)

    def instrument(self, *, skip_dep_check: bool = False, raise_exception_on_conflict: bool = False, **_: Any) -> None:
        """Patch the library now, or when it is imported; with the arguments that OpenTelemetry's loader gives."""
        if self._instrumented:
            logger.warning("otel-rl: %s is instrumented already", self.library)
            return
        if not skip_dep_check and self._conflicts(raise_error=raise_exception_on_conflict):
            return
        self._instrumented = True
        self._begin()

    def _conflicts(self, *, raise_error: bool) -> bool:
        from opentelemetry.instrumentation.dependencies import (  # noqa: PLC0415 - see the class
            DependencyConflictError,
            get_dependency_conflicts,
        )

        conflict = get_dependency_conflicts(self.instrumentation_dependencies())
        if conflict is not None and raise_error:
            raise DependencyConflictError(conflict)
        if conflict is not None:
            logger.error("otel-rl: %s", conflict)
        return conflict is not None

    def _begin(self) -> None:
        from otel_rl.instrumentors.dynamo import skip_our_frames  # noqa: PLC0415 - not before the first library

        skip_our_frames()
        if self.general_purpose:
            instrumentor_status.declare_general_purpose((self.entry_point,))
        instrumentor_status.declare_needs(self.entry_point, tuple(f"{PREFIX}{library}" for library in self.needs))
        instrumentor_status.report(self.entry_point, instrumentor_status.WAITING, "library not imported yet")
        for name in self.modules:
            if name in sys.modules or name not in self._hooked:
                # Hooks cannot be taken back: each asks whether we are still wanted.
                self._hooked.add(name)
                hooks.after_import(name, partial(self._imported, name))

    def _imported(self, name: str, module: ModuleType) -> None:
        # An alias in `sys.modules` has another `__name__`, and crewAI 1.15 writes into the namespaces of its modules.
        with guard(f"{self.entry_point}.import_hook"):
            if self._instrumented:
                self._apply(name, module)

    def _apply(self, name: str, module: ModuleType) -> None:
        if any(sys.modules.get(applied) is module for applied in self._applied):
            # It, or an alias of it.
            return
        self._applied.add(name)
        patched_before = len(self._patches)
        try:
            unsupported = self._unsupported_companion(name)
            if unsupported:
                self._unsupported.append(unsupported)
            else:
                self._patch_function(name)(module, self._patches)
        except Exception as error:
            # Half a module's patches could be worse than none, an enter without its exit for one.
            self._patches.restore(keep=patched_before)
            instrumentor_status.report(
                self.entry_point, instrumentor_status.FAILED, f"patching {name} failed: {type(error).__name__}: {error}"
            )
            with guard(f"{self.entry_point}.patch"):
                raise
        else:
            self._report()

    def _patch_function(self, name: str) -> PatchFunction:
        reference = self.modules[name]
        if not isinstance(reference, str):
            return reference
        module, _, function = reference.partition(":")
        patch: PatchFunction = getattr(importlib.import_module(f".{module}", type(self).__module__), function)
        return patch

    def _unsupported_companion(self, name: str) -> str:
        """Text that names the companion that ``name`` is a module of, where its version is not supported."""
        if len(self.requirements) == 1:
            return ""
        from otel_rl.instrumentors.companions import unsupported  # noqa: PLC0415 - needed with companions only

        return unsupported(name, self.requirements[1:])

    def _report(self) -> None:
        if instrumentor_status.snapshot()[self.entry_point]["state"] == instrumentor_status.FAILED:
            return
        missing = self._patches.missing_required
        problems = [f"this version of the library lacks {', '.join(missing)}"] if missing else []
        problems += dict.fromkeys(self._unsupported)
        state = instrumentor_status.DEGRADED if problems else instrumentor_status.ACTIVE
        instrumentor_status.report(self.entry_point, state, "; ".join(problems))

    def uninstrument(self, **_: Any) -> None:
        """Put the originals back."""
        if not self._instrumented:
            logger.warning("otel-rl: %s is not instrumented", self.library)
            return
        self._instrumented = False
        self._patches.restore()
        self._applied.clear()
        self._unsupported.clear()
        instrumentor_status.report(self.entry_point, instrumentor_status.SKIPPED, "uninstrumented")
