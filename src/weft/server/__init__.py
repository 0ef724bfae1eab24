"""The scheduler as a service: core, journal and an engine, behind the wire. Its engine is this machine."""
