"""Source programs: a user's script as one syntax tree that can be reduced.

`fold` makes one file of a script and the user's modules that it imports. `tree` changes a tree and
decides which of two trees is smaller, and `proposals` names the changes that make one smaller. Nothing here runs code.
"""

from repro_kit.script.fold import fold
from repro_kit.script.tree import Script, measure
from repro_kit.script.user_imports import CannotFold, ModuleText

__all__ = ["CannotFold", "ModuleText", "Script", "fold", "measure"]
