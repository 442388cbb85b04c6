#include "unit/lab/replay/two_gpus.hpp"

namespace vma {

TwoGpus::TwoGpus(LinkKind kind) {
  const double peer = kind == LinkKind::nvlink ? 400 : 40;
  peers.kinds = {{LinkKind::same, kind}, {kind, LinkKind::same}};
  for (const PlaceId device : {gpu_0, gpu_1}) {
    for (const PlaceId at : {gpu_0, gpu_1})
      costs.access_rate(device, at) = device == at ? 4000 : peer;
    costs.access_rate(device, host_0) = 50;
    costs.copy_rate(device, host_0) = costs.copy_rate(host_0, device) = 50;
  }
  costs.copy_rate(gpu_0, gpu_1) = costs.copy_rate(gpu_1, gpu_0) = peer;
  costs.rank();
}

}  // namespace vma
