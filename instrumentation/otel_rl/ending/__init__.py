"""End of the process: exit, forks, uncaught exceptions, the last line.

==================  ===========================================================
``children``        how child processes ended, as events
``exceptions``      uncaught exceptions as log records
``exit``            final delivery within ``OTEL_RL_EXIT_TIMEOUT``
``forks``           a forked child starts with empty queues and its own files
``notebook_cells``  what the cells of a notebook raise
``summary``         last line on stderr: recorded, lost, next command
``termination``     SIGTERM: delivery within two seconds, then its own end
==================  ===========================================================
"""
