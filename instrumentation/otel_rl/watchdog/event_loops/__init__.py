"""Event loops of asyncio: how late they are, and which code blocks them; the stack is taken while it does.

The program is left as it is: nothing of asyncio is patched, and a loop that waits for something to do is not woken. A
thread looks at the stack of the loop's thread 20 to 40 times a second. Only where the loop is at work is it asked to
call us back, and by then it is awake. How late that call comes is the lag. A loop that does not run is not watched.

Modules, each importing only those below it:
    thread: the thread, and the loops that it looks at.
    reports: the event of a block, and the metrics.
    loop: one loop: since when the same code runs in it.
    blocks: what is known of one stretch of code that runs: seconds, task, stacks.
    ping: the call that a loop is asked to make.
    stacks: where the thread of a loop is, and which function of the program.
    thread_time: time of the loop's thread that was no fault of its code: stopped, or without a CPU.
"""
