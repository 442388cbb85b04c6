#include "support/cuda/kernel_table.hpp"

#include "calibration/access_kernels.hpp"
#include "migrate/copying/digest.hpp"
#include "migrate/stops/beating_kernel.hpp"
#include "support/read_kernel.hpp"
#include "support/sample_kernels.hpp"
#include "support/test_kernels.hpp"
#include "support/twin_kernels.hpp"

#include <functional>
#include <map>

namespace vma {
namespace {

constexpr const char* stopper_ptx =
#include "driver/kernels/stop.ptx.inc"
    ;

void nothing(DeviceView&, const KernelArguments&, LaunchShape) {}

const Kernel& stopper() {
  static const Kernel& kernel = *new Kernel{stopper_ptx, std::string(stopper_entry), nothing};
  return kernel;
}

using Table = std::map<std::string_view, std::reference_wrapper<const Kernel>>;

Table make_table() {
  Table table;
  const std::reference_wrapper<const Kernel> kernels[] = {stopper(),
                                                          beating_kernel(),
                                                          beat_kernel(),
                                                          copy_digest_kernel(),
                                                          copy_kernel(),
                                                          digest_kernel(),
                                                          settle_kernel(),
                                                          paranoid_settle_kernel(),
                                                          access_read_kernel(),
                                                          access_chase_kernel(),
                                                          fill_kernel(),
                                                          add_kernel(),
                                                          compare_kernel(),
                                                          sum_kernel(),
                                                          atomic_add_kernel(),
                                                          store_kernel(),
                                                          load_kernel(),
                                                          spin_kernel(),
                                                          read_kernel(),
                                                          add_vectors_kernel(),
                                                          scale_kernel(),
                                                          square_kernel(),
                                                          negate_kernel(),
                                                          twin_add_kernel(),
                                                          twin_settle_nothing_kernel(),
                                                          twin_compare_kernel()};
  for (const Kernel& kernel : kernels) {
    table.emplace(kernel.entry, kernel);
  }
  return table;
}

}  // namespace

const Kernel* find_kernel(std::string_view entry) {
  static const Table& table = *new Table(make_table());  // Never destroyed, as its kernels.
  const auto found = table.find(entry);
  return found == table.end() ? nullptr : &found->second.get();
}

}  // namespace vma
