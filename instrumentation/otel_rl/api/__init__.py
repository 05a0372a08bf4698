"""The producer API behind :mod:`otel_rl`.

=====================  =======================================================
``compiled_function``  functions with the parameters of another one
``continuation``       rollouts go on in threads, executors and processes
``decorator``          decorators for functions, coroutines and generators
``model_calls``        calls of a model that the program itself marks
``operations``         rollouts, steps, phases, tools, metrics and events
``outcomes``           what a program says of a rollout
``program_metrics``    counters and histograms that the program names, and values of its rollouts
``scores``             rewards
``spawned``            the context of a rollout on its way into a spawned process
=====================  =======================================================
"""
