// Goal: exactly the program's channels on the GPUs that are asked for are taken off and put back,
// whatever is made, freed or refused meanwhile. Method: a kernel module of this process, and calls
// as libcuda makes them.
#include "driver/rm/channels.hpp"

#include "support/sanitizer.hpp"
#include "simcuda/kernel_module.hpp"

#include <vma/error.hpp>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <thread>

namespace vma::rm {
namespace {

constexpr Handle client = 0xc1d00001;
constexpr std::uint32_t gpu_a = 0x1b00, gpu_b = 0x4300;
constexpr std::uint32_t hopper_channel = 0xc86f, compute = 0xcbc0;

/// `gpu` outlives the call.
Alloc allocation_of(Handle self, std::uint32_t class_id, Handle parent, const std::uint32_t& gpu) {
  Alloc asked{};
  asked.client = client;
  asked.parent = parent;
  asked.object = self;
  asked.class_id = class_id;
  asked.parameters = reinterpret_cast<std::uint64_t>(&gpu);
  return asked;
}

/// libcuda with a context on each of two GPUs.
class ChannelsTest : public ::testing::Test {
 protected:
  ChannelsTest() {
    EXPECT_EQ(make(client, class_client, 0), 0u);
    for (const auto& [gpu, device] : {std::pair(gpu_a, device_a), {gpu_b, device_b}}) {
      EXPECT_EQ(make(device, class_device, client, gpu), 0u);
      EXPECT_EQ(make(device + 1, class_subdevice, device), 0u);
    }
  }

  /// Returns the status.
  std::uint32_t make(Handle self, std::uint32_t class_id, Handle parent, std::uint32_t gpu = 0) {
    Alloc asked = allocation_of(self, class_id, parent, gpu);
    EXPECT_EQ(channels.pass(kernel.descriptor, request_of(escape_alloc, sizeof asked), &asked), 0);
    return asked.status;
  }
  std::uint32_t free(Handle self) {
    Free asked{client, 0, self, 0};
    EXPECT_EQ(channels.pass(kernel.descriptor, request_of(escape_free, sizeof asked), &asked), 0);
    return asked.status;
  }
  /// A group and so many channels behind it.
  void make_group(Handle group, Handle device, int count) {
    EXPECT_EQ(make(group, class_channel_group, device), 0u);
    for (int i = 1; i <= count; ++i) {
      EXPECT_EQ(make(group + static_cast<Handle>(i), hopper_channel, group), 0u);
    }
  }
  ErrorKind kind_of_refusal(std::span<const std::uint32_t> gpus) {
    try {
      channels.suspend(gpus);
    } catch (const Error& error) {
      EXPECT_EQ(error.call(), "NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS");
      return error.kind();
    }
    ADD_FAILURE() << "it was not refused";
    return {};
  }

  static constexpr Handle device_a = 0x5c000010, device_b = 0x5c000020;
  static constexpr Handle group_a = 0x5c000100, group_b = 0x5c000200, own = 0x5c000300;
  const std::vector<std::uint32_t> both{gpu_a, gpu_b};

  KernelModule kernel;
  Channels channels{&KernelModule::call};
};

TEST_F(ChannelsTest, TakesAllOfTheProgramOffTheGpusThatAreNamed) {
  make_group(group_a, device_a, 8);
  make_group(group_b, device_b, 3);
  const auto on_a = channels.suspend(std::vector{gpu_a});
  EXPECT_EQ(kernel.off().size(), 8u);
  EXPECT_TRUE(kernel.is_off(group_a + 8));
  channels.resume(on_a);
  EXPECT_TRUE(kernel.off().empty());
  channels.resume(channels.suspend(std::vector{0x9900u}));  // One that the program does not use.
  const auto on_both = channels.suspend(both);
  EXPECT_EQ(kernel.off().size(), 11u);
  channels.resume(on_both);
  EXPECT_TRUE(kernel.off().empty());
}

TEST_F(ChannelsTest, LeavesOwnOnesOn) {
  make_group(group_a, device_a, 2);
  {
    const Channels::Own scope;
    make_group(own, device_a, 4);
  }
  const auto made = channels.suspend(both);
  EXPECT_EQ(kernel.off(), (std::set<Handle>{group_a + 1, group_a + 2}));
  channels.resume(made);
  const auto all = channels.suspend(both, Objects::Whose::process);
  EXPECT_EQ(kernel.off().size(), 6u) << "unless they are asked for";
  channels.resume(all);
  EXPECT_TRUE(kernel.off().empty());
}

/// Work in an own context settles memory while the program's work is off the GPU.
TEST_F(ChannelsTest, BlocksNoOwnCallBesideASuspensionButTheCreationOfAContext) {
  make_group(group_a, device_a, 2);
  const auto made = channels.suspend(both);
  for (int call = 0; call < 3; ++call) const Channels::Own scope;
  std::atomic<bool> begins{false}, resumes{false};
  std::thread creates([&] {
    begins = true;
    const Channels::Creation creation(channels);
    EXPECT_TRUE(resumes);
    make_group(own, device_a, 4);
  });
  while (!begins) std::this_thread::yield();
  EXPECT_TRUE(kernel.is_off(group_a + 1));
  resumes = true;
  channels.resume(made);
  creates.join();
  channels.resume(channels.suspend(both));
  EXPECT_TRUE(kernel.off().empty());
}

TEST_F(ChannelsTest, KnowsBothEnvelopesOfAnAllocation) {
  EXPECT_EQ(make(group_a, class_channel_group, device_a), 0u);
  AllocWithoutRights asked{client, group_a, group_a + 1, hopper_channel, 0, 0, 1};
  EXPECT_EQ(channels.pass(kernel.descriptor, request_of(escape_alloc, sizeof asked), &asked), 0);
  EXPECT_EQ(asked.status, 0u);
  channels.resume(channels.suspend(both));
  EXPECT_EQ(kernel.named(), (std::vector<std::vector<Handle>>{{group_a + 1}}));
}

TEST_F(ChannelsTest, ForgetsWhatIsFreedWithAllBelowIt) {
  make_group(group_a, device_a, 2);
  make_group(group_a + 0x10, device_a, 2);
  EXPECT_EQ(free(group_a + 1), 0u);
  EXPECT_EQ(free(group_a + 0x10), 0u);
  channels.resume(channels.suspend(both));
  EXPECT_EQ(kernel.named(), (std::vector<std::vector<Handle>>{{group_a + 2}}));
  EXPECT_EQ(free(client), 0u);
  EXPECT_EQ(kind_of_refusal(both), ErrorKind::unsupported) << "as under MPS: nothing is known";
}

TEST_F(ChannelsTest, KeepsWhatTheKernelDoesNotMakeOrFree) {
  make_group(group_a, device_a, 2);
  EXPECT_EQ(make(group_a + 1, hopper_channel, group_a), KernelModule::refused_status);
  EXPECT_EQ(free(0x5c000999), KernelModule::no_such_object);
  channels.resume(channels.suspend(both));
  EXPECT_EQ(kernel.named().front().size(), 2u);
}

TEST_F(ChannelsTest, PassesAllElseOnWithItsErrno) {
  int any = 0;
  EXPECT_EQ(channels.pass(kernel.descriptor, 0x1234, &any), 7);
  errno = 0;
  EXPECT_EQ(channels.pass(-1, 0x1234, &any), -1);
  EXPECT_EQ(errno, EBADF);
  Alloc asked{client, device_a, 0x5c000500, hopper_channel, 0, 0, 0, 0, 0, 0};
  errno = 0;
  EXPECT_EQ(channels.pass(-1, request_of(escape_alloc, sizeof asked), &asked), -1);
  EXPECT_EQ(errno, EBADF) << "also for calls that it watches";
  EXPECT_EQ(make(0x5c000501, compute, device_a), 0u);
}

TEST_F(ChannelsTest, NeverSplitsAGroupOverTwoCalls) {
  make_group(0x5c001000, device_a, 40);
  make_group(0x5c002000, device_a, 40);
  make_group(0x5c003000, device_a, 20);
  channels.resume(channels.suspend(both));
  std::vector<std::size_t> sizes;
  for (const auto& named : kernel.named()) sizes.push_back(named.size());
  EXPECT_EQ(sizes, (std::vector<std::size_t>{40, 60}));
}

TEST_F(ChannelsTest, PutsAllBackIfTheSecondGpuFails) {
  make_group(group_a, device_a, 2);
  make_group(group_b, device_b, 2);
  kernel.refuse = [&](const Control& asked) -> std::uint32_t {
    const bool second = asked.command == command_disable_channels && asked.object == device_b + 1;
    const auto* names = reinterpret_cast<const DisableChannels*>(asked.parameters);
    return second && names->disable != 0 ? 0x65 : 0;
  };
  EXPECT_EQ(kind_of_refusal(both), ErrorKind::driver_failure);
  EXPECT_TRUE(kernel.off().empty());
  kernel.refuse = nullptr;
  channels.resume(channels.suspend(both));
  EXPECT_TRUE(kernel.off().empty());
}

/// A time-out: the GPU took the channels off all the same, and refuses to put them back for now.
TEST_F(ChannelsTest, WhatAFailedSuspensionLeftOffIsPutBackLater) {
  make_group(group_a, device_a, 2);
  make_group(group_b, device_b, 2);
  int refused = 0;
  kernel.refuse = [&](const Control& asked) -> std::uint32_t {
    if (asked.command != command_disable_channels) return 0;
    const bool disables = reinterpret_cast<const DisableChannels*>(asked.parameters)->disable != 0;
    if (disables && asked.object == device_a + 1) return 0;
    ++refused;
    return 0x65;
  };
  EXPECT_EQ(kind_of_refusal(both), ErrorKind::driver_failure);
  EXPECT_EQ(kernel.off().size(), 2u);
  EXPECT_THROW(channels.resume({}), Error);
  EXPECT_EQ(kernel.off().size(), 2u);
  kernel.refuse = nullptr;
  channels.resume({});
  EXPECT_TRUE(kernel.off().empty());
  EXPECT_GT(refused, 2);
  const auto made = channels.suspend(both);
  channels.resume({});
  EXPECT_EQ(kernel.off().size(), 4u) << "another suspension goes on";
  channels.resume(made);
}

TEST_F(ChannelsTest, NothingGoesOnOnAGpuThatIsLost) {
  make_group(group_a, device_a, 2);
  make_group(group_b, device_b, 2);
  const auto made = channels.suspend(both);
  kernel.refuse = [&](const Control& asked) -> std::uint32_t {
    return asked.object == device_a + 1 ? 0x0f : 0;
  };
  channels.resume(made);
  EXPECT_EQ(kernel.off(), (std::set<Handle>{group_a + 1, group_a + 2}));
  try {
    channels.suspend(both);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::driver_failure);
    EXPECT_NE(std::string(error.what()).find("the GPU is lost"), std::string::npos);
  }
  EXPECT_FALSE(kernel.is_off(group_b + 1));
}

/// Its libcuda frees what it had, through a table that the parent was changing.
TEST_F(ChannelsTest, AForkedChildWaitsForNoThreadOfItsParent) {
  if (under_thread_sanitizer) GTEST_SKIP() << "no fork under TSan";
  make_group(group_a, device_a, 2);
  pid_t child = 0;
  kernel.refuse = [&](const Control& asked) -> std::uint32_t {
    if (asked.command != command_disable_channels || child != 0) return 0;
    child = fork();
    if (child != 0) return 0;
    alarm(20);
    Free freed{client, 0, group_a + 1, 0};
    channels.pass(kernel.descriptor, request_of(escape_free, sizeof freed), &freed);
    std::_Exit(0);
  };
  const auto made = channels.suspend(both);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "it hung";
  EXPECT_EQ(kernel.off().size(), 2u);
  channels.resume(made);
  EXPECT_TRUE(kernel.off().empty());
}

TEST_F(ChannelsTest, SaysWhereItCannotWork) {
  make_group(group_a, device_a, 2);
  kernel.refuse = [](const Control& asked) {
    return asked.command == command_disable_channels ? KernelModule::refused_status : 0u;
  };
  try {
    channels.suspend(both);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_STREQ(error.what(),
                 "NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS: unsupported: not permitted here");
  }
}

TEST_F(ChannelsTest, AResumeThatFailsCanBeRepeated) {
  make_group(group_a, device_a, 2);
  make_group(group_b, device_b, 2);
  const auto made = channels.suspend(both);
  kernel.refuse = [&](const Control& asked) -> std::uint32_t {
    return asked.object == device_a + 1 ? 0x65 : 0;
  };
  EXPECT_THROW(channels.resume(made), Error);
  EXPECT_EQ(kernel.off().size(), 2u) << "the other GPU goes on";
  kernel.refuse = nullptr;
  channels.resume(made);
  EXPECT_TRUE(kernel.off().empty());
  channels.resume(made);
}

TEST_F(ChannelsTest, AnOldResumeEndsNoNewSuspension) {
  make_group(group_a, device_a, 2);
  const auto first = channels.suspend(both);
  channels.resume(first);
  const auto second = channels.suspend(both);
  channels.resume(first);
  channels.resume({});
  EXPECT_EQ(kernel.off().size(), 2u);
  channels.resume(second);
  EXPECT_TRUE(kernel.off().empty());
}

TEST_F(ChannelsTest, WhatIsFreedMeanwhileIsNotPutBack) {
  make_group(group_a, device_a, 3);
  const auto made = channels.suspend(both);
  EXPECT_EQ(free(group_a + 2), 0u);
  EXPECT_EQ(make(group_a + 9, hopper_channel, group_a), 0u);
  EXPECT_FALSE(kernel.is_off(group_a + 9)) << "libcuda may be waiting for it";
  channels.resume(made);
  EXPECT_TRUE(kernel.off().empty());
}

TEST_F(ChannelsTest, NoChannelIsMadeWhileOthersAreTakenOff) {
  make_group(group_a, device_a, 2);
  std::thread maker;
  std::atomic<bool> making{false}, made{false};
  kernel.refuse = [&](const Control& asked) -> std::uint32_t {
    if (asked.command != command_disable_channels || maker.joinable()) return 0;
    maker = std::thread([&] {
      making = true;
      make(group_a + 5, hopper_channel, group_a);
      made = true;
    });
    while (!making) std::this_thread::yield();
    EXPECT_FALSE(made);
    return 0;
  };
  const auto suspension = channels.suspend(both);
  maker.join();
  EXPECT_EQ(kernel.off().size(), 2u);
  kernel.refuse = nullptr;
  channels.resume(suspension);
}

TEST_F(ChannelsTest, WaitsForAChannelThatIsBeingMade) {
  make_group(group_a, device_a, 1);
  std::atomic<bool> inside{false}, may_end{false};
  kernel.inside_change = [&] {
    inside = true;
    while (!may_end) std::this_thread::yield();
  };
  std::thread maker([&] { make(group_a + 5, hopper_channel, group_a); });
  while (!inside) std::this_thread::yield();
  std::thread suspender([&] {
    const auto made = channels.suspend(both);
    EXPECT_EQ(kernel.off().size(), 2u) << "also the new one";
    channels.resume(made);
  });
  may_end = true;
  maker.join();
  suspender.join();
}

TEST_F(ChannelsTest, OneSuspensionAtATime) {
  make_group(group_a, device_a, 4);
  std::atomic<int> standing{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        const auto made = channels.suspend(both);
        EXPECT_EQ(standing.fetch_add(1), 0);
        EXPECT_EQ(kernel.off().size(), 4u);
        standing.fetch_sub(1);
        channels.resume(made);
      }
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_TRUE(kernel.off().empty());
}

/// A process that had used libcuda before anybody watched it.
TEST(ExistingChannels, AreFoundByAskingTheKernel) {
  KernelModule kernel;
  std::string folder = "/tmp/vmart-test-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string device = folder + "/nvidiactl";
  const int opened = open(device.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  ASSERT_EQ(dup2(opened, KernelModule::descriptor), KernelModule::descriptor);
  close(opened);
  const auto make = [](Handle self, std::uint32_t class_id, Handle parent) {
    Alloc asked = allocation_of(self, class_id, parent, gpu_a);
    KernelModule::call(KernelModule::descriptor, request_of(escape_alloc, sizeof asked), &asked);
    EXPECT_EQ(asked.status, 0u);
  };
  make(client, class_client, 0);
  make(0x5c000010, class_device, client);
  make(0x5c000011, class_subdevice, 0x5c000010);
  make(0x5c000020, class_channel_group, 0x5c000010);
  make(0x5c000021, hopper_channel, 0x5c000020);
  // After many others, which it has freed.
  make(0x5c010000, class_channel_group, 0x5c000010);
  make(0x5c010001, hopper_channel, 0x5c010000);
  Channels channels(&KernelModule::call);
  Alloc later = allocation_of(0x5c010002, compute, 0x5c000010, gpu_a);
  channels.pass(KernelModule::descriptor, request_of(escape_alloc, sizeof later), &later);
  const std::vector gpus{gpu_a};
  const auto first = channels.suspend(gpus);
  EXPECT_EQ(kernel.off(), (std::set<Handle>{0x5c000021, 0x5c010001}));
  channels.resume(first);
  const int asked = kernel.controls(command_handle_info);
  EXPECT_GT(asked, 0);
  channels.resume(channels.suspend(gpus));
  EXPECT_EQ(kernel.controls(command_handle_info), asked) << "once is enough where it watches";
  channels.lose_track();
  EXPECT_THROW(channels.suspend(gpus), Error) << "those that come later are not known";
  close(KernelModule::descriptor);
  unlink(device.c_str());
  rmdir(folder.c_str());
}

TEST_F(ChannelsTest, AClientWithoutASubdeviceIsRefused) {
  make_group(group_a, device_a, 1);
  EXPECT_EQ(free(device_a + 1), 0u);
  EXPECT_EQ(kind_of_refusal(both), ErrorKind::unsupported);
}

}  // namespace
}  // namespace vma::rm
