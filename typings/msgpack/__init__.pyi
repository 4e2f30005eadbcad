# Types for the calls that this project makes; msgpack ships none. What unpackb returns is anything: check it.
from collections.abc import Callable
from typing import Any

from msgpack.exceptions import ExtraData as ExtraData
from msgpack.exceptions import FormatError as FormatError
from msgpack.exceptions import OutOfData as OutOfData
from msgpack.exceptions import StackError as StackError
from msgpack.exceptions import UnpackException as UnpackException

class ExtType:
    code: int
    data: bytes
    def __init__(self, code: int, data: bytes) -> None: ...

def packb(
    o: object,
    *,
    default: Callable[[Any], Any] | None = None,
    use_single_float: bool = False,
    use_bin_type: bool = True,
    strict_types: bool = False,
) -> bytes: ...
def unpackb(
    packed: bytes | bytearray | memoryview,
    *,
    raw: bool = False,
    use_list: bool = True,
    strict_map_key: bool = True,
    object_hook: Callable[[dict[Any, Any]], Any] | None = None,
    ext_hook: Callable[[int, bytes], Any] | None = None,
    max_str_len: int = -1,
    max_bin_len: int = -1,
    max_array_len: int = -1,
    max_map_len: int = -1,
    max_ext_len: int = -1,
) -> Any: ...
