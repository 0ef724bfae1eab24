"""The GPUs of this machine: the NVML seam, discovery, readings, and what they mean for runs."""
