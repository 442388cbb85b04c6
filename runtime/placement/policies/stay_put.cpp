#include "placement/policies/stay_put.hpp"

namespace vma::inline v1 {
namespace {

class StayPut final : public Policy {};

}  // namespace

PolicyKind stay_put_kind() {
  return {"stay_put", "no policy: nothing moves", {}, [](const PolicyValues&) {
            return std::unique_ptr<Policy>(std::make_unique<StayPut>());
          }};
}

}  // namespace vma::inline v1
