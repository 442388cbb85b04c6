/// Invalid libraries, each wrong in the one respect that CMake names in `MISFIT`. A call of its
/// function would end the test.

#include <vma/policy.hpp>

#include <cstdlib>

namespace {

vma::PolicyKind never_called() {
  std::abort();
}

[[maybe_unused]] constexpr vma::PolicyLibraryV1 misfit() {
  vma::PolicyLibraryV1 library = vma::policy_library(never_called);
  MISFIT;
  return library;
}

}  // namespace

extern "C" {
extern VMART_EXPORT const vma::PolicyLibraryV1 vmart_policy_v1;
constinit const vma::PolicyLibraryV1 vmart_policy_v1 = misfit();
}
