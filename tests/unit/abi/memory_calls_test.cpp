// Goal: the C calls for memory behave as the C++ ones do, and refuse null pointers.
#include "unit/abi/abi_rig.hpp"

#include <cstring>

namespace vma {
namespace {

class MemoryCalls : public AbiTest {};

TEST_F(MemoryCalls, MemoryKeepsItsAddressAndItsBytesWhileItMoves) {
  std::vector<unsigned char> written(100'000), now(written.size());
  for (std::size_t i = 0; i < written.size(); ++i) written[i] = static_cast<unsigned char>(i * 7);
  void* pointer = nullptr;
  ASSERT_EQ(vmart_alloc(written.size(), c_gpu(0), &pointer), VMART_OK);
  ASSERT_EQ(vmart_write(pointer, written.data(), written.size()), VMART_OK);
  EXPECT_EQ(home_of(pointer), "gpu(0)");
  for (const vmart_location to : {c_gpu(1), c_host(0), c_gpu(0)}) {
    ASSERT_EQ(vmart_migrate(pointer, 0, 0, to, nullptr), VMART_OK) << vmart_last_error();
    EXPECT_EQ(home_of(pointer), to_string(to.kind == VMART_GPU ? gpu(to.ordinal) : host(0)));
    std::memset(now.data(), 0, now.size());
    ASSERT_EQ(vmart_read(pointer, now.data(), now.size()), VMART_OK);
    EXPECT_EQ(now, written);
  }
  EXPECT_EQ(vmart_free(pointer), VMART_OK);
  EXPECT_EQ(vmart_free(pointer), VMART_UNKNOWN_POINTER);
  EXPECT_EQ(vmart_free(nullptr), VMART_OK);
}

TEST_F(MemoryCalls, AnyAddressInsideTellsWhereItLiesAndWhatItLiesIn) {
  std::uint64_t* words = filled(3, 1);
  migrate(words, chunk_bytes, chunk_bytes, host(0));
  auto* bytes = reinterpret_cast<char*>(words);
  EXPECT_EQ(home_of(bytes + chunk_bytes - 1), "gpu(0)");
  EXPECT_EQ(home_of(bytes + chunk_bytes), "host(0)");
  EXPECT_EQ(home_of(bytes + 2 * chunk_bytes - 1), "host(0)");
  EXPECT_EQ(home_of(bytes + 2 * chunk_bytes), "gpu(0)");
  void* base = nullptr;
  std::size_t size_bytes = 0;
  EXPECT_EQ(vmart_base(bytes + chunk_bytes + 5, &base, &size_bytes), VMART_OK);
  EXPECT_EQ(base, words);
  EXPECT_EQ(size_bytes, 3 * chunk_bytes);
  EXPECT_EQ(vmart_base(bytes + 3 * chunk_bytes, &base, nullptr), VMART_UNKNOWN_POINTER);
  vma::free(words);
}

TEST_F(MemoryCalls, NoRoomAndNoSuchPlaceAreToldApart) {
  void* pointer = &pointer;
  EXPECT_EQ(vmart_alloc(second_gpu_bytes + 1, c_gpu(1), &pointer), VMART_OUT_OF_MEMORY);
  EXPECT_EQ(vmart_alloc(8, c_gpu(9), &pointer), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_alloc(8, {7, 0}, &pointer), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_alloc(0, c_gpu(0), &pointer), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(pointer, &pointer) << "an error writes no result";
}

TEST_F(MemoryCalls, AFreeBehindAStreamNeedsNoWait) {
  std::uint64_t* words = filled(1, 1);
  EXPECT_EQ(vmart_free_async(words, stream(0)), VMART_OK);
  EXPECT_EQ(vmart_free_async(words, stream(0)), VMART_UNKNOWN_POINTER);
  synchronize(stream(0));
}

TEST_F(MemoryCalls, APinKeepsAnAllocationWhereItIs) {
  std::uint64_t* words = filled(2, 1);
  vmart_pin* pin = nullptr;
  ASSERT_EQ(vmart_pin_create(words + 5, &pin), VMART_OK);
  EXPECT_EQ(vmart_migrate(words, 0, 0, c_gpu(1), nullptr), VMART_PINNED);
  vmart_pin_release(pin);
  EXPECT_EQ(vmart_migrate(words, 0, 0, c_gpu(1), nullptr), VMART_OK);
  ASSERT_EQ(vmart_note_export(words + 5), VMART_OK);
  EXPECT_EQ(vmart_migrate(words, 0, 0, c_gpu(0), nullptr), VMART_PINNED);
  vmart_pin_release(nullptr);
  vma::free(words);
}

TEST_F(MemoryCalls, NullIsRefusedByName) {
  std::uint64_t* words = filled(1, 1);
  char byte = 0;
  EXPECT_EQ(vmart_alloc(8, c_gpu(0), nullptr), VMART_INVALID_ARGUMENT);
  EXPECT_STREQ(vmart_last_error(), "vmart_alloc: invalid_argument: out is null");
  EXPECT_EQ(vmart_read(nullptr, &byte, 1), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_read(words, nullptr, 1), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_write(nullptr, &byte, 1), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_write(words, nullptr, 1), VMART_INVALID_ARGUMENT);
  vmart_location at{};
  EXPECT_EQ(vmart_where(nullptr, &at), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_where(words, nullptr), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_base(nullptr, nullptr, nullptr), VMART_INVALID_ARGUMENT);
  vmart_pin* pin = nullptr;
  EXPECT_EQ(vmart_pin_create(nullptr, &pin), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_pin_create(words, nullptr), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_note_export(nullptr), VMART_INVALID_ARGUMENT);
  vma::free(words);
}

}  // namespace
}  // namespace vma
