/// A policy as a user would build it: moves each used chunk to the device that uses it.

#include <vma/policy.hpp>

#include <cstdio>

namespace {

class Follow : public vma::Policy {
 public:
  Follow(std::uint64_t uses, bool says) : uses_(uses) {
    if (says) std::puts("a policy may print");
  }
  void on_use(const vma::UseEvent& use, const vma::Snapshot&, vma::Plan& plan) override {
    plan.move(use.chunk, use.device, static_cast<double>(uses_), "it is used there");
  }

 private:
  std::uint64_t uses_;
};

vma::PolicyKind follow_kind() {
  vma::PolicyKind kind;
  kind.name = "follow";
  kind.source = "a test";
  kind.parameters = {{"uses", vma::PolicyParameter::Type::count, 2, 1, 9, "of what value"},
                     {"says", vma::PolicyParameter::Type::count, 0, 0, 1, "whether it prints"}};
  kind.make = [](const vma::PolicyValues& values) -> std::unique_ptr<vma::Policy> {
    return std::make_unique<Follow>(values.count("uses"), values.count("says") > 0);
  };
  return kind;
}

}  // namespace

VMART_EXPORT_POLICY(follow_kind)
