"""A run while it is written: ``otel-rl live`` and ``otel-rl top``.

Modules, each importing only those below it:
    server: the local web server: list of runs, page of one run, events for browsers.
    notifications: posts and commands for what is found.
    posting: the program that posts one notification.
    run_pages: the list of runs as HTML, and what goes wrong in words.
    demo: a small job to look at, and its end.
    demo_program: that job.
    terminal: the essentials of a run in a terminal.
    essentials: the essentials of a run, as JSON.
    run_watch: one run that is followed while somebody watches it, and the events of it.
    pace: when a page is made anew, all of it or its steps and curves.
    event_log: the events of a run that a browser may have missed.
    run_index: the runs of a data folder, the live ones first.
    liveness: the last sign of each process, and who waits for whom, every second.
    standstill: who is late, who hangs, who is gone.
    hanging_calls: calls that hang, and who is late for that.
    updates: the page of a run, and what has changed on it.
    page_state: the blocks and charts of that page, and what a browser has of them.
    recorded: what the processes have recorded of themselves.
    standing: what the processes do, and what is wrong with it.
    follower: the aggregates of a run that grows, and snapshots of them.
    templates: the page with the list of runs.
"""
