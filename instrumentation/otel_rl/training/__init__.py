"""One boundary for all trainers: steps, phases, scalars, rewards, systems. Callers hand in their scope.

================  =====================================================================
``phases``        a phase of a step: spans and duration; which phase suspends which
``rewards``       scores of reward functions
``scalars``       values that trainers and trackers log, each from one source
``steps``         loops, and their step traces in which all ranks meet
``systems``       system, algorithm and role of this process
``trainer_loop``  order of steps and phases as the hooks of a trainer report them
================  =====================================================================
"""
