#include "placement/policies/built_in_policies.hpp"

#include "placement/auto/auto.hpp"
#include "placement/weighing/room_for_chunks.hpp"

namespace vma::inline v1 {
namespace {

class Static final : public Policy {
 public:
  void on_alloc(const AllocRequest& request, const Snapshot& snapshot,
                std::span<PlaceId> chunks) override {
    first_touch(request, snapshot, chunks);
  }
};

class StayPut final : public Policy {};

template <typename Kind>
std::unique_ptr<Policy> make_plain(const PolicyValues&) {
  return std::make_unique<Kind>();
}

}  // namespace

PolicyKind static_kind() {
  return {"static",
          "first touch of Linux and of MCM-GPU (ISCA 2017), spill in topology order",
          {},
          make_plain<Static>};
}

PolicyKind stay_put_kind() {
  return {"stay_put", "no policy: nothing moves", {}, make_plain<StayPut>};
}

}  // namespace vma::inline v1

namespace vma {

const PolicyRegistry& built_in_policies() {
  static const PolicyRegistry registry = [] {
    PolicyRegistry kinds;
    for (PolicyKind (*kind)() :
         {auto_kind, cost_benefit_kind, counter_kind, static_kind, stay_put_kind})
      kinds.add(kind());
    kinds.add_around("guarded", guarded_kind);
    kinds.add_around("repeating", repeating_kind);
    return kinds;
  }();
  return registry;
}

std::unique_ptr<Policy> make_policy(const std::string& text) {
  return built_in_policies().make(text);
}

}  // namespace vma
