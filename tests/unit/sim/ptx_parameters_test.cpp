// Goal: a simulated kernel reports its parameters as a GPU would, from its PTX. Method:
// declarations as compilers write them, with offsets computed by hand by the rules of the PTX
// manual.
#include "sim/ptx_parameters.hpp"

#include "driver/native_codes.hpp"
#include "support/test_kernels.hpp"
#include "support/test_mapping.hpp"
#include "unit/sim/sim_rig.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace vma {
namespace {

using Layout = std::vector<std::pair<std::size_t, std::size_t>>;  // Offset and size.

Layout pairs(const std::vector<ParameterInfo>& parameters) {
  Layout pairs;
  for (const ParameterInfo& info : parameters)
    pairs.push_back({info.offset_bytes, info.size_bytes});
  return pairs;
}

Layout layout(const std::string& declarations) {
  const auto found = ptx_parameters(".visible .entry body(" + declarations + ")\n{\n}\n", "body");
  return found ? pairs(*found) : Layout{{99, 99}};
}

const Layout not_understood{{99, 99}};

TEST(PtxParameters, LieAsTheirTypesAreAligned) {
  EXPECT_EQ(layout(""), Layout{});
  EXPECT_EQ(layout("\n\t.param .u64 a,\n\t.param .u32 b,\n\t.param .u64 c\n"),
            (Layout{{0, 8}, {8, 4}, {16, 8}}));
  EXPECT_EQ(layout(".param .u8 a, .param .u16 b, .param .f32 c, .param .s8 d, .param .f64 e"),
            (Layout{{0, 1}, {2, 2}, {4, 4}, {8, 1}, {16, 8}}));
}

TEST(PtxParameters, OfStructsAreArraysWithAnAlignment) {
  EXPECT_EQ(layout(".param .u32 n, .param .align 8 .b8 view[24], .param .u64 p"),
            (Layout{{0, 4}, {8, 24}, {32, 8}}));
  EXPECT_EQ(layout(".param .u32 n, .param .align 4 .b8 pair[12], .param .align 1 .b8 tail[3]"),
            (Layout{{0, 4}, {4, 12}, {16, 3}}));
  EXPECT_EQ(layout(".param .align 16 .b32 four[4]"), (Layout{{0, 16}}));
}

TEST(PtxParameters, WhatAPointerPointsToIsNotItsSize) {
  EXPECT_EQ(layout(".param .u64 .ptr .global .align 4 words, .param .u64 .ptr out"),
            (Layout{{0, 8}, {8, 8}}));
}

TEST(PtxParameters, AreThoseOfTheEntryOfThatName) {
  const std::string ptx =
      ".version 8.0\n.visible .entry body_long(.param .u64 a)\n{ ret; }\n"
      ".entry none\n{ ret; }\n.visible .entry body(\n.param .u32 a\n)\n.maxntid 1, 1, 1\n{ ret; }";
  EXPECT_EQ(pairs(*ptx_parameters(ptx, "body")), (Layout{{0, 4}}));
  EXPECT_EQ(pairs(*ptx_parameters(ptx, "body_long")), (Layout{{0, 8}}));
  EXPECT_EQ(pairs(*ptx_parameters(ptx, "none")), Layout{});
  for (const char* other : {"bod", "body_", "ret", ""}) {
    EXPECT_FALSE(ptx_parameters(ptx, other)) << other;
  }
}

TEST(PtxParameters, OfWhatIsNoPtxAreNone) {
  for (const char* text :
       {"", ".entry", ".entry ", ".entry body(", ".entrybody()", ".entry body(,"}) {
    EXPECT_FALSE(ptx_parameters(text, "body")) << text;
  }
  for (const char* text :
       {".param", ".param .u64", ".u64 a", ".param .u7 a", ".param .x64 a",
        ".param .align 0 .b8 a[8]", ".param .align .b8 a[8]", ".param .b8 a[0]", ".param .b8 a[-1]",
        ".param .b8 a[8", ".param .b8 a[99999999999999999999]", ".param .u64 a,", ".param . a",
        ".param .u a"}) {
    EXPECT_EQ(layout(text), not_understood) << text;
  }
}

TEST(PtxParameters, AreWhatASimulatedKernelAnswers) {
  SimRig rig;
  const KernelHandle kernel = rig.driver().load_kernel(rig.context(0), compare_kernel());
  const auto* function = reinterpret_cast<const void*>(static_cast<std::uint64_t>(kernel));
  EXPECT_EQ(pairs(rig.driver().kernel_parameters(function).list),
            (Layout{{0, 8}, {8, 8}, {16, 8}, {24, 8}}));
  rig.driver().unload_kernel(kernel);
  EXPECT_EQ(native_of([&] { rig.driver().kernel_parameters(function); }), native_invalid_handle);
  const Kernel host_only{"", "body", [](DeviceView&, const KernelArguments&, LaunchShape) {}};
  const KernelHandle silent = rig.driver().load_kernel(rig.context(0), host_only);
  EXPECT_EQ(native_of([&] {
              rig.driver().kernel_parameters(
                  reinterpret_cast<const void*>(static_cast<std::uint64_t>(silent)));
            }),
            native_not_supported);
  rig.driver().unload_kernel(silent);
}

}  // namespace
}  // namespace vma
