"""What pyproject.toml cannot say: the wheel holds the examples, the scripts for workspaces, and the commit it is of."""

import shutil
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SHIPPED = ("examples", "src/scripts/scheduler")


class Build(build_py):
    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        package = Path(self.build_lib, "weft")
        for folder in filter(Path.is_dir, map(Path, SHIPPED)):
            left_out = shutil.ignore_patterns("__pycache__", ".*", "*.egg-info", "ruff.toml")
            shutil.copytree(folder, package / "shipped" / folder, ignore=left_out, dirs_exist_ok=True)
        commit = subprocess.run(
            ["git", "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True
        ).stdout.strip()
        version = package / "version.py"
        version.write_text(version.read_text().replace('BUILD: Final = ""', f'BUILD: Final = "{commit}"'))


setup(cmdclass={"build_py": Build})
