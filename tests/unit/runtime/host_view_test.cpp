// Goal: while a view lives, the CPU loads and stores host memory through the same pointer, and the
// memory is pinned; afterwards it can move again.
#include "unit/runtime/service_rig.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstring>
#include <optional>
#include <utility>

namespace vma {
namespace {

TEST(HostView, LetsTheCpuLoadAndStoreWhatKernelsSee) {
  ServiceRig rig;
  void* pointer = rig.runtime().alloc(3 * page, host(0));
  rig.fill_on(0, pointer, 3 * page, 7);
  {
    const HostView view = rig.runtime().host_view(pointer, 3 * page);
    EXPECT_EQ(view.bytes().data(), pointer);
    EXPECT_EQ(view.bytes().size(), 3 * page);
    auto* words = static_cast<std::uint64_t*>(pointer);
    EXPECT_EQ(words[5], 12u);
    for (std::uint64_t i = 0; i < 3 * page / 8; ++i) words[i] = 1'000 + i;
  }
  EXPECT_EQ(rig.wrong_on(1, pointer, 3 * page, 1'000), 0u);
}

TEST(HostView, PinsUntilTheLastOneEnds) {
  ServiceRig rig;
  void* pointer = rig.runtime().alloc(3 * page, host(0));
  std::optional<HostView> first = rig.runtime().host_view(pointer, page);
  std::optional<HostView> second = rig.runtime().host_view(at(pointer, 2 * page), page);
  const auto refused = [&] {
    expect_error(ErrorKind::pinned, [&] { rig.runtime().migrate(pointer, gpu(0)); });
    expect_error(ErrorKind::pinned, [&] { rig.runtime().free(pointer); });
    expect_error(ErrorKind::pinned, [&] { rig.runtime().free_async(pointer, rig.stream(0)); });
  };
  refused();
  first.reset();
  refused();
  static_cast<std::byte*>(pointer)[0] = std::byte{1};  // Slots are granted as a whole.
  HostView moved = std::move(*second);
  second.reset();
  refused();
  { const HostView last = std::move(moved); }
  EXPECT_EQ(rig.machine().access(address_of(pointer), host(0)), Access::none);
  EXPECT_EQ(rig.runtime().migrate(pointer, gpu(0)).outcome, Outcome::done);
  rig.runtime().free(pointer);
}

TEST(HostView, IsRefusedWhereTheCpuCannotReach) {
  ServiceRig rig;
  AllocOptions options;
  options.chunk_bytes = page;
  void* pointer = rig.runtime().alloc(3 * page, gpu(0), options);
  expect_error(ErrorKind::unsupported, [&] { rig.runtime().host_view(pointer, page); });
  rig.runtime().migrate(pointer, 0, 2 * page, host(0));
  { const HostView view = rig.runtime().host_view(pointer, 2 * page); }
  expect_error(ErrorKind::unsupported, [&] { rig.runtime().host_view(pointer, 2 * page + 1); });
  EXPECT_EQ(rig.runtime().migrate(pointer, gpu(1)).chunks_moved, 3) << "a refusal pins nothing";
}

TEST(HostView, TouchesNobodysAccessWhereItIsRefused) {
  ServiceRig rig;
  AllocOptions options;
  options.chunk_bytes = page;
  void* pointer = rig.runtime().alloc(2 * page, host(0), options);
  rig.runtime().migrate(pointer, 0, page, gpu(0));
  rig.trace().clear();
  expect_error(ErrorKind::unsupported, [&] { rig.runtime().host_view(pointer, 2 * page); });
  const int here = gettid();  // Ignores calls of the slow-call queue's thread.
  for (const TracedCall& call : rig.trace().calls()) {
    EXPECT_NE(call.thread, here) << to_string(call.call)
                                 << ": the host's half was granted to nobody";
  }
  rig.runtime().free(pointer);
}

TEST(HostView, MayOutliveTheRuntime) {
  std::optional<HostView> view;
  {
    ServiceRig rig;
    view = rig.runtime().host_view(rig.runtime().alloc(page, host(0)), page);
  }
  view.reset();
}

}  // namespace
}  // namespace vma
