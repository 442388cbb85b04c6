#include "placement/policies/built_in_policies.hpp"

namespace vma::inline v1 {
namespace {

/// `stay_put`: memory stays where it was put. An allocation gets the default, the fastest place of
/// the device with room; nothing moves. It replaces a policy that misbehaves. Its source is the
/// behaviour of every program without a policy.
class StayPut final : public Policy {};

}  // namespace

PolicyKind stay_put_kind() {
  return {"stay_put", "no policy: nothing moves", {}, [](const PolicyValues&) {
            return std::unique_ptr<Policy>(std::make_unique<StayPut>());
          }};
}

}  // namespace vma::inline v1
