"""What a trace says, for a person: five sentences, sections on demand, and advice; pure, no processes.

`sections/` words one insight each, `advice/` says what to do about it, `judge.py` whether it helped; `terminal.py` and
`page.py` draw the same `view.Section`s.
"""
