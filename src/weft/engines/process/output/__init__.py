"""What runs produce: their logs and the progress that they report."""
