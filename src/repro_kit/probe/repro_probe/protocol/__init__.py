"""Types and constants of the data that repro-kit and the probe exchange, and of the files that the probe writes.

The probe imports this package as `repro_probe.protocol`, repro-kit as `repro_kit.probe.repro_probe.protocol`.
Therefore its modules import each other by relative names.
"""
