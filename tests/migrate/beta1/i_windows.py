"""Several indices in one dimension are access patterns

A window that slices cannot say, such as a pooling window with overlaps, is `t.ap(pattern=…, offset=…)`."""

# arguments: 64x8x12:float32

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def pooled(x):
    channels, height, width = x.shape
    rows, columns = (height - 1) // 2, (width - 1) // 2
    out = nl.ndarray((channels, rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    image = nl.load(x)
    c, i, di, j, dj = nl.mgrid[0:channels, 0:rows, 0:3, 0:columns, 0:3]
    result = nl.max(image[c, 2 * i + di, 2 * j + dj], axis=[2, 4])
    nl.store(out, result)
    return out
