"""repro-kit turns a failing ``torch.compile`` call into a verified, minimal, self-contained bug report."""

__version__ = "0.1.0"
