"""One boundary for all trainers: steps, phases, scalars.

===========  ============================================================
``phases``   a phase of a step: span and duration
``scalars``  values that a trainer logs
``steps``    step traces in which all ranks meet
``trace``    order of steps and phases as trainer hooks report them
===========  ============================================================
"""
