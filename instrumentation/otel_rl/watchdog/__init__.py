"""Watchdog: a thread of each process that trains; it reports a hang while it lasts, and says when it is over.

Modules, each importing only those below it:
    arming: the thread begins with the first step, and ends with the process.
    thread: what the thread does when it wakes: compare, judge, report.
    reports: the event with the stacks of all threads, and the line on stderr.
    open_operations: the step, phase and collective that the process is in.
    peers: the other ranks of this node, as their rings tell.
    stacks: what each thread does, as text and as a reason to wait longer.
    system: functions of the system, taken before a library can patch them.
    step_times: how long steps take, and so how long one may go without progress.
"""
