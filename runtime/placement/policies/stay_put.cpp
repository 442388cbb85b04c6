#include "placement/policies/stay_put.hpp"

namespace vma::inline v1 {
namespace {

class StayPut final : public Policy {};

}  // namespace

PolicyKind stay_put_kind() {
  return {"stay_put", "no policy: what was placed stays there", {}, [](const PolicyValues&) {
            return std::unique_ptr<Policy>(std::make_unique<StayPut>());
          }};
}

}  // namespace vma::inline v1
