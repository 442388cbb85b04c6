#include "support/cuda/kernel_table.hpp"

#include "calibration/access_kernels.hpp"
#include "migrate/copying/digest.hpp"
#include "support/read_kernel.hpp"
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

/// `CudaDriver` unloads it to wait for a context.
const Kernel& nothing_kernel() {
  static const Kernel& kernel =
      *new Kernel{".visible .entry vmart_nothing() { ret; }", "vmart_nothing", nothing};
  return kernel;
}

using Table = std::map<std::string_view, std::reference_wrapper<const Kernel>>;

Table make_table() {
  Table table;
  for (const Kernel& kernel : {std::cref(stopper()),
                               std::cref(nothing_kernel()),
                               std::cref(copy_digest_kernel()),
                               std::cref(copy_kernel()),
                               std::cref(digest_kernel()),
                               std::cref(settle_kernel()),
                               std::cref(paranoid_settle_kernel()),
                               std::cref(access_read_kernel()),
                               std::cref(access_chase_kernel()),
                               std::cref(fill_kernel()),
                               std::cref(add_kernel()),
                               std::cref(compare_kernel()),
                               std::cref(sum_kernel()),
                               std::cref(atomic_add_kernel()),
                               std::cref(store_kernel()),
                               std::cref(load_kernel()),
                               std::cref(spin_kernel()),
                               std::cref(read_kernel()),
                               std::cref(twin_add_kernel()),
                               std::cref(twin_settle_nothing_kernel()),
                               std::cref(twin_compare_kernel())}) {
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
