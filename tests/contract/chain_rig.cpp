#include "contract/chain_rig.hpp"

#include <vma/error.hpp>

#include <atomic>

namespace vma {

TestChain::TestChain(ContractRig& rig, ContextHandle context)
    : rig_(rig),
      driver_(rig.driver()),
      stream_(rig.new_stream(context)),
      kernel_(rig.kernel(context, store_kernel())),
      go_(rig.new_word()),
      done_(rig.new_word()),
      value_(rig.new_word()),
      chain_(driver_.make_chain(context, steps(1, 1))) {}

TestChain::~TestChain() {
  native_of([&] {
    go(UINT64_MAX);
    rig_.wait(stream_);
    driver_.destroy_exec_graph(chain_);
  });
}

std::vector<ChainStep> TestChain::steps(std::uint64_t epoch, std::uint64_t value) const {
  std::vector<ChainStep> steps(3);
  steps[0].words = {{WordOperation::Kind::wait_until_at_least, address_of(go_), epoch}};
  steps[1].kernel = kernel_;
  steps[1].shape = {{1, 1, 1}, {32, 1, 1}};
  steps[1].arguments = KernelArguments::of(value_, value);
  steps[2].words = {{WordOperation::Kind::write, address_of(done_), epoch}};
  return steps;
}

void TestChain::update(std::uint64_t epoch, std::uint64_t value) {
  driver_.update_chain(chain_, steps(epoch, value));
}

void TestChain::launch() {
  driver_.launch_graph(stream_, chain_);
}

void TestChain::go(std::uint64_t epoch) {
  std::atomic_ref(*go_).store(epoch);
}

bool TestChain::done(std::uint64_t epoch) {
  return ContractRig::becomes(*done_, epoch);
}

bool TestChain::stands() {
  return !driver_.wait_stream(stream_, driver_.clock().now() + std::chrono::milliseconds(100));
}

std::uint64_t TestChain::value() const {
  return std::atomic_ref(*value_).load();
}

}  // namespace vma
