"""What tests share: builders, real schedulers and clusters in temporary folders, and checks."""
