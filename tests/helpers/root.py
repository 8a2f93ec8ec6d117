"""Where the repository lies."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Modules that import packages of an extra, which the environment of the tests has not.
OF_EXTRAS = ("repro_kit.commands.mcp.server",)
