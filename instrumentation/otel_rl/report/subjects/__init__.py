"""The subjects of the report, a folder each: what is aggregated from the records, its finding, its section of the page.

Modules:
    overview: all findings in order, what was checked, and what was unobserved.
"""
