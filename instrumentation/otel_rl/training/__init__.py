"""One boundary for all trainers: steps, phases, scalars, rewards, systems. Callers hand in their scope.

====================== =================================================================
``checkpoints``        saves and loads: counters, and phases of those that take long
``durations``          durations of a step's phases, recorded when it ends
``engine_summary``     what the inference engines of a step took, on its span
``environments``       episodes of environments that the program steps
``own_cost``           what otel-rl itself costs the steps
``parts``              parts of a phase, such as forward and backward passes
``phases``             a phase of a step: spans and duration; which phase suspends which
``position``           the open step, and whether the current context belongs to it
``rewards``            scores of reward functions
``saved_checkpoints``  the checkpoints of the run, and what has become of them
``scalars``            values that trainers and trackers log, each from one source
``step_sampling``      which ranks emit the spans of a step, and the sampler's answer for all
``step_subscribers``   who is called when a step opens, closes and has been recorded
``steps``              loops, their step traces in which all ranks meet, and which step a caller is in
``sync_operations``    operations on an engine as parts of the phase that syncs
``systems``            system, algorithm and role of this process
``trajectories``       records with the numbers of every trajectory, the exact form of its rewards
``trajectory_bodies``  rows of trajectories as bodies of records
``trajectory_columns`` lists of values per column
``trajectory_counts``  counters of trajectories, by what became of them
``trainer_loop``       order of steps and phases as the hooks of a trainer report them
``vector_episodes``    the same of environments that are stepped together
====================== =================================================================
"""
