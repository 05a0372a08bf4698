"""The page: one HTML file from what the subjects have collected and found.

Modules:
    page: the whole page, one HTML file that needs no network.
    contents: what a page shows, before it is HTML.
    markup: fills the templates.
    templates: the Jinja2 templates, their style sheets and their scripts.
    page_head: identity of the run, and first numbers.
    cards: key figures, by the kind of program.
    sparkline: the small curve of a key figure.
    finding_list: the section on what deserves a look.
    sections: the sections of the page, in reading order.
"""
