#pragma once

#include "contract/contract_rig.hpp"

#include <cstdint>
#include <vector>

namespace vma {

/// A chain {wait for a go word; store a value; write a done word} on its own stream, with these
/// words.
class TestChain {
 public:
  /// Blocks while work is stopped, so create it before that.
  TestChain(ContractRig& rig, ContextHandle context);
  ~TestChain();
  TestChain(const TestChain&) = delete;
  TestChain& operator=(const TestChain&) = delete;

  ExecGraphHandle handle() const { return chain_; }
  BoundStream stream() const { return stream_; }
  /// The steps for an epoch: waits until the go word reaches it, stores `value`, and sets the done
  /// word to it.
  std::vector<ChainStep> steps(std::uint64_t epoch, std::uint64_t value) const;
  void update(std::uint64_t epoch, std::uint64_t value);
  void launch();
  void go(std::uint64_t epoch);
  /// Waits at most 20 s for the done word.
  bool done(std::uint64_t epoch);
  /// Whether the latest launch has not ended after a time that is long for a kernel.
  bool stands();
  std::uint64_t value() const;

 private:
  ContractRig& rig_;
  Driver& driver_;
  BoundStream stream_;
  KernelHandle kernel_;
  std::uint64_t* go_;
  std::uint64_t* done_;
  std::uint64_t* value_;
  ExecGraphHandle chain_;
};

}  // namespace vma
