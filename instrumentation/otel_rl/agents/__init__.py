"""One boundary for all runs of agents, whichever library runs them.

================  ====================================================================
``runs``          a run of an agent or of a workflow: its span, its duration
``trajectories``  a run that nothing else called is one trajectory, with one row
``workflows``     runs of several agents that hand over to each other
================  ====================================================================
"""
