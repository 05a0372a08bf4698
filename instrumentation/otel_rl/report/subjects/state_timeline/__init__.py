"""The state timeline: what every rank, engine and rollout did at each moment.

Modules, each importing only those below it:
    section: the section of the page.
    fleet: the overview of more ranks than are drawn.
    packed: all lanes as a text for the page's script.
    timeline: all lanes, painted once from the tables of the run.
    rollouts: the lanes of rollouts.
    exact: the stretches that are kept as they are.
    asked: what the tables say of lanes, and the moments of steps.
    bins: time by state in bins that cover the whole run.
    states: the states and their colours.
"""

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.state_timeline import section

SUBJECT = Subject("state_timeline", sections={section.KEY: section.build})
