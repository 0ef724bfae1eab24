"""What runs inside the job of a task: start, log, marker, verdict. It imports little: every task pays for it."""
