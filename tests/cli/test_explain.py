"""``nki explain``."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

import nki as package
from nki.base.errors import NkiError
from nki.describe import public_names
from nki.describe.explanations import about
from nki.describe.rule_texts import grouped
from nki.ir.instruction import REGISTRY
from nki.isa.tables.operators import OPS
from nki.language.nki_tensor import NkiTensor
from nki.language.releases.v0_2 import OF_BETA_1
from tests.support.command_line import complaint


def test_every_error_is_explained(nki):
    for code, cls in list(NkiError.registry.items()):  # what explains one may define more
        ran = nki("explain", code)
        assert ran.code == 0 and ran.out.startswith(f"{code}: {cls.__name__}\n")
        assert (cls.__doc__ or "").split()[0] in ran.out


def test_every_instruction_and_rule_is_explained(nki):
    known = [name for name, cls in REGISTRY.items() if cls.public]
    assert len(known) >= 18
    for name in known:
        ran = nki("explain", f"nisa.{name}")
        assert ran.code == 0 and ran.out.startswith(f"nisa.{name}(")
        assert "{" not in ran.out.partition("\nrules\n")[2]
        for rule in REGISTRY[name].rules:
            assert f"\n  {rule.code}  " in ran.out
    for code in {rule.code for name in known for rule in REGISTRY[name].rules}:
        ran = nki("explain", code)
        assert ran.code == 0 and ran.out.startswith(f"rule {code}\n") and "instructions: " in ran.out


def test_an_instruction_is_explained_with_operands_example_and_cost(nki):
    shown = nki("explain", "tensor_scalar").out
    assert (
        "\nengines: vector, scalar, gpsimd\ntargets: trn1, trn2, trn3\nruns as: NumPy (nki.simulate), native code\n"
        in shown
    )
    assert "\n  dst (out): in sbuf, psum; every dtype that computes\n" in shown
    assert "\n  operand0 (in): in sbuf, psum; float32; or a number or nothing\n" in shown
    assert "\nexample\n  @nki.jit\n  def tensor_scalar(x, mean):\n" in shown
    assert "\ncost\n  max(64, N / w) + issue cycles for N elements per partition; w = 1, 2 or 4 by" in shown
    assert "of vector, complete after" in shown and " ns, on trn2 [docs: NKI reference" in " ".join(shown.split())


def test_dtypes_and_memory_are_what_the_rules_accept(nki):
    assert "\n  dst (out): in psum; float32, bfloat16\n" in nki("explain", "nc_matmul").out
    assert "\n  indices (in): in sbuf; uint32\n" in nki("explain", "nc_n_gather").out
    assert "\n  src (in): in register; int32; or a number\n" in nki("explain", "register_move").out
    # Beside these, 64-bit integers to the same ones: a copy that converts has neither operand of 64 bits.
    assert "\n  dst (out): in sbuf, hbm, shared_hbm; every dtype of up to 32 bits\n" in nki("explain", "dma_copy").out


def test_targets_of_instructions_and_rules(nki):
    assert "\ntargets: trn3\n" in nki("explain", "rand2").out
    assert "does not have this instruction [NKI-TG002, on trn1, trn2]\n" in nki("explain", "rand2").out


def test_every_operator_is_explained(nki):
    for name, op in OPS.items():
        ran = nki("explain", f"nl.{name}")
        assert ran.code == 0 and ran.out.startswith(f"nl.{name}")
        assert ("\nALU operator\n" in ran.out, "\nactivation function\n" in ran.out) == (bool(op.alu), bool(op.act))
    shown = nki("explain", "nl.exp").out
    assert shown.startswith("nl.exp(x, dtype=None)\n") and "\n  formula: e^x\n" in shown
    assert shown.endswith("\n  activate2(op=), activation(op=), activation_reduce(op=)\n")
    assert "\n  targets: trn3\n" in nki("explain", "abs_max").out
    assert "tensor_reduce(op=)" not in nki("explain", "nl.divide").out.partition("\ntaken by\n")[2]


def test_functions_of_the_language_are_explained(nki):
    shown = nki("explain", "nl.load").out
    assert shown.startswith("nl.load(src, dtype=None)\n\nA new SBUF tile")
    assert nki("explain", "load").out == shown
    # A name that is both is the instruction, unless it says where it is from.
    assert nki("explain", "reciprocal").out.startswith("nisa.reciprocal(dst, data")
    assert nki("explain", "nl.reciprocal").out.startswith("nl.reciprocal(x")
    assert "did you mean exp" in complaint(nki("explain", "nisa.exp"))


def test_rules_that_differ_in_the_operand_are_shown_once(nki):
    shown = nki("explain", "tensor_tensor").out
    assert shown.count("TL02  operand has P partitions") == 1
    assert "operand: dst, data1, data2" in shown
    codes = [g.rule.code for g in grouped([REGISTRY["tensor_tensor"]])]
    assert len(codes) == len(set(codes))


def test_error_lists_its_rules_and_an_error_report_can_be_pasted(nki):
    assert "TL02  operand has" in nki("explain", "NKI-SH002").out
    assert nki("explain", "[NKI-SH002/TL02]").out == nki("explain", "tl02").out


def test_errors_show_a_golden_report(nki):
    shown = nki("explain", "NKI-FE016").out
    assert "\n  del " in shown or "\n      del " in shown
    assert "[NKI-FE016] NKI has no `del`" in shown and "\n    fix: use `pop`" in shown


def test_all_topics_are_listed(nki):
    shown = nki("explain").out
    for name in (*NkiError.registry, *(n for n, cls in REGISTRY.items() if cls.public)):
        assert re.search(rf"^  {name} +\S", shown, re.MULTILINE), name
    listed = set(re.split(r"[,\s]+", shown))
    assert {f"nl.{name}" for name in OPS} | {"nl.load", "nl.device_print", "TL02", "TS03"} <= listed


def test_unknown_topics(nki):
    assert "did you mean tensor_scalar" in complaint(nki("explain", "tensor_scalr"))
    assert "NKI-SH001" in complaint(nki("explain", "NKI-SH01"))
    assert "no rule 'XX99'" in complaint(nki("explain", "NKI-SH001/XX99"))
    assert "nki explain" in complaint(nki("explain", "~~~~"))
    assert "did you mean OPEN_NKI_CACHE" in complaint(nki("explain", "OPEN_NKI_CACH"))
    assert "t.shape" in complaint(nki("explain", "t.shap"))
    assert "nl.float16" in complaint(nki("explain", "nl.float15"))


def listed_names() -> list[str]:
    """Each name that a kernel or its caller may write, as code has it."""
    found = [f"nki.{name}" for name in package.__all__]
    spaces = {"nl": package.language, "nisa": package.isa, "nccl": package.collectives, "nt": package.typing}
    for short, module in {**spaces, "nki.dtype": package.dtype}.items():
        assert isinstance(module, ModuleType)
        for name in module.__all__:
            found.append(f"{short}.{name}")
            value = getattr(module, name)
            members = getattr(value, "__members__", {}) if isinstance(value, type) else {}
            found += [f"{short}.{name}.{member}" for member in members]
    found += [f"nl.tile_size.{name}" for name in dir(package.language.tile_size) if name[0] != "_"]
    return found + [f"t.{name}" for name in dir(NkiTensor) if name[0] != "_"]


def explained(name: str) -> str:
    """The explanation of a name, which has a title and says something."""
    text = about(name)
    assert len(text.partition("\n\n")[2].strip()) > 7, text
    assert " object at 0x" not in text and "<function" not in text, text
    return text


@pytest.mark.parametrize("space", ["nki.", "nl.", "nisa.", "nccl.", "nt.", "t."])
def test_every_public_name_is_explained(space: str) -> None:
    # Tests above explain operators and instructions, which takes long.
    tested = {*(f"nl.{name}" for name in OPS), *(f"nisa.{name}" for name in REGISTRY)}
    chosen = [name for name in listed_names() if name.startswith(space) and name not in tested]
    assert chosen
    for name in chosen:
        title = explained(name).partition("\n")[0]
        assert name.rpartition(".")[2].rstrip("_") in title, (name, title)


def test_every_name_of_the_index_is_explained_under_its_short_form() -> None:
    assert len(public_names.index()) > 400
    for name, text in public_names.index().items():
        assert public_names.explain(public_names.short(name)) and text().partition("\n\n")[2].strip(), name


def test_removed_names_are_explained_with_what_to_write() -> None:
    for name, fix in {**OF_BETA_1.names, **OF_BETA_1.parameters, **OF_BETA_1.keywords}.items():
        kept = public_names.short(name).rpartition(".")[2] in ("dtype", "name")  # also names of today
        if not kept and name not in OF_BETA_1.misplaced:
            assert f"\n  fix: {fix}" in about(name), name
    for name in OF_BETA_1.misplaced:
        assert "not after NKI 0.2" in about(name)
    for name, fix in OF_BETA_1.attributes.items():
        assert fix in about(f"nl.psum.{name}")


def test_every_environment_variable_is_explained() -> None:
    source = Path(inspect.getfile(package)).parent
    read = re.compile(r"""(?:environ(?:\.get\(|\[)|_lookup\(b)"([A-Z_]+)\"""")
    variables = {name for file in source.rglob("*.py") for name in read.findall(file.read_text(encoding="utf-8"))}
    assert {"NKI_SIMULATOR", "OPEN_NKI_CACHE", "NKI_PRECISE_FP"} <= variables
    # XLA's own, which NEURON_FRAMEWORK_DEBUG extends, and torchrun's own
    variables -= {"XLA_FLAGS", "TORCHELASTIC_RESTART_COUNT"}
    for name in (*variables, "NEURON_PLATFORM_TARGET_OVERRIDE"):
        assert "environment variable" in explained(name)


def test_targets_show_their_numbers() -> None:
    shown = explained("trn2")
    assert shown.startswith("trn2: NeuronCore-v3, also called gen3\n")
    assert re.search(r"^  sbuf partition bytes +229376 bytes \[docs\]$", shown, re.MULTILINE)
    assert re.search(r"^  psum banks +8 banks \[docs\]$", shown, re.MULTILINE)
    assert about("gen3") == about("TRN2") == shown


@pytest.mark.parametrize("written", ["@nki.jit", "nki.jit(", "`nki.jit`", "nki.jit(platform_target='trn2')", "jit"])
def test_names_may_be_pasted_from_code(written: str) -> None:
    assert about(written).startswith("nki.jit(fn=None, **options)\n")


def test_dtypes_buffers_and_members() -> None:
    assert "2 bytes per element\nlargest number: 3.38953e+38" in about("nl.bfloat16")
    assert "  trn2: partitions 128, psum partition bytes 16384, psum banks 8, psum bank bytes 2048\n" in about("psum")
    assert about("nisa.engine.vector").startswith("nisa.engine.vector = 5\n\nThe engines of a NeuronCore")
    assert about("tensor.reshape") == about("t.reshape") == about("NkiTensor.reshape")
    assert "see also: nl.MemoryRegion.sbuf" in about("sbuf").replace("nki.compiler.sbuf, ", "")
