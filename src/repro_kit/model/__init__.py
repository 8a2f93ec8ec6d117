"""The data of repro-kit: typed, frozen and serializable."""
