"""When PyTorch's allocator gave out memory and got it back."""

from vmart.lab.importers.event_order import OBJECT_BYTES_MAX, allocation
from vmart.lab.importers.input_lines import Refused
from vmart.lab.importers.parameters import Parameter

LEAST_BYTES = Parameter("least_bytes", 0, 0, 1e12, "allocations of fewer bytes are left out")


class Life:
    """An allocation, with times in ns. It was there before the file begins if `begin` is None, and there after its
    end if `end` is."""

    __slots__ = ("begin", "bytes", "end", "freed", "gpu", "thing")

    def __init__(self, thing, gpu, size, begin):
        self.thing = thing
        self.gpu = gpu
        self.bytes = size
        self.begin = begin
        self.freed = self.end = None  # When the program gave it back, and when the allocator could use it again.

    def order(self):
        """What was there before comes first."""
        return -1 if self.begin is None else self.begin

    def allocation(self):
        return allocation(self.thing, self.bytes, "kept" if self.begin is None else "made")


class Lives:
    """Follows the addresses of all GPUs. Requires: times do not decrease."""

    def __init__(self):
        self.all = []
        self._alive = {}  # By GPU and address.
        self._known = set()

    def allocate(self, time, gpu, address, size):
        """Raises Refused if the address is in use."""
        if (gpu, address) in self._alive:
            raise Refused(f"address {address} of GPU {gpu} is in use")
        return self._begin(gpu, address, size, time)

    def free(self, time, gpu, address, size, *, reusable=True):
        """The program gives it back. The allocator uses it again at once, or not before it is `reusable`."""
        life = self._alive.get((gpu, address)) or self._begin(gpu, address, size, None)
        if life.freed is None:
            life.freed = time
        if reusable:
            life.end = time
            del self._alive[gpu, address]
        return life

    def keep(self, gpu, address, size):
        """It is there after the end of the file, and before its begin if the file never names it."""
        if (gpu, address) not in self._known:
            self._begin(gpu, address, size, None)

    def _begin(self, gpu, address, size, time):
        if not 0 < size <= OBJECT_BYTES_MAX:
            raise Refused(f"{size} bytes are not from 1 to {OBJECT_BYTES_MAX}")
        life = self._alive[gpu, address] = Life(len(self.all), gpu, size, time)
        self._known.add((gpu, address))
        self.all.append(life)
        return life
