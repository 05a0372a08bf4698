"""The page: HTML from what :mod:`otel_rl.report.aggregate` holds and :mod:`~.findings` says of it.

Modules:
    page: the whole page, one HTML file that needs no network.
    page_head: identity of the run, and first numbers.
    finding_list: the section on what deserves a look.
    sections: the sections of the page, in reading order.
    over_time: charts over the steps of calls, rollouts and rewards.
    ring_sections: how the run ended, and who was late of late.
    trajectory_section: the section on single samples.
    engine_section: the section on inference engines.
    pressure_section: the section on memory and pauses.
    problem_sections: the sections on errors, missing processes and lost telemetry.
    blocks: the pieces that a section is made of.
    tables: the tables of the sections.
    charts: the charts of the sections, drawn by Bokeh.
    colours: the colours of phases and kinds of calls.
    templates: the Jinja2 template, its style sheet and its script.
"""
