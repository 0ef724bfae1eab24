"""Runs that share their GPUs: their variables at the start, and the reports of the node."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from weft.access.endpoints.config import sharing_setting
from weft.errors import InputError
from weft.model import Health
from weft.node.engine.gpu.sharing import GpuSharing
from weft.node.engine.launch_spec import LaunchSpec
from weft.node.engine.shim import run_files
from weft.node.engine.users import launcher, run_folder
from weft.node.engine.users.accounts import Account
from weft.train.device_page import layout
from weft.train.device_page.page import Page, this_owner


@pytest.fixture
def sharing(tmp_path: Path) -> GpuSharing:
    return GpuSharing(str(tmp_path / "runtime"), str(tmp_path / "jobs"), lambda: True)


def spec(job: str = "7", **keys: object) -> LaunchSpec:
    given: dict[str, object] = {"gpus": (1,), "gpu_share": 0.6, "gpu_request": 0.3, **keys}
    return LaunchSpec(job, 1, ("true",), **given)  # type: ignore[arg-type]


def test_a_run_that_shares_gets_the_pages_of_its_gpus_and_its_share(sharing: GpuSharing, tmp_path: Path) -> None:
    found = sharing.variables(spec(gpus=(1, 3)), {})
    paths = [f"{tmp_path}/runtime/devices/gpu-{gpu}" for gpu in (1, 3)]
    assert found == {"WEFT_DEVICE_PAGE": ":".join(paths), "WEFT_GPU_REQUEST": "0.3", "WEFT_GPU_LIMIT": "0.6"}
    assert os.stat(paths[0]).st_mode & 0o777 == 0o600
    page = Page(paths[0])
    assert layout.rule(page.memory) == layout.PRIO
    page.close()


def test_a_run_with_gpus_of_its_own_gets_nothing(sharing: GpuSharing) -> None:
    assert sharing.variables(spec(gpu_share=None, gpu_request=None), {}) == {}
    assert sharing.shared_runs() == []


def test_a_server_that_marks_no_batches_is_listed_with_what_that_means(sharing: GpuSharing) -> None:
    sharing.variables(spec(health=Health()), {})
    (run,) = sharing.shared_runs()
    assert run.advisory == ("its batches are not marked: training next to it is not paced",)


def test_without_a_driver_runs_get_weights_and_training_may_be_idle(sharing: GpuSharing) -> None:
    sharing.configure("dilu+idle", has_driver=False)
    assert sharing.shim_arguments(spec()) == {"cpu_weight": 30, "scheduler": "idle"}
    assert sharing.shim_arguments(spec(health=Health())) == {"cpu_weight": 30, "scheduler": ""}
    assert sharing.shim_arguments(spec(gpu_share=None, gpu_request=None)) == {"cpu_weight": 0, "scheduler": ""}
    sharing.variables(spec(), {})
    (run,) = sharing.shared_runs()
    assert run.enforced == ("CPU weight 30 (control group)", "SCHED_IDLE")


def test_with_a_driver_cpus_are_left_alone(sharing: GpuSharing) -> None:
    sharing.configure("prio", has_driver=True)
    assert sharing.shim_arguments(spec()) == {"cpu_weight": 0, "scheduler": ""}


def test_the_next_engine_knows_the_shares_of_runs_from_their_files(sharing: GpuSharing, tmp_path: Path) -> None:
    given = spec()
    env = {"WEFT_GPU_IDS": "1", "SECRET": "x", **sharing.variables(given, {})}
    folder = tmp_path / "jobs" / "7" / "1"
    folder.mkdir(parents=True)
    (folder / run_files.SPEC).write_bytes(run_files.to_json({"env": env, **sharing.shim_arguments(given)}))
    before = Path.cwd()
    os.chdir(folder)
    try:
        run_files.forget_environment({"env": env})
    finally:
        os.chdir(before)
    later = GpuSharing(str(tmp_path / "runtime"), str(tmp_path / "jobs"), lambda: True)
    later.adopt([("7", 1), ("8", 1)])
    (run,) = later.shared_runs()
    assert (run.gpu, run.job, run.kind, run.request, run.limit) == (1, "7", "training", 0.3, 0.6)
    later.leave("7", 1)
    assert later.shared_runs() == []


def test_a_process_of_the_scheduler_idle_lets_others_go_first(tmp_path: Path) -> None:
    out = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
    before = Path.cwd()
    try:
        words = ["sh", "-c", "sleep 0.3; cut -d' ' -f41 /proc/self/stat"]
        spec = {"argv": words, "env": {"PATH": os.environ["PATH"]}, "umask": 0o022, "scheduler": "idle"}
        pid = launcher.start(None, spec, str(tmp_path), ("", out, out), [])
        assert os.waitpid(pid, 0)[1] == 0
    finally:
        os.chdir(before)
        os.close(out)
    assert (tmp_path / "out").read_text().strip() == str(os.SCHED_IDLE)


def test_an_unknown_rule_is_an_error_that_names_the_rules() -> None:
    assert sharing_setting({"WEFT_SHARING": "prio+idle", "HOME": "/nowhere"}) == "prio+idle"
    for wrong in ("never", "prio+nice"):
        with pytest.raises(InputError, match="unknown rule") as caught:
            sharing_setting({"WEFT_SHARING": wrong, "HOME": "/nowhere"})
        assert "prio, dilu, off" in str(caught.value)


# ---- runs that use the accounts of their submitters

ANN, BEN = Account(54_321, 54_321, ()), Account(54_322, 54_322, ())
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")


@pytest.fixture
def entered(tmp_path: Path) -> Path:
    """A folder that other users reach."""
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(0o711)
    (tmp_path / "jobs").mkdir()
    return tmp_path


def join_as(account: Account, path: str, job: str, request: float = 0.3) -> None:
    """Claim a slot of a page as a process of this user."""
    env = {"WEFT_JOB_ID": job, "WEFT_RUN": "1", "WEFT_GPU_REQUEST": f"{request}", "WEFT_GPU_LIMIT": "0.6"}
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgid(account.gid)
            os.setuid(account.uid)
            Page(path).claim(this_owner(layout.TRAINING, env))
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


@needs_root
def test_each_user_has_a_page_of_a_gpu(entered: Path) -> None:
    sharing = GpuSharing(f"{entered}/runtime", f"{entered}/jobs", lambda: True)
    pages = [
        sharing.variables(spec(job, account=account), {})["WEFT_DEVICE_PAGE"]
        for job, account in (("7", ANN), ("8", BEN), ("9", BEN))
    ]
    assert pages[0] != pages[1] == pages[2]
    found = os.stat(pages[0])
    assert (found.st_uid, found.st_mode & 0o777) == (ANN.uid, 0o600)
    assert os.stat(entered / "devices").st_mode & 0o777 == 0o711
    join_as(ANN, pages[0], "7")
    join_as(BEN, pages[1], "7")  # says that it is another user's job
    advice = {run.job: run.advisory for run in sharing.shared_runs()}
    assert advice["7"] == ("pacing between layers (prio, next to services of the same user)",)
    assert "no pacing" in advice["8"][0]
    sharing.leave("8", 1)
    assert os.path.exists(pages[2])
    sharing.leave("9", 1)
    assert not os.path.exists(pages[2])
    assert [run.job for run in sharing.shared_runs()] == ["7"]


@needs_root
def test_a_page_that_its_user_damages_does_not_harm_the_engine(entered: Path) -> None:
    sharing = GpuSharing(f"{entered}/runtime", f"{entered}/jobs", lambda: True)
    page = sharing.variables(spec("7", account=ANN), {})["WEFT_DEVICE_PAGE"]
    os.truncate(page, 0)
    (run,) = sharing.shared_runs()
    sharing.heal()
    assert "no pacing" in run.advisory[0]
    assert sharing.variables(spec("8", account=ANN), {})["WEFT_DEVICE_PAGE"] == page
    join_as(ANN, page, "8")
    assert [run.advisory[0][:6] for run in sharing.shared_runs()] == ["no pac", "pacing"]


@needs_root
def test_the_next_engine_finds_the_page_of_a_user(entered: Path) -> None:
    sharing = GpuSharing(f"{entered}/runtime", f"{entered}/jobs", lambda: True)
    given = spec(account=ANN)
    env = {"WEFT_GPU_IDS": "1", **sharing.variables(given, {})}
    folder = entered / "jobs" / "7" / "1"
    folder.mkdir(parents=True)
    run_folder.prepare(str(folder), ANN)
    (folder / run_files.SPEC).write_bytes(run_files.to_json({"env": env, **sharing.shim_arguments(given)}))
    join_as(ANN, env["WEFT_DEVICE_PAGE"], "7")
    later = GpuSharing(f"{entered}/runtime", f"{entered}/jobs", lambda: True)
    later.adopt([("7", 1)])
    (run,) = later.shared_runs()
    assert "pacing between layers" in run.advisory[0]
    later.leave("7", 1)
    assert not os.path.exists(env["WEFT_DEVICE_PAGE"])
