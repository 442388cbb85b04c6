/// Invalid libraries, each wrong in the one respect that CMake names in `MISFIT`. A call of its
/// function would end the test.

#include <vma/policy.hpp>

#include <cstdlib>

namespace {

std::vector<vma::PolicyKind> never_called() {
  std::abort();
}

[[maybe_unused]] constexpr vma::PolicyLibrary misfit() {
  vma::PolicyLibrary library = vma::policy_library(never_called);
  MISFIT;
  return library;
}

}  // namespace

extern "C" {
extern VMART_EXPORT const vma::PolicyLibrary vmart_policies;
constinit const vma::PolicyLibrary vmart_policies = misfit();
}
