"""Error codes of the vendor's graph compiler (``NCC_…``): their meaning for a kernel, and our check that comes before.

A row holds the codes, their meaning, the checks of Open NKI that find the mistake earlier (errors, or rules as
``error/rule``), advice, and the source. Codes with an I are the compiler's internal errors; only release notes and
reports describe them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_PAGES: Final = "Neuron documentation, Neuron Compiler Error Codes"
_NOTES: Final = "Neuron release notes, compiler"
_REPORT: Final = "reports in public repositories; no document describes it"


class Row(NamedTuple):
    """Codes with one meaning; codes of the compiler without ``NCC_``."""

    codes: str
    meaning: str
    checks: str = ""
    advice: str = ""
    source: str = _PAGES


_GRAPH: Final = "It concerns an operation of the framework's graph; a kernel cannot cause it."
_MX_CALL: Final = (
    "It concerns MX quantisation as an operation of the graph. For kernels the rules of nisa.quantize_mx say the same."
)
_MX_MATMUL: Final = (
    "It concerns the MX product as an operation of the graph. For kernels the rules of nisa.nc_matmul_mx say the same."
)
_COMPILER_BUG: Final = "Change the part of the model around the kernel, or take another release of the compiler."

ROWS: Final = (
    # Cores
    Row(
        "EARG001",
        "The target has no logical cores of that many physical ones; trn1 has only single cores.",
        "NKI-KN006",
        "Set NEURON_LOGICAL_NC_CONFIG and the brackets of launches to a number that the target has.",
    ),
    Row(
        "EVRF066",
        "A kernel was specialised for another number of cores than the graph that calls it. Without brackets and "
        "without NEURON_LOGICAL_NC_CONFIG a kernel has one core; neuronx-cc takes two on trn2 and later.",
        "NKI-KN020",
        "Set NEURON_LOGICAL_NC_CONFIG for the whole process, and write no brackets. The option --lnc in "
        "NEURON_CC_FLAGS is not seen here.",
    ),
    Row(
        "IXGM002",
        "The programs of two cores differ in their basic blocks: in their device loops. One cause is a kernel for one "
        "core in a graph for two; another one is a loop that only one core has.",
        "NKI-KN020",
        "Launch on as many cores as the graph has, and let every core run every device loop, with no rounds where it "
        "has no work. A loop that only one core has runs here.",
        "aws-neuron-sdk issue 1388",
    ),
    Row(
        "IXLV002",
        "The barriers of two cores do not correspond. It was seen where a graph calls a kernel with nisa.sendrecv "
        "twice.",
        "NKI-KN011 NKI-KN012",
        "If the kernel passes here, the cores agree within it; the defect is one of several calls in a graph.",
        "aws-neuron-sdk issue 1298",
    ),
    # Size
    Row(
        "EBVF030 EVRF007 EXTP004",
        "There are more instructions than the compiler takes. In a kernel every round of a Python loop counts.",
        "",
        "Write long loops as nl.fori_loop, which is one instruction sequence. `nki run` shows the number of "
        "instructions; Open NKI has no limit.",
    ),
    Row(
        "EOOM001 EOOM002 EVRF009 EXSP001",
        "Tensors of the model need more HBM than the core has. Tensors that a kernel allocates there count.",
        "NKI-BU003",
        "A single tensor beyond the memory is found here; the sum over a model is not.",
    ),
    Row(
        "IBIR229",
        "Tensors on chip need more than a partition has.",
        "NKI-BU003 NKI-BU004",
        "`nki dump --memory` shows the tiles that are live together.",
        _NOTES,
    ),
    Row("EBIR023", "An MLP kernel of the vendor's library got an intermediate size of more than 4096."),
    # Types
    Row(
        "EVRF004 EVRF005 ESPP004 ESPP047 ESFH002",
        "A type that the hardware does not have: complex numbers, 8-bit floats of other makers (fnuz), 4-bit floats "
        "that are not packed, 64-bit constants beyond 32 bits.",
        "NKI-DT001 NKI-DT002",
        "Convert before the call. A complex number is two real ones.",
    ),
    Row(
        "EVRF051",
        "float8_e4m3fn exists from trn3 on; trn1 and trn2 have float8_e4m3, with 240 as its largest number.",
        "NKI-DT002/MM06",
        "Clamp to 240 and convert to float8_e4m3, or target trn3.",
    ),
    Row("EVRF052", "float8_e4m3 ends with trn3; later targets have float8_e4m3fn.", "", "Use float8_e4m3fn there."),
    Row(
        "EVRF035",
        "A matrix product of integers: the Tensor engine multiplies floats only.",
        "NKI-DT002/MM06",
        "Convert to bfloat16 if the numbers are small, else to float32.",
    ),
    Row("EVRF013", "A top-k of integers in the graph.", "", "In a kernel nisa.max8 and nisa.topk state their types."),
    Row(
        "EVRF022", "An arithmetic shift of numbers that have not 32 bits, in the graph.", "", "Convert to int32 before."
    ),
    Row(
        "EVRF016 EVRF060 EVRF061 EVRF062 EVRF063",
        "A reduction, a scatter with a sum, a power or a collective on integers: they are computed in float32, which "
        "is exact up to 2^24, or in 32 bits.",
        "",
        "Convert, or accept the loss with --implicit-integer-downcast. In kernels docs/numerics.md says what each "
        "instruction does with integers.",
    ),
    # Indices, shapes, access patterns
    Row(
        "EVRF031 EVRF056 ESMP002",
        "A gather or scatter of the graph with constant indices that lead outside their tensor.",
        "NKI-TN001 NKI-RG005",
        "In a kernel, constant indices are checked when it is compiled, those in tensors when it runs.",
        f"{_PAGES}; {_NOTES}",
    ),
    Row(
        "EMOD025",
        "A shape of the graph is not fixed. A kernel is specialised for numbers.",
        "",
        "Compile with dynamic=False, or pad to a few sizes.",
    ),
    Row("EVRF064", "Shapes of the graph contradict each other before any kernel is looked at.", "", _GRAPH),
    Row(
        "IBIR243",
        "An access pattern leads outside of its tensor.",
        "NKI-TN001 NKI-IR003",
        "",
        _REPORT,
    ),
    Row(
        "IBIR158",
        "An access pattern on chip that the engines cannot walk: its first step must be a whole partition.",
        "NKI-TN002",
        "Slice along the free dimensions, or move the data by DMA.",
        _REPORT,
    ),
    Row(
        "IXCG856",
        "max8 or nc_match_replace8 with fewer than 8 elements per partition.",
        "NKI-SH001",
        "Pad the row with the smallest number.",
        "aws-neuron-sdk issue 1303",
    ),
    Row(
        "IXCG864",
        "An engine does not accept an instruction with these operands.",
        "NKI-SH001 NKI-DT002 NKI-EN001 NKI-OP001",
        "`nki explain INSTRUCTION` lists the rules of an instruction.",
        _REPORT,
    ),
    # Cores and collectives
    Row(
        "IBIR440",
        "A tensor of the kernel got no place in HBM: as reports have it, a source or destination of a collective "
        "without a name.",
        "",
        "Allocate both for the collective, with nl.ndarray(..., buffer=nl.shared_hbm, name=...), and copy to and from "
        "them by nisa.dma_copy.",
        _REPORT,
    ),
    Row(
        "ILLC059",
        "A collective's tensor does not exist on the second core: a kernel for one core is inside a graph for logical "
        "cores of two, or the tensor is in SBUF.",
        "NKI-KN020",
        "Call the kernel as kernel[2], and pass the collective tensors in nl.shared_hbm with a name.",
        _REPORT,
    ),
    # Instructions
    Row(
        "IBIR829 IBIR040",
        "On trn1 an operand of a compute instruction lies at an offset that is known only at run time: there only DMA "
        "takes such addresses (one report).",
        "",
        "Copy the part to a tile by nisa.dma_copy with the run-time index, and compute on the tile.",
        _REPORT,
    ),
    Row(
        "IXCG965",
        "On trn1 GpSimd does not run this nisa.tensor_tensor (one report).",
        "",
        "Leave engine out, or choose nisa.engine.vector.",
        _REPORT,
    ),
    Row(
        "IBIR285",
        "A DMA of packed words between HBM and SBUF that the compiler does not take: MX numbers (one report).",
        "",
        "Pass them as plain 8-bit or 32-bit words and look at the tile through view(), or quantise in the kernel by "
        "nisa.quantize_mx.",
        _REPORT,
    ),
    Row(
        "IBIR098",
        "A DMA with descriptors made by hardware cannot convert one type to another.",
        "NKI-DT002/DC03",
        "Leave dge_mode out, or convert with nisa.tensor_copy.",
        _REPORT,
    ),
    Row(
        "IBIR530", "MX products exist from trn3 on.", "NKI-TG002", "Target trn3, or dequantise in the kernel.", _REPORT
    ),
    Row(
        "IBIR605",
        "trn1's Scalar engine takes the bias of a logarithm as a tensor only.",
        "",
        "Write the number into a tile of shape (partitions, 1) and pass that. There is no check for it here.",
        _REPORT,
    ),
    Row(
        "ICFG018",
        "A device loop inside a device loop, which compilers before NKI 0.6 refuse.",
        "",
        "Use NKI 0.6 or later, or make the inner loop a Python loop. Here both run.",
        "aws-neuron-sdk issue 1346",
    ),
    Row(
        "IBIR182",
        "Memory is read that nothing has written. It was seen where collectives take results of kernels.",
        "NKI-HZ001 NKI-KN003",
        "",
        _NOTES,
    ),
    Row(
        "INKI016",
        "An assertion of a kernel failed while it was specialised; kernels of the vendor's library report so.",
        "NKI-FE040",
        "Read the text after the code: it is the kernel's.",
        _REPORT,
    ),
    Row(
        "INLA001",
        "The compiler found no form of an operation that the engines have: more tables of activation functions than "
        "fit, or an access pattern with too many dimensions.",
        "",
        _COMPILER_BUG,
        f"aws-neuron-sdk issue 1314; {_NOTES}",
    ),
    # Kernels in graphs
    Row(
        "EHCA005 EVRF015",
        "A custom call of the graph has a target that the compiler does not know. Kernels are calls of "
        "AwsNeuronCustomNativeKernel.",
        "",
        "Call the kernel through its framework, or write the graph with nki.FrameworkKernel.",
    ),
    Row(
        "EVRF059",
        "The file of a kernel that a graph names does not exist. It is looked for at its path, and beside the "
        "compiler.",
        "NKI-IR002",
        "Keep the folder of artifacts as long as the graph, or trace the program again.",
    ),
    Row(
        "EVRF065",
        "A kernel in the graph was traced by an NKI that the compiler no longer takes.",
        "NKI-IR002 NKI-FW009",
        "Install an NKI of the compiler's release and trace the program again.",
    ),
    Row(
        "EVRF029",
        "The graph sorts, which the hardware does not.",
        "",
        "Use nisa.topk or nisa.max8 in a kernel.",
        _REPORT,
    ),
    # Operations of the graph
    Row("EVRF001 EUOC002", "The graph has an operation that the compiler does not know.", "", "Write it as a kernel."),
    Row("EVRF006", "A random number generator of the graph with an algorithm of its own.", "", _GRAPH),
    Row("EVRF010 EVRF011", "A convolution with dilated input and a dilated kernel, or with a stride.", "", _GRAPH),
    Row("EVRF017 EVRF018 EVRF019", "A reduction over windows with dilation, or of several inputs.", "", _GRAPH),
    Row(
        "EVRF036 EVRF037 EVRF038 EVRF039 EVRF040 EVRF041 EVRF042 EVRF057 EVRF058",
        "A malformed call of MX quantisation: its JSON, its number of tensors, a dimension that is not one of the last "
        "two or no multiple of 4, a block size other than 32, a scale method other than EMAX, an input that is neither "
        "bfloat16 nor float16.",
        "NKI-DT002/QM02 NKI-SH002/QM04",
        _MX_CALL,
    ),
    Row(
        "EVRF043 EVRF044 EVRF045 EVRF046 EVRF047 EVRF048 EVRF049 EVRF050 EVRF053 EVRF054 EVRF055",
        "A malformed call of an MX product: not four tensors, inputs that are not packed words, a result that is "
        "neither float32 nor bfloat16, dimensions that do not exist, overlap or differ in size.",
        "NKI-DT002/XM02 NKI-SH001/XM03",
        _MX_MATMUL,
    ),
    Row(
        "ITIN902",
        "The compiler failed in its pass TensorInitialization: convolutions and very long sequences of the framework's "
        "graph cause it, and shards over logical cores.",
        "",
        "Cut the graph into smaller ones, or compile it with another --optlevel or --auto-cast. " + _COMPILER_BUG,
        _REPORT,
    ),
    Row(
        "INAS001",
        "The compiler failed, and has no text for the error that its message names as not existing, such as ISGV902 (a "
        "top-k over very long rows) or IGAA901 (a graph with very many operators).",
        "",
        "Look that name up in its log, and make the graph around it smaller. " + _COMPILER_BUG,
        _REPORT,
    ),
    Row(
        "CFG015 ILIN902 IRPX902 ITRF901 IBIR297",
        "The compiler failed on a graph: deep nesting, softmax gradients, fusion, partitions that do not match.",
        "",
        _COMPILER_BUG,
        f"{_NOTES}; aws-neuron-sdk issue 1362; {_REPORT}",
    ),
)
