"""Insights: questions about a trace, all answered in one pass over its records.

    insights = gather("trace_directory")
    for graph_break in insights.breaks:
        print(graph_break.where, graph_break.kind)

To add one, write a module with a class that has `see`, the `names` of the records that it needs, and a frozen result.
Then add a field to `Insights`.
"""

from repro_kit.trace.insights.gather import Insights, gather

__all__ = ["Insights", "gather"]
