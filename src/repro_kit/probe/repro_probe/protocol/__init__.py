"""The wire between the two processes: what repro-kit and the probe say to each other, and what the probe writes.

Types and constants alone. The probe imports this package as `repro_probe.protocol`, repro-kit as
`repro_kit.probe.repro_probe.protocol`; so its modules import each other by relative names.
"""
