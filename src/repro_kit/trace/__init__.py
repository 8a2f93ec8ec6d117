"""Reading torch's structured traces (``TORCH_TRACE``): a streaming reader, and one module per insight.

from repro_kit.trace import read

for record in read("trace_directory"):
    print(record.compile_id, record.name)
"""

from repro_kit.trace.compiles import Compile, CompileFailure, CompileOutcome
from repro_kit.trace.reader import Problems, Reader, is_log, read
from repro_kit.trace.record import Record
from repro_kit.trace.runnables import Runnable, artifacts
from repro_kit.trace.trace_summary import TraceSummary, summarise

__all__ = [
    "Compile",
    "CompileFailure",
    "CompileOutcome",
    "Problems",
    "Reader",
    "Record",
    "Runnable",
    "TraceSummary",
    "artifacts",
    "is_log",
    "read",
    "summarise",
]
