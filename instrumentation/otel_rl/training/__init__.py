"""One boundary for all trainers: steps, phases, scalars, rewards, systems. Callers hand in their scope.

====================== =================================================================
``caller_steps``       the step in which a call of another process was made
``checkpoints``        saves and loads: counters, and phases of those that take long
``configuration``      settings of the program, from trainers, trackers and frameworks
``durations``          durations of a step's phases, recorded when it ends
``engine_summary``     what the inference engines of a step took, on its span
``engine_versions``    versions of the weights by engine
``environments``       episodes of environments that the program steps
``guessed_batches``    batches of a data loader before it is known whether a step has them
``guessed_loop``       the loop of the guessed steps, whose spans begin late
``guessed_records``    spans and values of a guessed step, recorded when it has ended
``guessed_steps``      steps of a loop that says nothing of them
``key_categories``     groups of logged keys, for the report
``labels``             names that the user gives logged keys
``log_calls``          log calls on their way to an I/O thread
``logged_steps``       steps of a program of which only its log calls are known
``logged_values``      values as a log call hands them over: copied, then made exact
``lowest_rewards``     the lowest reward that a program gives
``metric_keys``        keys of trainers that have a metric of the registry, generated
``open_trackers``      the run of a tracker that the program logs to, for what we write there
``own_cost``           what otel-rl itself costs the steps
``parts``              parts of a phase, such as forward and backward passes
``phases``             a phase of a step: spans and duration; which phase suspends which
``position``           the open step, and whether the current context belongs to it
``prompt_ids``         an id for each prompt, made of its text
``results``            last and best values of what was logged, for the end of the run
``rewards``            scores of reward functions
``rollout_spans``      which rollouts of a step have spans, beside their rows
``saved_checkpoints``  the checkpoints of the run, and what has become of them
``scalars``            values that trainers and trackers log, each from one source
``step_judges``        what the judges of a step were asked that is in no row, on its span
``step_sampling``      which ranks emit the spans of a step, and the sampler's answer for all
``step_subscribers``   who is called when a step opens, closes and has been recorded
``steps``              loops, their step traces in which all ranks meet, and which step a caller is in
``sync_operations``    operations on an engine as parts of the phase that syncs
``systems``            system, algorithm and role of this process
``trackers``           what the instrumentors of experiment trackers have in common
``trainer_loop``       order of steps and phases as the hooks of a trainer report them
``timed_loop``         steps and phases of a trainer that times its parts by name
``told_steps``         steps that a library tells which loops are written with
``trajectories``       records with the numbers of every trajectory, the exact form of its rewards
``trajectory_bodies``  rows of trajectories as bodies of records
``trajectory_changes`` records of what is said of trajectories later or elsewhere
``trajectory_columns`` lists of values per column
``trajectory_counts``  counters of trajectories, by what became of them
``trajectory_rows``    the row of a trajectory that ends by itself
``trajectory_shares``  what this process has to say of trajectories whose rows other records have
====================== =================================================================
"""
