"""Insights: questions asked of a trace, all answered in one pass over its records.

from repro_kit.trace.insights import gather

insights = gather("trace_directory")
for one in insights.breaks:
    print(one.where, one.kind)

To add one, write a module with a class that has `see`, the `names` of the records it is shown, and a frozen result, and
add a field to `Insights`.
"""

from repro_kit.trace.insights.gather import Insights, gather

__all__ = ["Insights", "gather"]
