"""The interfaces of policies, placements and autoscalers, and what tests of them need.

A plug-in derives from `Policy`, `Replanner`, `Placement` or `Autoscaler`; docs/howto/write-a-policy.md explains them.
"""

from weft.model import (
    ANYWHERE,
    WHOLE,
    Decision,
    Event,
    Fact,
    Gpu,
    Job,
    JobId,
    Node,
    NodeJoined,
    Profile,
    Seconds,
    Share,
    Slots,
    Start,
    Started,
    Stop,
    Submitted,
    Where,
)
from weft.scheduling.core.explain import explain
from weft.scheduling.core.ports import (
    Ask,
    JobView,
    Placement,
    Policy,
    Replanner,
    ReplicaMove,
    Trial,
    View,
)
from weft.scheduling.core.resources.cluster import ClusterResources
from weft.scheduling.core.resources.free import Free
from weft.scheduling.core.resources.node import NodeResources
from weft.scheduling.core.resources.shapes import Shape, plain_shape
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.placements.packed import Packed
from weft.scheduling.placements.yarn import Yarn
from weft.scheduling.plugins.registry import load_policy
from weft.scheduling.scaling.port import Autoscaler, Load, Wish

__all__ = [
    "ANYWHERE",
    "WHOLE",
    "Ask",
    "Autoscaler",
    "ClusterResources",
    "Decision",
    "Event",
    "Fact",
    "Free",
    "Gpu",
    "Job",
    "JobId",
    "JobView",
    "Load",
    "Node",
    "NodeJoined",
    "NodeResources",
    "Packed",
    "Placement",
    "Policy",
    "Profile",
    "Replanner",
    "ReplicaMove",
    "Scheduler",
    "Seconds",
    "Shape",
    "Share",
    "Slots",
    "Start",
    "Started",
    "Stop",
    "Submitted",
    "Trial",
    "View",
    "Where",
    "Wish",
    "Yarn",
    "explain",
    "load_policy",
    "plain_shape",
]  # fmt: skip
