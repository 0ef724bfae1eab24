"""The emulated device: stages are timed holds of declared resources, jobs are real processes.

`program` is the job, `sharing` the arithmetic of shared resources, `server` shares them on a node, `device` is the end
in the job. Like all of `weft.train`, it uses only the standard library. Everything that it prints says "emulated".
"""
