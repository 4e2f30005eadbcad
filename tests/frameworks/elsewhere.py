"""Programs in processes of their own: one that has the kernels' source and writes a model, one that has nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support import forked_process

SOURCE = Path(__file__).parents[2] / "src"


class Elsewhere:
    """A folder in which one process writes files and a later one, without source and cache, reads them.

    ``modules``: the processes are forked from one that has imported these; with none they are new.
    """

    def __init__(self, folder, *modules):
        self.modules = modules
        self.files = folder / "files"
        self.kernels = folder / "kernels"
        self.cache = folder / "cache"
        self.files.mkdir()

    def write(self, script, **environment):
        """Run ``script``, which may import ``shipped`` (a copy of ``kernels``); then remove its source and cache."""
        self.kernels.mkdir()
        shutil.copy(Path(__file__).with_name("kernels.py"), self.kernels / "shipped.py")
        done = self._run(script, [self.kernels], environment)
        shutil.rmtree(self.kernels)
        shutil.rmtree(self.cache, ignore_errors=True)
        assert done.returncode == 0, done.stderr
        return done

    def read(self, script, **environment):
        """Run ``script`` where neither the source of the kernels nor a cache is."""
        done = self._run(script, [], environment)
        assert done.returncode == 0, done.stderr
        return done

    def fail(self, script, **environment):
        """The output of ``script`` for errors; it must end with one."""
        done = self._run(script, [], environment)
        assert done.returncode != 0
        return done.stderr

    def _run(self, script, paths, environment):
        path = os.pathsep.join(map(str, [*paths, SOURCE, *_others()]))
        variables = {**os.environ, "PYTHONPATH": path, "OPEN_NKI_CACHE": str(self.cache), **environment}
        if self.modules:
            return forked_process.ran(script, modules=self.modules, folder=self.files, environment=variables)
        return subprocess.run(
            [sys.executable, "-c", script],
            cwd=self.files,
            env=variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )


def _others():
    """What the caller's search path holds beside this project."""
    root = SOURCE.parent
    return [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p and Path(p) not in (SOURCE, root)]
