"""open_nki.shims: one switch, files of serving stacks run unchanged, and an installed package stays itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import nki
from nki.compilation.bridges import STAND_INS
from nki.harness import vendor_platform, xla_device
from nki.harness.stand_in_names import MODULES
from tests.support.fresh_process import ROOT, finished

FILE = Path(__file__).parent / "kernel_file.py"


def ran(*arguments: str, cwd: Path = ROOT, path: str = "") -> subprocess.CompletedProcess[str]:
    """``python`` with these arguments; sources, and ``path`` behind them, are importable."""
    paths = os.pathsep.join([str(ROOT / "src"), path, os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": paths},
    )  # fmt: skip


def test_a_file_of_a_serving_stack_runs_unchanged() -> None:
    done = ran("-m", "open_nki.shims", str(FILE))
    assert done.stdout == "ran\n", done.stderr[-3000:]


def test_without_the_switch_nothing_is_there() -> None:
    done = ran(str(FILE))
    assert "No module named 'libtorch_neuronx_lite'" in done.stderr


def test_nothing_else_imports_it() -> None:
    assert finished("import sys, nki, nki.cli, nki.torch\nprint('open_nki' in sys.modules)").stdout == "False\n"


def test_modules_arguments_and_the_list(tmp_path: Path) -> None:
    (tmp_path / "prog.py").write_text("import sys, torch_neuronx\nprint(sys.argv[1:], __name__)")
    assert ran("-m", "open_nki.shims", "-m", "prog", "-x", "1", cwd=tmp_path).stdout == "['-x', '1'] __main__\n"
    assert ran("-m", "open_nki.shims", "prog.py", "--y", cwd=tmp_path).stdout == "['--y'] __main__\n"
    listed = ran("-m", "open_nki.shims").stdout.splitlines()
    assert listed == [f"{name}: stand-in of Open NKI" for name in MODULES if "." not in name]


def test_an_installed_package_stays_itself_and_the_shims_say_so(tmp_path: Path) -> None:
    (tmp_path / "torch_neuronx").mkdir()
    (tmp_path / "torch_neuronx" / "__init__.py").write_text("wrap_nki = 'installed'\n")
    program = (
        "import warnings, open_nki.shims as shims\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    found = shims.install()\n"
        "import sys, torch_neuronx, libtorch_neuronx_lite.nki.nki_hop\n"
        "print(torch_neuronx.wrap_nki, *list(found.values())[:2], shims.status() == found)\n"
        "for each in caught: print(each.category.__name__, each.message)"
    )
    done = ran("-c", program, path=str(tmp_path))
    first, *warned = done.stdout.splitlines()
    assert first == "installed False True True", done.stderr[-2000:]
    assert len(warned) == 1
    assert warned[0].startswith("NkiPortabilityWarning torch_neuronx is installed")


def test_another_owner_of_the_device_keeps_it() -> None:
    program = (
        "import torch, open_nki.shims\n"
        "torch.utils.rename_privateuse1_backend('other')\n"
        "open_nki.shims.install()\n"
        "import torch_neuronx\n"
        "try: torch.device('neuron')\nexcept RuntimeError: print(torch.device('other').type)"
    )
    assert finished(program).stdout == "other\n"


def test_plugin(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("import torch_neuronx\n")
    (tmp_path / "test_it.py").write_text("import jax_neuronx\n\n\ndef test_it():\n    assert jax_neuronx.nki_call\n")
    # The conftest is imported in both processes: in the first one as without xdist.
    done = ran("-m", "pytest", "-p", "nki_pytest", "--nki-shims", "-n1", "-p", "xdist", cwd=tmp_path)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    assert "nki-shims: torch_neuronx, libtorch_neuronx_lite, jax_neuronx, torch_xla" in done.stdout
    assert "No module named 'torch_neuronx'" in ran("-m", "pytest", "-p", "nki_pytest", cwd=tmp_path).stderr


def test_status_before_the_switch() -> None:
    if not any(finder is STAND_INS for finder in sys.meta_path):
        with pytest.raises(RuntimeError):
            STAND_INS.packages()


def test_a_second_device_is_refused() -> None:
    assert xla_device.xla_device(0, "CPU").type == "cpu"
    assert (xla_device.get_ordinal(), xla_device.xrt_world_size(), xla_device.is_master_ordinal()) == (0, 1, True)
    for arguments in ((1,), (0, "NEURON")):
        with pytest.raises(nki.NkiError, match="only device here is the CPU") as caught:
            xla_device.xla_device(*arguments)
        assert caught.value.fix


def test_logical_cores_are_those_of_a_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    assert vendor_platform.get_logical_neuron_cores() == 2
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "3")
    with pytest.raises(nki.NkiError, match="one or two cores"):
        vendor_platform.get_logical_neuron_cores()
    monkeypatch.delenv("NEURON_LOGICAL_NC_CONFIG")
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")
    assert (vendor_platform.get_logical_neuron_cores(), vendor_platform.get_platform_target()) == (1, "trn2")
