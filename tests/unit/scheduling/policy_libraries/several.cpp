/// A shared object with two policies.

#include <vma/policy.hpp>

#include <memory>
#include <vector>

namespace {

struct Stays : vma::Policy {};

vma::PolicyKind named(const char* name) {
  return {name, "a test", {}, [](const vma::PolicyValues&) -> std::unique_ptr<vma::Policy> {
            return std::make_unique<Stays>();
          }};
}

std::vector<vma::PolicyKind> both() {
  return {named("north"), named("south")};
}

}  // namespace

VMART_EXPORT_POLICIES(both)
