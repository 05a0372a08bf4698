"""One boundary for all runs of agents, whichever library runs them.

================  ====================================================================
``runs``          a run of an agent or of a workflow: its span, its duration
``trajectories``  what a run is where nothing else called it: one trajectory, one row
``workflows``     runs of several agents that hand over to each other
================  ====================================================================
"""
