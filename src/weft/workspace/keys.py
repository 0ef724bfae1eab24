"""The keys of `scheduler_config.yml`: kind, default and meaning of each."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Kind = Literal["text", "name", "path", "whole", "seconds", "switch"]
Value = str | int | float | bool


class Key(NamedTuple):
    name: str
    kind: Kind
    default: Value | None
    """None: the key is required."""
    meaning: str
    min: float = 0
    max: float = 1_000_000
    may_be_empty: bool = False


KEYS: Final = (
    Key("task_name", "name", None, "what the sessions and logs of this workspace are called by"),
    Key("work_dir", "path", ".", "where tasks run"),
    Key("config_dir", "path", "configs", "where the configs are"),
    Key("script_path", "text", "train.py", "what runs each config: sought in the workspace, then in work_dir"),
    Key("python_env", "text", "", "interpreter; empty: the one that runs weft", may_be_empty=True),
    Key("output_dir", "path", "out", "where the markers of completed configs are"),
    Key("scheduler_session_suffix", "text", "_scheduler", "session and log of the scheduler: task_name and this"),
    Key("worker_prefix", "text", "", "what the sessions of tasks begin with; empty: task_name", may_be_empty=True),
    Key("max_jobs_per_gpu", "whole", 2, "tasks that share a GPU", 1, 1000),
    Key(
        "gpu_count",
        "whole",
        2,
        "GPUs to use: the first ones; declared where there is no driver, as many as the largest gpu_count asks for",
        1,
        4096,
    ),
    Key("check_interval", "seconds", 30, "seconds between checks of the scheduler session when no news arrives", 0.1),
    Key(
        "startup_delay",
        "seconds",
        1,
        "seconds between two starts on the same GPU; a task waits for its turn in the queue",
    ),
    Key("command_delay", "seconds", 0.5, "accepted, and without effect: there is nothing left to delay"),
    Key("log_dir", "path", "/tmp", "where the logs are"),
    Key("enable_logging", "switch", True, "whether to write logs to log_dir"),
    Key("max_log_mb", "whole", 512, "size at which a task's log is renamed to NAME.log.1 and a new one begins", 1),
    Key(
        "conda_env",
        "text",
        "base",
        "name or path of the environment for `conda run`, where there is conda; empty: none",
        may_be_empty=True,
    ),
    Key("cuda_visible_devices_var", "name", "CUDA_VISIBLE_DEVICES", "variable that tells a task its GPU"),
    Key("config_pattern", "text", "*.yml", "which files of config_dir are configs"),
    Key("auto_restart_failed", "switch", False, "whether a failed task is run again"),
    Key("max_retries", "whole", 3, "how often a failed task is run again; needs auto_restart_failed"),
    Key("cleanup_on_complete", "switch", False, "whether the session of a completed task is closed"),
    Key("pre_command", "text", "", "a line of shell before the command, such as module load cuda", may_be_empty=True),
    Key("session_backend", "text", "tmux", "tmux, none, or module:Class of your own"),
    Key("config_parser", "text", "", "module:function of your own that turns this file into keys", may_be_empty=True),
)
BY_NAME: Final = {key.name: key for key in KEYS}
EXPANDED: Final = frozenset(
    {"work_dir", "config_dir", "script_path", "python_env", "output_dir", "log_dir", "conda_env", "pre_command"}
)
"""Keys in which `${task_name}` is filled in: the paths, and texts that may hold a path."""
