# The compiled module that cffi makes of csrc/api.h.
from typing import Any

ffi: Any
lib: Any
