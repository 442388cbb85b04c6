#pragma once

#include "unit/control/asio_control_rig.hpp"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <string>

namespace vma {

struct Ran {
  int code = -1;
  std::string text;
};

/// Runs `vmart` with the arguments. Collects standard output and standard error together. Nothing
/// that another process does may hold the tool up, so it is ended after a minute.
Ran run_tool(const std::string& arguments);

/// With the server of a fake runtime.
class ControlToolTest : public testing::Test {
 protected:
  ControlToolTest() {
    if (std::string(VMART_TOOL).empty()) skip_ = true;
  }
  void SetUp() override {
    if (skip_) GTEST_SKIP() << "the tool is not built: CLI11 is missing";
  }
  void expect(int code, const std::string& word, const std::string& arguments) {
    const Ran ran = run_tool(fmt::format("{} --socket {}", arguments, rig_.path()));
    EXPECT_EQ(ran.code, code) << arguments << "\n" << ran.text;
    EXPECT_NE(ran.text.find(word), std::string::npos) << arguments << "\n" << ran.text;
  }
  ControlRig rig_;
  bool skip_ = false;
};

}  // namespace vma
