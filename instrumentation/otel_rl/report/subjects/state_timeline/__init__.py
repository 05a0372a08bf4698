"""The state timeline: what every rank, engine and rollout did at each moment.

Modules, each importing only those below it:
    section: the section of the page.
    fleet: the overview of more ranks than are drawn.
    packed: all lanes as a text for the page's script.
    aggregate: the lanes, from the records.
    rollouts: the lanes of rollouts.
    bins: time by lane and state over the whole run.
    lanes: the stretches of one lane.
    states: the states and their colours.
"""

from otel_rl.report.core.collected import Subject
from otel_rl.report.subjects.state_timeline import section
from otel_rl.report.subjects.state_timeline.aggregate import StateTimeline

SUBJECT = Subject("state_timeline", aggregates=(StateTimeline,), sections={section.KEY: section.build})
