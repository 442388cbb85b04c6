#pragma once

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "machine/cost_model.hpp"
#include "machine/machine_description.hpp"

#include <cstdint>
#include <vector>

namespace vma {

/// Which transfer occupies which link until when. A transfer occupies its links exclusively, in the
/// order of requests, so that transfers on a shared link share its bandwidth. Any thread.
class SimRoutes {
 public:
  struct Span {
    TimePoint begin, end;
  };

  SimRoutes(const MachineDescription& machine, const CostModel& costs);

  /// Occupies the links between the two places for one transfer, at `earliest` or once they are
  /// free.
  Span occupy(Place from, Place to, std::uint64_t size_bytes, TimePoint earliest);

 private:
  // Per GPU: NVLink out and in, PCIe (or C2C) to and from the host, and its own memory.
  enum Link { peer_out, peer_in, host_out, host_in, local, link_count };
  struct Gpu {
    TimePoint busy_until[link_count] = {};
  };

  std::vector<TimePoint*> links(Place from, Place to) VMART_REQUIRES(mutex_);

  const MachineDescription& machine_;
  const CostModel& costs_;
  Mutex mutex_;
  std::vector<Gpu> gpus_ VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
