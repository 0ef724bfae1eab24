"""The code inside the job of a task: start, log, marker, verdict. It imports little, since every task pays for it."""
