"""Chips, nodes and links that join the ranks of a program, and times of a collective beside its bytes."""

from __future__ import annotations

from nki.target.cited_documents import (
    COLLECTIVES,
    INTER_NODE,
    INTRA_NODE,
    TRN1_GUIDE,
    TRN1_PAGE,
    TRN2_GUIDE,
    TRN2_PAGE,
    TRN3_GUIDE,
    TRN3_PAGE,
)
from nki.target.fact_rows import SAME, as_trn2, docs, guess, row


class Interconnect:
    """Ranks share a chip, chips a node (all those that NeuronLink joins in a torus, or a switch), nodes an UltraServer
    (``neuronlink_nodes``), and all else EFA. Rates are GB/s of a chip in one direction, over all of its links;
    ``collective_efficiency`` is the part of them that a collective sustains. A collective takes ``collective_start_ns``
    and its steps, each ``neuronlink_hop_ns`` or ``efa_hop_ns``, beside its bytes. ``efa_mesh_congestion``: how many
    times its bytes the network carries where all nodes send to all at once.
    """

    cores_per_rank = row(
        "cores",
        docs(1, f"{TRN1_GUIDE}: no logical cores of two"),
        docs(2, f"{COLLECTIVES}: System Connectivity; the default (LNC=2), or each core is a rank (LNC=1)"),
        SAME,
    )
    chips_per_node = row(
        "chips",
        docs(16, f"{TRN1_PAGE}: trn1.32xlarge, 2D torus"),
        docs(16, f"{TRN2_PAGE}: trn2.48xlarge, 2D torus of 4 by 4"),
        docs(64, f"{TRN3_PAGE}: UltraServer Gen1, joined by switches; Gen2 has 144", (144, 64)),
    )
    neuronlink_nodes = row(
        "nodes",
        docs(1, f"{TRN1_PAGE}: instances are joined by EFA"),
        docs(1, f"{TRN2_PAGE}: an instance alone; an UltraServer joins four by NeuronLink", (4, 1)),
        docs(1, f"{TRN3_PAGE}: the UltraServer counts as the node"),
    )
    neuronlink_links = row(
        "links",
        docs(4, f"{TRN1_GUIDE}: introduction; Inferentia2 has 2"),
        docs(4, f"{TRN2_GUIDE}: introduction"),
        docs(4, f"{TRN3_GUIDE}: introduction"),
    )
    neuronlink_is_switched = row(
        "",
        docs(False, f"{TRN1_PAGE}: 2D torus"),
        docs(False, f"{TRN2_PAGE}: 2D torus, in an UltraServer 3D"),
        docs(True, f"{TRN3_PAGE}: switches join all chips with all, instead of a torus"),
    )
    neuronlink_chip_gbps = row(
        "GB/s",
        guess(
            192.0,
            f"{TRN1_PAGE}: 384 GB/s per chip (trn1n: 768). Not said: if this counts both directions. Half of it; "
            "from all of it to one link of four",
            (384.0, 48.0),
        ),
        guess(
            512.0,
            f"{TRN2_PAGE}: 1024 GB/s per chip within an instance. Not said: if this counts both directions. Half of "
            "it; from all of it to one link of four",
            (1024.0, 128.0),
        ),
        docs(
            576.0,
            f"{TRN3_PAGE}: Connectivity and Networking; four PCIe links of 64 GB/s to the switch of the server and "
            "five to that of the rack. The same page says 2048 GiB/s per chip, the one of the chip 2560 GB/s, of which "
            "half would be one direction; between racks it says 128",
            (1280.0, 128.0),
        ),
    )
    neuronlink_nodes_gbps = row(
        "GB/s",
        as_trn2((256.0, 32.0), because="EFA alone joins its nodes"),
        guess(
            128.0,
            f"{TRN2_PAGE}: 256 GB/s per chip between the instances of an UltraServer. Not said: if this counts both "
            "directions. Half of it",
            (256.0, 32.0),
        ),
        docs(128.0, f"{TRN3_PAGE}: Inter-rack connectivity", (128.0, 32.0)),
    )
    efa_chip_gbps = row(
        "GB/s",
        docs(6.25, f"{TRN1_PAGE}: 800 Gbit/s for 16 chips; trn1n has twice that", (12.5, 1.5)),
        docs(25.0, f"{COLLECTIVES}: System Connectivity; 200 Gbit/s for each chip", (25.0, 5.0)),
        docs(25.0, f"{TRN3_PAGE}: 12,800 Gbit/s for 64 chips, 28,800 for 144", (25.0, 5.0)),
    )
    collective_efficiency = row(
        "",
        guess(
            0.7,
            f"no rate of a collective is published beside those of the links. {INTRA_NODE} says that a ring uses links "
            "in full and other algorithms less",
            (1.0, 0.3),
        ),
        SAME,
        SAME,
    )
    collective_start_ns = row(
        "ns",
        guess(
            4000.0,
            f"{INTRA_NODE}: the latency of a collective is of the magnitude of 1 to 10 us, steps of 1 to 2 us included",
            (1000.0, 20000.0),
        ),
        SAME,
        SAME,
    )
    neuronlink_hop_ns = row(
        "ns",
        as_trn2((1000.0, 4000.0)),
        docs(1500.0, f"{INTRA_NODE}: 1 to 2 us per hop of a ring, as HBM is loaded", (1000.0, 2000.0)),
        as_trn2((500.0, 4000.0), because="nothing published; a way leads through one switch or two"),
    )
    efa_hop_ns = row(
        "ns",
        as_trn2((10000.0, 60000.0)),
        docs(
            15000.0,
            f"{COLLECTIVES}: System Connectivity; a minimal packet from HBM to HBM of another server. {INTER_NODE}: "
            "each hop is expected to add as much",
            (10000.0, 30000.0),
        ),
        as_trn2((5000.0, 30000.0)),
    )
    efa_mesh_congestion = row(
        "",
        guess(
            2.0,
            f"{INTER_NODE}: a mesh uses little of the network, since all send to one at once; recursive doubling is "
            "between mesh and ring. No number is given",
            (1.0, 4.0),
        ),
        SAME,
        SAME,
    )
