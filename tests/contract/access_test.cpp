// Goal: which devices may access a mapping after which grants. Method: grants, then asks the
// driver, a kernel on each GPU, its copy engine and the CPU. `fault_test.cpp` tests accesses by
// GPUs without a right.

#include "contract/contract_test.hpp"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <future>
#include <thread>

namespace vma {
namespace {

template <typename Machine>
class AccessRights : public ContractTest<Machine> {};
TYPED_TEST_SUITE(AccessRights, ContractMachines, MachineNames);

TYPED_TEST(AccessRights, GrantedToAllKernelsOnEveryGpuWork) {
  ContractRig& rig = this->rig();
  for (const Place at : {gpu(0), host(0)}) {
    const TestMapping mapping(this->driver(), at, rig.page(), all_gpus(this->driver()));
    for (int device = 0; device < rig.gpus(); ++device) {
      rig.fill(device, mapping, 100u + static_cast<unsigned>(device));
      for (int reader = 0; reader < rig.gpus(); ++reader) {
        EXPECT_EQ(rig.mismatches(reader, mapping, 100u + static_cast<unsigned>(device)), 0u)
            << to_string(at) << " written by " << device << ", read by " << reader;
      }
    }
  }
}

TYPED_TEST(AccessRights, AFreshMappingIsForNobody) {
  const TestMapping mapping(this->driver(), gpu(0), this->rig().page(), {});
  EXPECT_EQ(this->driver().access(mapping.address(), gpu(0)), Access::none);
}

TYPED_TEST(AccessRights, GrantsForDifferentDevicesAddUp) {
  VMART_NEEDS_GPUS(2);
  Driver& driver = this->driver();
  TestMapping mapping(driver, gpu(0), this->rig().page(), {{gpu(0), Access::read_write}});
  EXPECT_EQ(driver.access(mapping.address(), gpu(1)), Access::none);
  mapping.grant({{gpu(1), Access::read_write}});
  EXPECT_EQ(driver.access(mapping.address(), gpu(0)), Access::read_write);
  EXPECT_EQ(driver.access(mapping.address(), gpu(1)), Access::read_write);
}

TYPED_TEST(AccessRights, NoneRevokesFromThatDeviceAlone) {
  Driver& driver = this->driver();
  const int peer = this->rig().gpus() - 1;
  TestMapping mapping(driver, gpu(0), this->rig().page(), all_gpus(driver));
  mapping.grant({{gpu(peer), Access::none}});
  EXPECT_EQ(driver.access(mapping.address(), gpu(peer)), Access::none);
  if (peer != 0) {
    EXPECT_EQ(driver.access(mapping.address(), gpu(0)), Access::read_write);
    mapping.grant({{gpu(0), Access::none}});
    EXPECT_EQ(driver.access(mapping.address(), gpu(0)), Access::none) << "the owner too";
  }
}

TYPED_TEST(AccessRights, UnmapAndMapTakesAccessFromEveryone) {
  Driver& driver = this->driver();
  TestMapping mapping(driver, gpu(0), this->rig().page(), all_gpus(driver));
  mapping.unmap();
  mapping.map();
  for (int device = 0; device < this->rig().gpus(); ++device) {
    EXPECT_EQ(driver.access(mapping.address(), gpu(device)), Access::none) << device;
  }
}

TYPED_TEST(AccessRights, ReadOnlyMemoryIsReadByKernelsAndCopiesAndBecomesWritableAgain) {
  ContractRig& rig = this->rig();
  for (const Place at : {gpu(0), host(0)}) {
    TestMapping mapping(this->driver(), at, rig.page(), all_gpus(this->driver()));
    rig.fill(0, mapping, 40);
    for (int device = 0; device < rig.gpus(); ++device) {
      mapping.grant({{gpu(device), Access::read}});
      EXPECT_EQ(this->driver().access(mapping.address(), gpu(device)), Access::read);
      EXPECT_EQ(rig.mismatches(device, mapping, 40), 0u);
      EXPECT_EQ(rig.word_at(device, mapping.address() + 16), 42u) << "by the copy engine";
      mapping.grant({{gpu(device), Access::read_write}});
      EXPECT_EQ(rig.run(device, store_kernel(), mapping.pointer(), std::uint64_t{40}), 0);
    }
  }
}

TYPED_TEST(AccessRights, HostMemoryGrantedToTheHostIsOrdinaryMemoryOfTheCpu) {
  ContractRig& rig = this->rig();
  std::vector<Accessor> everyone = all_gpus(this->driver());
  everyone.push_back({host(0), Access::read_write});
  const TestMapping mapping(this->driver(), host(0), rig.page(), everyone);
  rig.fill(0, mapping, 9);
  EXPECT_EQ(mapping.pointer()[3], 12u);
  mapping.pointer()[3] = 77;
  EXPECT_EQ(rig.word_at(0, mapping.address() + 24), 77u);
  EXPECT_EQ(this->driver().access(mapping.address(), host(0)), Access::read_write);
}

TYPED_TEST(AccessRights, HostMemoryWithoutGrantIsNotForTheCpu) {
  const TestMapping mapping(this->driver(), host(0), this->rig().page(), all_gpus(this->driver()));
  EXPECT_FALSE(cpu_can_read(mapping.pointer()));
}

TYPED_TEST(AccessRights, HostMemoryTakenFromTheCpuKeepsItsBytes) {
  std::vector<Accessor> everyone = all_gpus(this->driver());
  everyone.push_back({host(0), Access::read_write});
  TestMapping mapping(this->driver(), host(0), this->rig().page(), everyone);
  mapping.pointer()[3] = 7;
  mapping.grant({{host(0), Access::none}});
  EXPECT_FALSE(cpu_can_read(mapping.pointer())) << "what is copied from here on misses no store";
  EXPECT_EQ(this->rig().word_at(0, mapping.address() + 24), 7u);
  mapping.grant({{host(0), Access::read_write}});
  EXPECT_EQ(mapping.pointer()[3], 7u);
}

TYPED_TEST(AccessRights, DeviceMemoryIsNeverForTheCpu) {
  // On x86 hosts; a coherent link would allow it.
  TestMapping mapping(this->driver(), gpu(0), this->rig().page(), all_gpus(this->driver()));
  EXPECT_EQ(native_of([&] {
              mapping.grant({{host(0), Access::read_write}});
            }),
            native_not_supported);
  EXPECT_FALSE(cpu_can_read(mapping.pointer()));
  EXPECT_FALSE(cpu_can_write(mapping.pointer()));
}

std::atomic<bool> load_faulted{false};
std::atomic<bool> memory_came{false};

void wait_for_the_memory(int) {
  load_faulted = true;
  while (!memory_came) {
  }
}

TYPED_TEST(AccessRights, ALoadThatFaultedGoesOnOnceTheMemoryHasComeToTheHost) {
  VMART_IN_CHILD(60);
  ContractRig& rig = this->rig();
  Driver& driver = this->driver();
  TestMapping mapping(driver, gpu(0), rig.page(), all_gpus(driver));
  rig.fill(0, mapping, 7);
  std::vector<Accessor> everyone = all_gpus(driver);
  everyone.push_back({host(0), Access::read_write});
  const TestMapping home(driver, host(0), rig.page(), everyone);

  load_faulted = false;
  memory_came = false;
  struct sigaction ours {};
  struct sigaction before {};
  ours.sa_handler = wait_for_the_memory;
  ASSERT_EQ(sigaction(SIGSEGV, &ours, &before), 0);
  std::thread migrator([&] {
    Poll poll;
    while (!load_faulted) poll.pause();
    EXPECT_EQ(rig.run_copy(0, home.address(), mapping.address(), rig.page()), 0);
    mapping.unmap();
    driver.map(mapping.address(), rig.page(), home.chunk());
    mapping.grant(everyone);
    memory_came = true;
  });
  const std::uint64_t seen = *static_cast<volatile std::uint64_t*>(mapping.pointer() + 10);
  sigaction(SIGSEGV, &before, nullptr);
  migrator.join();
  EXPECT_EQ(seen, 17u);
}

TYPED_TEST(AccessRights, AccessBelongsToTheDeviceNotToAContext) {
  ContractRig& rig = this->rig();
  const TestMapping mapping(this->driver(), gpu(0), rig.page(), all_gpus(this->driver()));
  rig.fill(0, mapping, 30);
  const ContextHandle context = rig.new_context(0);
  const BoundStream stream = rig.new_stream(context);
  std::uint64_t* out = rig.new_word();
  EXPECT_EQ(
      rig.finish(stream, [&] { rig.launch(stream, load_kernel(), mapping.pointer() + 2, out); }),
      0);
  EXPECT_EQ(*out, 32u);
}

TYPED_TEST(AccessRights, TheMemoryCallsNeedNoCurrentContext) {
  Driver& driver = this->driver();
  const std::uint64_t page = this->rig().page();
  auto on_a_bare_thread = std::async(std::launch::async, [&] {
    EXPECT_TRUE(is_none(driver.current_context()));
    return native_of([&] {
      const TestMapping mapping(driver, gpu(0), page, all_gpus(driver));
      driver.access(mapping.address(), gpu(0));
      driver.pointer_info(mapping.address());
      driver.address_range(mapping.address());
      driver.release(driver.retain_handle(mapping.address()));
      driver.release(driver.create(host(0), page));
      EXPECT_TRUE(is_none(driver.current_context()));
    });
  });
  EXPECT_EQ(on_a_bare_thread.get(), 0);
}

TYPED_TEST(AccessRights, EveryCallLeavesTheCurrentContextAsItWas) {
  ContractRig& rig = this->rig();
  Driver& driver = this->driver();
  const ContextHandle own = rig.new_context(0);
  const int last = rig.gpus() - 1;
  for (const ContextHandle current : {ContextHandle{}, own, rig.context(last)}) {
    driver.set_current_context(current);
    const TestMapping mapping(driver, gpu(last), rig.page(), all_gpus(driver));
    rig.fill(last, mapping, 1);
    EXPECT_EQ(driver.current_context(), current);
    const ContextHandle made = driver.create_context(DeviceId{0});
    EXPECT_EQ(driver.current_context(), current);
    driver.destroy_context(made);
    EXPECT_EQ(driver.current_context(), current);
    EXPECT_EQ(driver.context_device(rig.context(last)), DeviceId{last});
    driver.free_plain(rig.context(0), driver.allocate_plain(rig.context(0), 4096));
    EXPECT_NE(native_of([&] { driver.map(mapping.address(), rig.page(), mapping.chunk()); }), 0);
    EXPECT_EQ(driver.current_context(), current) << "after a failure";
  }
  driver.set_current_context({});
}

TYPED_TEST(AccessRights, AGrantNeedsNoOpenContextOnTheDevice) {
  VMART_NEEDS_GPUS(2);
  VMART_IN_CHILD(60);
  const std::unique_ptr<Driver> fresh = TypeParam::open();
  const DeviceId other{fresh->device_count() - 1};
  // Retained by the rig, and by what keeps contexts open between tests.
  constexpr int retained_max = 4;
  for (int i = 0; i < retained_max && fresh->context_active(other); ++i) {
    fresh->release_primary(other);
  }
  EXPECT_FALSE(fresh->context_active(other));
  const int native = native_of([&] {
    TestMapping mapping(*fresh, gpu(0), this->rig().page(), {{gpu(0), Access::read_write}});
    mapping.grant({{gpu(index(other)), Access::read_write}});
    const TestMapping over_there(*fresh, gpu(index(other)), this->rig().page(), all_gpus(*fresh));
  });
  EXPECT_EQ(native, 0);
  EXPECT_FALSE(fresh->context_active(other)) << "the grant has opened a context";
  // The rig's streams of that context are gone, so its destructors must not run.
  if (inside_child()) {
    std::fflush(stdout);
    std::_Exit(this->HasFailure() ? 1 : 0);
  }
}

}  // namespace
}  // namespace vma
