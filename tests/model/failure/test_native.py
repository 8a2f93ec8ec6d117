"""What a dying process prints: the stack of faulthandler."""

import subprocess
import sys

from repro_kit.model.failure.native import faulthandler_stack

COLLECTING = """
import faulthandler, gc
def look(phase, info):
    faulthandler.dump_traceback()
def hang():
    gc.collect()
gc.callbacks.append(look)
hang()
"""


def test_a_process_that_collects_garbage_has_a_stack() -> None:
    ended = subprocess.run([sys.executable, "-c", COLLECTING], capture_output=True, text=True, check=True)
    assert "Garbage-collecting" in ended.stderr
    assert [frame.function for frame in faulthandler_stack(ended.stderr)] == ["<module>", "hang", "look"]


def test_lines_after_the_stack_are_no_part_of_it() -> None:
    text = """Current thread 0x00007f7f (most recent call first):
  File "a.py", line 2 in inner
  File "a.py", line 5 in outer

  File "b.py", line 1 in elsewhere
"""
    assert [frame.function for frame in faulthandler_stack(text)] == ["outer", "inner"]
