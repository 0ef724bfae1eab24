"""Weaves inside a job: members of a weave take turns in their stages, through files in one directory.

`state` and `slots` are pure: the bytes of the state file in; its new bytes and the members to wake out. `layout` says
where each value is. `member` locks, reads and writes the file and waits for turns; `directory` serves the engine, which
is no member. Standard library only; nothing here imports the rest of Weft.
"""
