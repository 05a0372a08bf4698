"""One boundary for all trainers: steps, phases, scalars, rewards, systems. Callers hand in their scope.

====================== =================================================================
``durations``          durations of a step's phases, recorded when it ends
``engine_summary``     what the inference engines of a step took, on its span
``key_categories``     groups of logged keys, for the report
``labels``             names that the user gives logged keys
``log_calls``          log calls on their way to an I/O thread
``logged_values``      values as a log call hands them over: copied, then made exact
``metric_keys``        keys of trainers that have a metric of the registry, generated
``open_trackers``      the run of a tracker that the program logs to, for what we write there
``own_cost``           what otel-rl itself costs the steps
``parts``              parts of a phase, such as forward and backward passes
``phases``             a phase of a step: spans and duration; which phase suspends which
``position``           the open step, and whether the current context belongs to it
``rewards``            scores of reward functions
``run_parameters``     parameters that the program gives a tracker
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
``trackers``           what the instrumentors of experiment trackers have in common
====================== =================================================================
"""
