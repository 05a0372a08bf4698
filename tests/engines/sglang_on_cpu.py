"""SGLang's server on a machine without CUDA: `python sglang_on_cpu.py OPTION ...`, as `python -m sglang.launch_server`.

SGLang 0.5.23 imports `sgl_kernel` (sglang-kernel 0.4.10) for its CPU engine, too. Its function
`load_utils._load_architecture_specific_ops` loads a CUDA library, which wants libcuda.so.1. Nothing of the library is
called here, so that one module is replaced. The server spawns its processes: each runs this file as `__mp_main__`.
"""

import sys
from types import ModuleType

_load_utils = ModuleType("sgl_kernel.load_utils")
_load_utils._load_architecture_specific_ops = lambda: None
_load_utils._preload_cuda_library = lambda: None
sys.modules[_load_utils.__name__] = _load_utils

if __name__ == "__main__":
    from sglang.launch_server import run_server
    from sglang.srt.server_args import prepare_server_args

    run_server(prepare_server_args(sys.argv[1:]))
