"""Policies and placements by name, with options; from a file; from another package."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from weft.cli.main import main
from weft.errors import InputError, UnknownName
from weft.scheduling.core.ports import Policy
from weft.scheduling.placements.packed import Packed
from weft.scheduling.plugins import registry
from weft.scheduling.policies.fair_share import FairShare
from weft.scheduling.policies.fifo import Fifo
from weft.scheduling.policies.muri import MuriL, MuriS
from weft.scheduling.policies.srsf import Srsf
from weft.scheduling.policies.srtf import Srtf
from weft.scheduling.policies.tiresias import Tiresias

OWN = """
from dataclasses import dataclass
from weft.scheduling.core.ports import Policy

@dataclass(frozen=True)
class Longest(Policy):
    factor: float = 1.0
    limit: int | None = None

    def key(self, job, now):
        return -self.factor * job.remaining(now)

class Plain(Policy):
    pass

@dataclass(frozen=True)
class Picky(Policy):
    size: int = 1

    def __post_init__(self):
        if self.size < 1:
            raise ValueError("size must be at least 1")
"""

SPECS: dict[str, Policy] = {
    "fifo": Fifo(),
    "tiresias": Tiresias(),
    "tiresias:thresholds=10": Tiresias(thresholds=(10.0,)),
    "tiresias:thresholds=3250+7200+1e5": Tiresias(thresholds=(3250.0, 7200.0, 1e5)),
    "muri-s:packing=2:autopack=off": MuriS(packing=2, autopack=False),
    "muri-l:blossom=off:ordering=worst": MuriL(blossom=False, ordering="worst"),
    "muri-l:blossom=ON": MuriL(),
    "fair-share:weights=ann=1e3+bob=.5": FairShare(weights=("ann=1e3", "bob=.5")),
    "fair-share:weights=none": FairShare(),
    "shortest": Srtf(),
    "shortest-gpu": Srsf(),
    "dlas-gpu": Tiresias(),
    "dlas-gpu:thresholds=5+6": Tiresias(thresholds=(5.0, 6.0)),
    "multi-resource-blossom-same-gpu": MuriS(),
    "multi-resource-blossom-same-gpu-unaware": MuriL(),
    "multi-resource-gpu-unaware": MuriL(blossom=False),
    "multi-resource-gpu-unaware:packing=3": MuriL(blossom=False, packing=3),
    "multi-resource-blossom-same-gpu-unaware-worstordering": MuriL(ordering="worst"),
}


@pytest.mark.parametrize(("spec", "expected"), SPECS.items())
def test_a_spec_makes_a_policy(spec: str, expected: Policy) -> None:
    assert registry.load_policy(spec) == expected


def test_the_names_are_all_there() -> None:
    assert {"fifo", "sjf", "srtf", "srsf", "las", "tiresias", "themis", "antman", "muri-s", "muri-l"} <= set(
        registry.registered_plugins("weft.policies")
    )
    assert {"yarn", "packed", "spread", "count"} <= set(registry.registered_plugins("weft.placements"))
    assert registry.load_placement("packed") == Packed()


@pytest.mark.parametrize("name", registry.registered_plugins("weft.policies"))
def test_every_policy_can_be_made_and_brings_a_placement(name: str) -> None:
    policy = registry.load_policy(name)
    assert isinstance(policy, Policy)
    registry.load_placement(policy.placement)


WRONG: dict[str, str] = {
    "srttf": "unknown policy 'srttf'\n  the nearest is srtf; known: antman, balanced, ",
    "murry-l": "unknown policy 'murry-l'\n  the nearest is muri-l; known: antman, ",
    "tiresias:treshold=1": "unknown option of tiresias 'treshold'\n  known: thresholds",
    "muri-s:pack=2": "unknown option of muri-s 'pack'\n  known: packing, autopack",
    "fifo:speed=2": "unknown option of fifo 'speed'",
    "muri-s:packing=5": "muri-s:packing cannot be '5'\n  one of 2, 3, 4",
    "muri-s:autopack=maybe": "muri-s:autopack cannot be 'maybe'\n  one of on, off",
    "muri-s:packing": "option 'packing' of 'muri-s:packing' has no value",
    "tiresias:thresholds=ten": "tiresias:thresholds must be a number, not 'ten'",
    "tiresias:thresholds=1+": "tiresias:thresholds must be a number, not ''",
    "tiresias:thresholds=nan": "tiresias:thresholds must be finite",
    "tiresias:": "no option after the last colon of policy 'tiresias:'\n  write tiresias, or tiresias:option=value",
    "priority:ageing_s=0": "priority: ageing_s must be above 0, or none, not 0",
    "priority:ageing_s=-5": "priority: ageing_s must be above 0, or none, not -5",
    "fair-share:ahead_s=-1": "fair-share: ahead_s must be 0 or more, not -1",
    "fair-share:weights=ann=0": "fair-share: write weights as user=weight, with a weight above 0, not 'ann=0'",
    "fair-share:weights=ann=inf": "fair-share: write weights as user=weight, with a weight above 0",
    "fair-share:weights=ann": "fair-share: write weights as user=weight, with a weight above 0, not 'ann'",
    "fair-share:weights=ann=1+ann=2": "fair-share: a user has two weights",
    "": "unknown policy ''",
    "nowhere/file.py:Thing": "no such file: nowhere/file.py",
    "file.py": "no class named in 'file.py'",
}


@pytest.mark.parametrize(("spec", "message"), WRONG.items())
def test_a_wrong_spec_is_explained(spec: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        registry.load_policy(spec)
    assert str(caught.value).startswith(message)


def test_a_wrong_placement_lists_placements_only() -> None:
    with pytest.raises(UnknownName) as caught:
        registry.load_placement("paked")
    assert str(caught.value).startswith("unknown placement 'paked'\n  the nearest is packed; known: balanced, ")
    assert "srtf" not in str(caught.value)


# ---- one's own


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.py"
    path.write_text(OWN)
    return path


def test_a_policy_from_a_file(own: Path) -> None:
    policy = registry.load_policy(f"{own}:Longest:factor=2:limit=3")
    assert type(policy).__name__ == "Longest"
    assert (getattr(policy, "factor"), getattr(policy, "limit")) == (2.0, 3)  # noqa: B009
    assert getattr(registry.load_policy(f"{own}:Longest:limit=none"), "limit") is None  # noqa: B009


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        (":Longst", "known: Longest"),
        (":Policy", "unknown class"),
        (":Longest:factr=2", "known: factor"),
        (":Longest:limit=1.5", "must be a whole number, not '1.5'"),
        (":Plain", "is not a dataclass"),
        (":Picky:size=0", "size must be at least 1"),
    ],
)
def test_a_wrong_policy_from_a_file_is_explained(own: Path, rest: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        registry.load_policy(f"{own}{rest}")


HEAD = "from dataclasses import dataclass\nfrom weft.scheduling.core.ports import Policy\n\n"
UNLOADABLE: dict[str, tuple[str, int, str]] = {
    "import": ("\nimport nonsense_that_is_not_there\n", 2, "ModuleNotFoundError: No module named"),
    "syntax": ("x = 1\ndef f(:\n", 2, "SyntaxError: "),
    "exit": ("import sys\n\nsys.exit(7)\n", 3, "it calls sys.exit(7)"),
    "exit deeper": ("def f():\n    raise SystemExit\nf()\n", 2, "it calls sys.exit(None)"),
    "exit of the class": (
        f"{HEAD}@dataclass(frozen=True)\nclass Thing(Policy):\n    def __post_init__(self):\n        quit(1)\n",
        7,
        "it calls sys.exit(1)",
    ),
    "error of the class": (
        f"{HEAD}@dataclass(frozen=True)\nclass Thing(Policy):\n    def __post_init__(self):\n        {{}}['a']\n",
        7,
        "KeyError: 'a'",
    ),
}


@pytest.mark.parametrize(("text", "line", "says"), UNLOADABLE.values(), ids=UNLOADABLE)
def test_a_file_that_does_not_load_is_explained(tmp_path: Path, text: str, line: int, says: str) -> None:
    path = tmp_path / "bad.py"
    path.write_text(text)
    with pytest.raises(InputError, match=r"cannot load .*bad.py") as caught:
        registry.load_policy(f"{path}:Thing")
    assert caught.value.where == f"{path}:{line}"
    assert says in caught.value.what


REFUSED: dict[str, tuple[str, str]] = {
    "no policy": ("class Thing: ...\n", "is not a policy"),
    "a dataclass that is no policy": ("@dataclass(frozen=True)\nclass Thing: ...\n", "is not a policy"),
    "no dataclass": ("class Thing(Policy): ...\n", "is not a dataclass"),
    "a needed option": (
        "@dataclass(frozen=True)\nclass Thing(Policy):\n    size: int\n",
        r"thing.py:Thing needs option 'size'\n  write .*thing.py:Thing:size=VALUE",
    ),
    "an unknown annotation": (
        "@dataclass(frozen=True)\nclass Thing(Policy):\n    size: 'nosuch' = 1\n",
        r"thing.py: cannot load the options of .*: NameError",
    ),
}


@pytest.mark.parametrize(("text", "says"), REFUSED.values(), ids=REFUSED)
def test_a_class_that_is_no_policy_is_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "thing.py").write_text(HEAD + text)
    with pytest.raises(InputError, match=says):
        registry.load_policy(f"{tmp_path / 'thing.py'}:Thing")


def test_a_file_that_is_not_python_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thing").write_bytes(b"\x7fELF")
    with pytest.raises(InputError, match="not a Python file"):
        registry.load_policy(f"{tmp_path / 'thing'}:Thing")


# ---- other packages


def install(where: Path, package: str, entry: str, monkeypatch: pytest.MonkeyPatch, text: str = OWN) -> None:
    """Another package, as pip would install it."""
    where.mkdir()
    (where / f"{package}.py").write_text(text)
    info = where / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[weft.policies]\n{entry} = {package}:Longest\n")
    monkeypatch.syspath_prepend(str(where))
    importlib.invalidate_caches()
    monkeypatch.delitem(sys.modules, package, raising=False)


def test_an_installed_package_brings_a_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "site", "longest_first", "longest", monkeypatch)
    assert "longest" in registry.registered_plugins("weft.policies")
    assert type(registry.load_policy("longest:factor=3")).__name__ == "Longest"
    with pytest.raises(UnknownName, match="the nearest is longest; known: antman"):
        registry.load_policy("longst")


@pytest.mark.parametrize(("text", "says"), [("\n1 / 0\n", "ZeroDivision"), ("\nexit(4)\n", "sys.exit(4)")])
def test_an_installed_package_that_does_not_load_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    install(tmp_path / "site", "broken_one", "broken", monkeypatch, text)
    with pytest.raises(InputError) as caught:
        registry.load_policy("broken")
    assert caught.value.where == f"{tmp_path / 'site' / 'broken_one.py'}:2"
    assert says in caught.value.what
    assert main(["policies"]) == 0, "the others are listed"
    out = capsys.readouterr().out
    assert "policy\tbroken\t-\tcannot be loaded from broken_one:Longest: " in out
    assert "policy\tfifo\t" in out


def test_a_clash_of_names_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "site", "longest_again", "fifo", monkeypatch)
    with pytest.raises(InputError, match=r"two packages register 'fifo' in weft\.policies"):
        registry.load_policy("fifo")
