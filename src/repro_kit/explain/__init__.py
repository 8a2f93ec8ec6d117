"""Explain a trace to a person: five sentences, sections with details, and advice. Pure: no processes.

`sections/` words one insight each, `advice/` derives suggestions, `trials.py` decides whether a suggestion helped.
`report.py` renders the `Section`s as HTML; the command line draws them in a terminal.
"""
