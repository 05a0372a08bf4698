"""The page: HTML from what :mod:`otel_rl.offline.report.aggregate` holds.

Modules:
    page: the whole page, one HTML file that needs no network.
    page_head: identity of the run, first numbers, and findings.
    sections: the sections of the page, in reading order.
    pressure_section: the section on memory and pauses.
    problem_sections: the sections on errors, missing processes and lost telemetry.
    blocks: the pieces that a section is made of.
    tables: the tables of the sections.
    charts: the charts of the sections, drawn by Bokeh.
    colours: the colours of phases and kinds of calls.
    sentences: sentences that stand in several places.
    human: numbers, times and lists as text.
    templates: the Jinja2 template, its style sheet and its script.
"""
