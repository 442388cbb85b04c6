#pragma once

#include <vma/runtime.hpp>

#include <cstdint>
#include <memory>

namespace vma {

/// One thread per GPU that repeatedly launches a kernel on memory of its own that does not move,
/// and waits for it now and then. Runs on real and simulated machines.
class OwnLoad {
 public:
  explicit OwnLoad(Runtime& runtime);
  ~OwnLoad();
  OwnLoad(const OwnLoad&) = delete;
  OwnLoad& operator=(const OwnLoad&) = delete;

  /// Ends the threads and checks that every launch did its work. Throws: the error of a thread, or
  /// std::runtime_error with what was lost.
  void stop();

  std::uint64_t launches() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vma
