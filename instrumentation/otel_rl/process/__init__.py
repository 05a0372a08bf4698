"""Identity of this process, its launch and its run. Imports no OpenTelemetry.

========================  ============================================================
``agent_libraries``       libraries that run agents or call models, and who records them
``child_exits``           how children end that torchrun's agent or multiprocessing started
``child_processes``       policy: Python children that record, decided in a millisecond
``exit_records``          these ends as a file
``exit_status``           the exit status of this process, which only the C library knows
``inherited_context``     ``TRACEPARENT`` and ``BAGGAGE`` of the environment
``launch``                run id, resume number and data directory, fixed once per launch
``launcher_environment``  rank, attempt and job from the variables of the launcher
``launchers``             table of launchers and their variables
``lifetime``              boot, pid and start time: what names one process for good
``listeners``             which process of this machine listens at an address
``notebooks``             the name of the notebook that a kernel runs
``oom_kills``             OOM kills that the cgroup has counted
``pool_workers``          which threads and processes are workers of pools
``process_identity``      identity as known now, with listeners
``program_facts``         arguments without secrets, commit, versions, and age of the program
========================  ============================================================
"""
