"""The GPUs of this machine: the driver interface, discovery, polling, and monitoring of the runs on them."""
