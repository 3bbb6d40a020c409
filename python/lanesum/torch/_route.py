"""Which sums are lanesum's. All ranks decide alike, as they decide by what is the same on all of them."""

from __future__ import annotations

import zlib
from importlib import import_module
from typing import Any, Literal

from lanesum import TensorError
from lanesum.torch._lanes import Lanes

torch: Any = import_module("torch")
dist: Any = import_module("torch.distributed")

Operation = Literal["sum", "max", "min"]

_OPERATIONS: dict[Any, Operation] = {
    dist.ReduceOp.SUM: "sum",
    dist.ReduceOp.MAX: "max",
    dist.ReduceOp.MIN: "min",
}
_DTYPES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}
_DEVICES = ("cpu", "cuda")
# Subclasses stand for something else (DTensor, fake tensors): torch's own dispatch knows what.
_KINDS = (torch.Tensor, torch.nn.Parameter)


class Route:
    """Decides for each tensor."""

    def __init__(self, lanes: Lanes, fastest: bool) -> None:
        self._lanes, self._fastest = lanes, fastest
        self._from: dict[tuple[Any, Operation], int | None] = {}

    def operation(self, tensor: Any, op: Any) -> Operation | None:
        """lanesum's word for the operation; None: a delegate runs the sum."""
        word = _OPERATIONS.get(getattr(op, "op", op))
        if word is None or tensor.dtype not in _DTYPES or type(tensor) not in _KINDS:
            return None
        if tensor.layout != torch.strided or tensor.device.type not in _DEVICES:
            return None
        if not self._lanes.serves(tensor.device) or self._delegate_is_faster(tensor, word):
            return None
        return word

    def _delegate_is_faster(self, tensor: Any, word: Operation) -> bool:
        if not self._fastest or tensor.device.type != "cuda":
            return False
        key = tensor.dtype, word
        if key not in self._from:
            self._from[key] = self._lanes.of(tensor.device).delegate_from(_DTYPES[tensor.dtype], word)
        length = self._from[key]
        return length is not None and tensor.numel() * tensor.element_size() >= length


def memory(tensor: Any) -> Any:
    """The tensor as lanesum takes it: its elements in the order in which they lie in memory, without what autograd knows of it."""
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.is_contiguous():
        return tensor
    # As NCCL has it: dense in another order of dimensions is fine, with gaps is not.
    if not torch.ops.aten.is_non_overlapping_and_dense.default(tensor):
        raise TensorError(
            f"the tensor is not dense: its shape is {tuple(tensor.shape)} and its strides are {tensor.stride()}",
            "call contiguous() and copy the result back",
            "strided",
        )
    return torch.as_strided(tensor, (tensor.numel(),), (1,), tensor.storage_offset())


def label(tensor: Any) -> int | None:
    """Marks a call whose elements lie in another order, so that ranks whose orders differ find out."""
    if tensor.is_contiguous():
        return None
    # A dimension of one element lies wherever its stride says.
    order = [(length, stride) for length, stride in zip(tensor.shape, tensor.stride(), strict=True) if length != 1]
    return zlib.crc32(repr(order).encode())
