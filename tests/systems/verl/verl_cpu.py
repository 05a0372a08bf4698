"""A CPU platform and a CPU rollout for verl 0.9.1, by verl's own plugin points.

VERL_USE_EXTERNAL_MODULES=verl_cpu VERL_PLATFORM=cpu, VERL_ENGINE_DEVICE=cuda (the FSDP engine is registered for "cuda"
only; the name is only a registry key), actor_rollout_ref.rollout.name=cpu. Two functions of torch are replaced, below.
"""

from __future__ import annotations

import contextlib
import sys
import types

import torch
import torch.distributed
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry


class _Event:
    def __init__(self, *args, **kwargs): ...
    def record(self, *args): ...
    def synchronize(self): ...
    def elapsed_time(self, other):
        return 0.0


def _zero(*args, **kwargs):
    return 0


def _nothing(*args, **kwargs):
    return None


def _module():
    module = types.ModuleType("verl_cpu_device")
    numbers = "memory_allocated memory_reserved max_memory_allocated max_memory_reserved current_device"
    actions = (
        "empty_cache synchronize set_device manual_seed manual_seed_all reset_peak_memory_stats ipc_collect"
        " set_rng_state set_per_process_memory_fraction current_stream"
    )
    for names, function in ((numbers, _zero), (actions, _nothing)):
        for name in names.split():
            setattr(module, name, function)
    module.is_available = lambda: False
    module.device_count = lambda: 1
    module.get_rng_state = lambda *args, **kwargs: torch.get_rng_state()
    module.mem_get_info = lambda *args, **kwargs: (16 << 30, 24 << 30)
    module.get_device_name = lambda *args, **kwargs: "CPU"
    module.Event, module.Stream = _Event, torch.Stream
    module.is_bf16_supported = lambda: False
    return module


_MODULE = _module()


@PlatformRegistry.register(platform="cpu")
class PlatformCPU(PlatformBase):
    """The CPU, with a pretended GPU as Ray's resource (`ray_kwargs.ray_init.num_gpus=1`)."""

    device_name = property(lambda self: "cpu")
    vendor_name = property(lambda self: "cpu")
    device_module = property(lambda self: _MODULE)

    def is_available(self):
        return True

    def is_platform_available(self, use_smi_check=False):
        return True

    def current_device(self):
        # Given to Tensor.to(): an index would be one of CUDA.
        return "cpu"

    def device_count(self):
        return 1

    def set_device(self, device_index): ...

    def synchronize(self, device_index=None): ...

    def manual_seed(self, seed):
        torch.manual_seed(seed)

    def manual_seed_all(self, seed):
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings): ...

    def empty_cache(self): ...

    def get_device_capability(self, device_index=0):
        return (None, None)

    def communication_backend_name(self):
        return "gloo"

    def visible_devices_envvar(self):
        return "CUDA_VISIBLE_DEVICES"

    def nvtx_range(self, msg):
        return contextlib.nullcontext()

    def profiler_start(self): ...

    def profiler_stop(self): ...

    def ray_resource_name(self):
        return "GPU"

    def ray_resource_options(self, num_gpus):
        return {"num_gpus": num_gpus}

    def ray_noset_envvars(self):
        return ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]

    def is_ipc_supported(self):
        return False

    def cudart(self):
        return None


def _register_rollout():
    from verl.workers.rollout import base
    from verl.workers.rollout.replica import RolloutReplicaRegistry

    base._ROLLOUT_REGISTRY[("cpu", "async")] = "verl_cpu_rollout.ServerAdapter"

    def load():
        from verl_cpu_rollout import CPUReplica

        return CPUReplica

    RolloutReplicaRegistry.register("cpu", load)


class _Late:
    """Registers the rollout when it is asked for: verl imports this module while it is half imported itself.

    It stays in `sys.meta_path`: to take it out there would make this import skip the next finder.
    """

    users = ("verl.workers.rollout.llm_server", "verl.workers.engine_workers", "verl.checkpoint_engine")
    done = False

    def find_spec(self, name, path=None, target=None):
        if name in self.users and not self.done:
            self.done = True
            _register_rollout()


sys.meta_path.insert(0, _Late())

# verl asks for "cpu:gloo,<device>:<backend>": with the device cpu that names cpu twice, and torch refuses it.
_init_process_group = torch.distributed.init_process_group


def _init(backend=None, *args, **kwargs):
    return _init_process_group("cpu:gloo" if backend == "cpu:gloo,cpu:gloo" else backend, *args, **kwargs)


torch.distributed.init_process_group = _init
# The reference model is sharded with CPUOffloadPolicy(pin_memory=True): there is nothing to pin for.
torch.Tensor.pin_memory = lambda self, *args, **kwargs: self
