#pragma once

#include "unit/recording/record_samples.hpp"
#include "unit/runtime/scheduler_rig.hpp"
#include "unit/runtime/scoped_variable.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

namespace vma {

/// A scheduler on a simulated machine of two GPUs, with a policy of the test's own, that logs its
/// decisions.
class LoggedDecisions : public testing::Test {
 protected:
  /// Opens it, with an allocation at GPU 0.
  void open(RuntimeOptions options, std::function<std::unique_ptr<Policy>()> make,
            std::uint32_t chunks) {
    PolicyKind kind;
    kind.name = "tested";
    kind.make = [make = std::move(make)](const PolicyValues&) { return make(); };
    options.policies = {kind};
    rig_.emplace("tested", "test-2", options);
    words_ = rig_->alloc(chunks, gpu(0));
  }
  /// The log, once the runtime is closed.
  std::string log() {
    rig_.reset();
    std::ifstream file(file_);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  const TemporaryFolder folder_;
  const std::string file_ = folder_ / "decisions.jsonl";
  const ScopedVariable variable_{"VMART_DECISIONS", file_.c_str()};
  std::optional<SchedulerRig> rig_;
  std::uint64_t* words_ = nullptr;
};

}  // namespace vma
