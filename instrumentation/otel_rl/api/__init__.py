"""The producer API behind :mod:`otel_rl`.

=====================  =======================================================
``awaitables``         coroutines and other awaitables that plain functions return
``call_content``       arguments and results, where content is wanted
``carried``            what goes along with code that runs elsewhere: its rollout, and its step into pools
``collecting``         whether the garbage collector runs on this thread
``compiled_function``  functions with the parameters of another one
``continuation``       rollouts go on in threads, executors and processes
``decorator``          decorators for functions, coroutines and generators
``failure_names``      names of failures as a program gives them
``inherited_methods``  methods of a class that inherits them
``model_calls``        calls of a model that the program itself marks
``operations``         steps, phases, tools, metrics and events
``outcomes``           what a program says of a rollout
``pool_calls``         calls for pools of processes carry their rollout and their step
``program_metrics``    metrics that the program names, and values of its rollouts
``replacements``       wrappers in front of the standard library, and their end
``reward_functions``   calls of reward functions
``rollouts``           trajectories: the root span, its baggage, its row
``sample_ids``         ids that the program's own samples carry
``scored_rollouts``    which rollout a score is for
``score_forms``        objects and dictionaries that stand for a score
``scores``             rewards
``spawned``            a rollout on its way into a spawned process, and with its step into a pool's worker
``user_messages``      lines for the user about mistakes in its use
=====================  =======================================================
"""
