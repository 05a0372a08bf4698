"""Memory and pauses: what a process and its node are short of, and what stops the process.

===================  ========================================================================
``observed``         registers the instruments; each is read at an export, never in between
``step_pauses``      collections and compilations of a step, on its span
``cgroups``          memory of the control group: usage, limit, events
``host``             CPU time and memory of the process and of the node, from ``/proc``
``garbage``          pauses by the garbage collector
``compilations``     what ``torch.compile`` compiled, and why again
``cuda``             the CUDA allocator of PyTorch, and pinned memory
``gpus``             the GPUs of the node, by NVML
===================  ========================================================================
"""
