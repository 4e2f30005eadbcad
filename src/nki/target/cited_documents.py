"""Documents and measurements from which several facts come, by the name that the source of a fact begins with."""

from __future__ import annotations

from typing import Final

TRN1_GUIDE: Final = "Trainium/Inferentia2 Architecture Guide for NKI"
TRN2_GUIDE: Final = "Trainium2 Architecture Guide for NKI"
TRN3_GUIDE: Final = "Trainium3 Architecture Guide for NKI"
MATMUL: Final = "NKI reference, nki.isa.nc_matmul"
KLR: Final = "KLR (public open-source front end for NKI), per-generation constants of tile_size"
DMA: Final = "Introduction to Direct Memory Access (DMA) with NKI"
DRIVER: Final = "aws-neuron-driver (public source of the kernel driver)"
BETA1: Final = "NKI 0.1 reference, nki.isa cost tables"
TUTORIAL: Final = "Introduction to NKI Kernel Optimization, profiles of fp32 matmuls on trn2"
INF2_TRACES: Final = "npu_profiling_code by AnchovyPark (public profiles of fp16 matmuls on inf2.xlarge)"
TRN2_TRACES: Final = "public hardware profiles of ten kernels on trn2.3xlarge, 2026-03"
UNPUBLISHED: Final = "nothing published for this generation"
COLLECTIVES: Final = "Neuron Runtime documentation, What is Neuron Collective Communication?"
INTRA_NODE: Final = "Neuron Runtime documentation, Intra-node Collective Communications"
INTER_NODE: Final = "Neuron Runtime documentation, Inter-node Collective Communications"
TRN1_PAGE: Final = "Neuron documentation, Amazon EC2 Trn1/Trn1n Architecture"
TRN2_PAGE: Final = "Neuron documentation, Amazon EC2 Trn2 Architecture"
TRN3_PAGE: Final = "Neuron documentation, Amazon EC2 Trn3 Architecture"
