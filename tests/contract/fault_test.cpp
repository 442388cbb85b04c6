// Goal: what an access without a right does, and to which devices. Method: makes such accesses. On
// a real driver each test runs in its own process, since the error lasts until the process ends.
//
// In the simulator an error lasts as long as its machine, so those tests need no child.

#include "contract/contract_test.hpp"

namespace vma {
namespace {

template <typename Machine>
class Faults : public ContractTest<Machine> {
 protected:
  /// A kernel of that GPU stores to the mapping and fails, and so does everything after it.
  void expect_refused(int device, const TestMapping& mapping) {
    ContractRig& rig = this->rig();
    ASSERT_EQ(rig.run(device, spin_kernel(), std::uint64_t{1000}), 0) << "before";
    EXPECT_EQ(rig.run(device, store_kernel(), mapping.pointer(), std::uint64_t{1}),
              native_illegal_address);
    EXPECT_EQ(rig.run(device, spin_kernel(), std::uint64_t{1000}), native_illegal_address)
        << "the error stays";
  }

  void expect_other_gpus_fail_too(int faulted) {
    for (int device = 0; device < this->rig().gpus(); ++device) {
      if (device == faulted) continue;
      EXPECT_NE(this->rig().run(device, spin_kernel(), std::uint64_t{1000}), 0)
          << "gpu " << device << " after a fault on gpu " << faulted;
    }
  }

  /// Loads the kernels everywhere: nothing can be loaded after a fault.
  void load_kernels() {
    for (int device = 0; device < this->rig().gpus(); ++device) {
      this->rig().kernel(this->rig().context(device), spin_kernel());
      this->rig().kernel(this->rig().context(device), store_kernel());
    }
  }
};
TYPED_TEST_SUITE(Faults, ContractMachines, MachineNames);

TYPED_TEST(Faults, TheOwnerWithoutAGrantIsRefused) {
  VMART_IN_CHILD(60);
  this->load_kernels();
  const TestMapping mapping(this->driver(), gpu(0), this->rig().page(), {});
  this->expect_refused(0, mapping);
}

TYPED_TEST(Faults, TheOwnerIsRefusedWhereOnlyThePeerHasAGrant) {
  VMART_NEEDS_GPUS(2);
  VMART_IN_CHILD(60);
  this->load_kernels();
  const TestMapping mapping(this->driver(), gpu(0), this->rig().page(),
                            {{gpu(1), Access::read_write}});
  this->expect_refused(0, mapping);
}

TYPED_TEST(Faults, APeerWithoutAGrantIsRefusedAndTheOtherGpusFailFromThenOn) {
  VMART_NEEDS_GPUS(2);
  VMART_IN_CHILD(60);
  this->load_kernels();
  const TestMapping mapping(this->driver(), gpu(0), this->rig().page(),
                            {{gpu(0), Access::read_write}});
  this->expect_refused(1, mapping);
  this->expect_other_gpus_fail_too(1);
}

TYPED_TEST(Faults, AnotherContextOfTheSameGpuFailsTooFromThenOn) {
  VMART_IN_CHILD(60);
  this->load_kernels();
  ContractRig& rig = this->rig();
  const BoundStream other = rig.new_stream(rig.new_context(0));
  rig.kernel(other.context, spin_kernel());
  const TestMapping mapping(this->driver(), gpu(0), rig.page(), {});
  this->expect_refused(0, mapping);
  const int native =
      rig.finish(other, [&] { rig.launch(other, spin_kernel(), std::uint64_t{1000}); });
  EXPECT_EQ(native, native_illegal_address) << "the second context is lost with the first";
}

TYPED_TEST(Faults, ARevokedOwnerIsRefused) {
  VMART_IN_CHILD(60);
  this->load_kernels();
  TestMapping mapping(this->driver(), gpu(0), this->rig().page(), all_gpus(this->driver()));
  mapping.grant({{gpu(0), Access::none}});
  this->expect_refused(0, mapping);
}

TYPED_TEST(Faults, ARemappedRangeIsRefusedUntilItIsGrantedAgain) {
  VMART_IN_CHILD(60);
  this->load_kernels();
  TestMapping mapping(this->driver(), gpu(0), this->rig().page(), all_gpus(this->driver()));
  mapping.unmap();
  mapping.map();
  this->expect_refused(this->rig().gpus() - 1, mapping);
}

TYPED_TEST(Faults, AWriteToReadOnlyDeviceMemoryIsRefused) {
  VMART_IN_CHILD(60);
  this->load_kernels();
  TestMapping mapping(this->driver(), gpu(0), this->rig().page(), all_gpus(this->driver()));
  mapping.grant({{gpu(0), Access::read}});
  this->expect_refused(0, mapping);
}

TYPED_TEST(Faults, AWriteOfAPeerToReadOnlyMemoryIsRefused) {
  VMART_NEEDS_GPUS(2);
  VMART_IN_CHILD(60);
  this->load_kernels();
  TestMapping mapping(this->driver(), gpu(0), this->rig().page(), all_gpus(this->driver()));
  mapping.grant({{gpu(1), Access::read}});
  this->expect_refused(1, mapping);
  this->expect_other_gpus_fail_too(1);
}

TYPED_TEST(Faults, AWriteToReadOnlyHostMemoryIsRefused) {
  VMART_IN_CHILD(60);
  this->load_kernels();
  TestMapping mapping(this->driver(), host(0), this->rig().page(), all_gpus(this->driver()));
  mapping.grant({{gpu(0), Access::read}});
  this->expect_refused(0, mapping);
}

TYPED_TEST(Faults, ACopyToReadOnlyMemoryIsRefused) {
  VMART_IN_CHILD(60);
  ContractRig& rig = this->rig();
  Driver& driver = this->driver();
  TestMapping target(driver, gpu(0), rig.page(), all_gpus(driver));
  const TestMapping source(driver, gpu(0), rig.page(), all_gpus(driver));
  target.grant({{gpu(0), Access::read}});
  const BoundStream stream = rig.stream(0);
  const int at_call = native_of(
      [&] { driver.copy(stream, target.address(), source.address(), target.size_bytes()); });
  const int at_end = rig.finish(stream, [] {});
  EXPECT_EQ(at_call != 0 ? at_call : at_end, native_invalid_value);
  if (driver.simulated()) {
    EXPECT_EQ(at_call, native_invalid_value);
    EXPECT_EQ(at_end, 0) << "nothing is sticky";
  } else {
    this->report("a copy engine's write to read-only memory: the call, and the stream after it",
                 "codes " + std::to_string(at_call) + ", " + std::to_string(at_end));
  }
}

}  // namespace
}  // namespace vma
