// The kernels of tests, for programs on simcuda.
#include "support/read_kernel.hpp"
#include "support/sample_kernels.hpp"
#include "support/test_kernels.hpp"
#include "support/twin_kernels.hpp"

#include <simcuda/kernels.hpp>

namespace vma {
namespace {

std::vector<Kernel> test_kernels() {
  return {fill_kernel(),        add_kernel(),    compare_kernel(),     sum_kernel(),
          atomic_add_kernel(),  store_kernel(),  load_kernel(),        beat_kernel(),
          spin_kernel(),        read_kernel(),   add_vectors_kernel(), scale_kernel(),
          square_kernel(),      negate_kernel(), twin_add_kernel(),    twin_settle_nothing_kernel(),
          twin_compare_kernel()};
}

}  // namespace
}  // namespace vma

SIMCUDA_EXPORT_KERNELS(vma::test_kernels)
