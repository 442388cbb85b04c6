// Goal: kernels that are loaded together are the same as kernels loaded one by one, whether the
// driver can use their image or has to compile their text.

#include "contract/contract_test.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace vma {
namespace {

template <typename Machine>
class Kernels : public ContractTest<Machine> {
 protected:
  std::uint64_t run(KernelHandle kernel, const KernelArguments& arguments, std::uint64_t* result) {
    ContractRig& rig = this->rig();
    this->driver().launch(rig.stream(0), kernel, {{1}, {1}}, arguments);
    EXPECT_TRUE(rig.wait(rig.stream(0)));
    return *result;
  }
};
TYPED_TEST_SUITE(Kernels, ContractMachines, MachineNames);

TYPED_TEST(Kernels, OfOneTextAreLoadedTogetherAndUnloadedOneByOne) {
  ContractRig& rig = this->rig();
  const std::array kernels{&store_kernel(), &atomic_add_kernel(), &load_kernel()};
  constexpr std::array<std::uint64_t, 2> useless_image{};
  for (const bool with_image : {false, true}) {
    std::span<const std::uint64_t> image;
    if (with_image) image = useless_image;
    const std::vector<KernelHandle> loaded =
        this->driver().load_kernels(rig.context(0), kernels, image);
    ASSERT_EQ(loaded.size(), kernels.size());
    std::uint64_t* const word = rig.new_word();
    std::uint64_t* const other = rig.new_word();
    EXPECT_EQ(this->run(loaded[0], KernelArguments::of(word, std::uint64_t{3}), word), 3u);
    this->driver().unload_kernel(loaded[0]);
    EXPECT_EQ(this->run(loaded[1], KernelArguments::of(word, std::uint64_t{4}), word), 7u);
    this->driver().unload_kernel(loaded[1]);
    EXPECT_EQ(this->run(loaded[2], KernelArguments::of(word, other), other), 7u);
    this->driver().unload_kernel(loaded[2]);
  }
}

TYPED_TEST(Kernels, NoneIsLoadedIfOneIsMissing) {
  ContractRig& rig = this->rig();
  Kernel missing = store_kernel();
  missing.entry = "no_such_kernel";
  missing.host_body = nullptr;
  const std::array kernels{&store_kernel(), static_cast<const Kernel*>(&missing)};
  EXPECT_NE(native_of([&] { this->driver().load_kernels(rig.context(0), kernels, {}); }), 0);
}

}  // namespace
}  // namespace vma
