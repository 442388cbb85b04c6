"""torch_memory_saver for its own tests, by `vmart.torch.memory_saver`. A program needs none of this: it imports
`vmart.torch.memory_saver` instead."""

import sys

from vmart.torch.memory_saver import configure_subprocess

from . import stand_ins
from .entrypoint import TorchMemorySaver

utils = testing_utils = stand_ins
sys.modules[f"{__name__}.utils"] = sys.modules[f"{__name__}.testing_utils"] = stand_ins

torch_memory_saver = TorchMemorySaver()

__all__ = ["TorchMemorySaver", "configure_subprocess", "testing_utils", "torch_memory_saver", "utils"]
