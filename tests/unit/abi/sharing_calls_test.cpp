// Goal: the C calls share memory between processes as the C++ ones do. Method: one process that
// exports to itself.

#include "unit/abi/abi_rig.hpp"

#include <string>

namespace vma {
namespace {

class SharingCallsTest : public AbiTest {};

TEST_F(SharingCallsTest, MemoryIsExportedAndImported) {
  std::uint64_t* words = filled(2, 30);
  vmart_exported* exported = nullptr;
  ASSERT_EQ(vmart_exported_create(words, nullptr, &exported), VMART_OK) << vmart_last_error();
  const std::string path = vmart_exported_path(exported);
  void* theirs = nullptr;
  ASSERT_EQ(vmart_import(path.c_str(), long_ns, &theirs), VMART_OK) << vmart_last_error();
  EXPECT_NE(theirs, words);
  EXPECT_EQ(wrong(static_cast<std::uint64_t*>(theirs), 2, 30), 0u);
  std::size_t importers = 0;
  ASSERT_EQ(vmart_exported_importers(exported, &importers), VMART_OK);
  EXPECT_EQ(importers, 1u);
  EXPECT_EQ(vmart_free(words), VMART_PINNED);
  EXPECT_EQ(vmart_free(theirs), VMART_OK);
  vmart_exported_release(exported);
  EXPECT_EQ(vmart_import(path.c_str(), 0, &theirs), VMART_PEER_FAILURE);
  EXPECT_EQ(vmart_free(words), VMART_OK);
}

TEST_F(SharingCallsTest, BlocksOfAPoolAreExportedAndImported) {
  vmart_pool* pool = nullptr;
  vmart_pool_options options{};
  options.size_bytes = sizeof options;
  options.exportable = 1;
  ASSERT_EQ(vmart_pool_create(c_gpu(0), nullptr, &options, &pool), VMART_OK);
  void *block = nullptr, *theirs = nullptr;
  ASSERT_EQ(vmart_pool_allocate(pool, 600, 0, stream(0), &block), VMART_OK);
  vmart_exported_pool* exported = nullptr;
  ASSERT_EQ(vmart_exported_pool_create(pool, nullptr, &exported), VMART_OK) << vmart_last_error();
  vmart_exported_pointer pointer{};
  ASSERT_EQ(vmart_exported_pool_pointer(exported, block, &pointer), VMART_OK) << vmart_last_error();
  EXPECT_GE(pointer.bytes, 600u);
  const std::string path = vmart_exported_pool_path(exported);
  ASSERT_EQ(vmart_import_pointer(path.c_str(), &pointer, long_ns, &theirs), VMART_OK)
      << vmart_last_error();
  const std::uint64_t word = 77;
  std::uint64_t seen = 0;
  ASSERT_EQ(vmart_write(block, &word, sizeof word), VMART_OK);
  ASSERT_EQ(vmart_read(theirs, &seen, sizeof seen), VMART_OK);
  EXPECT_EQ(seen, word);
  EXPECT_EQ(vmart_pool_deallocate(pool, theirs, stream(0)), VMART_OK) << vmart_last_error();
  EXPECT_EQ(vmart_pool_deallocate(pool, theirs, stream(0)), VMART_UNKNOWN_POINTER);
  vmart_exported_pool_release(exported);
  EXPECT_EQ(vmart_import_pointer(path.c_str(), &pointer, 0, &theirs), VMART_PEER_FAILURE);
  EXPECT_EQ(vmart_pool_deallocate(pool, block, stream(0)), VMART_OK);
  EXPECT_EQ(vmart_pool_destroy(pool), VMART_OK);
  EXPECT_EQ(vmart_pool_synchronize(pool), VMART_OK);
  vmart_pool_release(pool);
}

TEST_F(SharingCallsTest, BadArgumentsOfPoolsAreRefused) {
  vmart_pool* pool = nullptr;
  vmart_exported_pool* exported = nullptr;
  vmart_exported_pointer pointer{};
  void* theirs = nullptr;
  EXPECT_EQ(vmart_exported_pool_create(nullptr, nullptr, &exported), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_exported_pool_path(nullptr), nullptr);
  EXPECT_EQ(vmart_exported_pool_pointer(nullptr, this, &pointer), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_import_pointer(nullptr, &pointer, 0, &theirs), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_import_pointer("/no/such/pool", nullptr, 0, &theirs), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_import_pointer("/no/such/pool", &pointer, 0, nullptr), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_import_pointer("/no/such/pool", &pointer, -1, &theirs), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_import_pointer("/no/such/pool", &pointer, 0, &theirs), VMART_PEER_FAILURE);
  ASSERT_EQ(vmart_pool_default(c_gpu(0), &pool), VMART_OK);
  EXPECT_EQ(vmart_exported_pool_create(pool, nullptr, nullptr), VMART_INVALID_ARGUMENT);
  ASSERT_EQ(vmart_exported_pool_create(pool, nullptr, &exported), VMART_OK) << vmart_last_error();
  EXPECT_EQ(vmart_exported_pool_pointer(exported, this, &pointer), VMART_UNKNOWN_POINTER);
  vmart_exported_pool_release(exported);
  vmart_exported_pool_release(nullptr);
  vmart_pool_release(pool);
}

TEST_F(SharingCallsTest, BadArgumentsAreRefused) {
  vmart_exported* exported = nullptr;
  void* theirs = nullptr;
  std::size_t importers = 0;
  EXPECT_EQ(vmart_exported_create(nullptr, nullptr, &exported), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_exported_create(this, nullptr, nullptr), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_exported_create(this, nullptr, &exported), VMART_UNKNOWN_POINTER);
  EXPECT_EQ(vmart_exported_path(nullptr), nullptr);
  EXPECT_EQ(vmart_exported_importers(nullptr, &importers), VMART_INVALID_ARGUMENT);
  vmart_exported_release(nullptr);
  EXPECT_EQ(vmart_import(nullptr, 0, &theirs), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_import("/no/such/socket", 0, nullptr), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_import("/no/such/socket", -1, &theirs), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_import("/no/such/socket", 0, &theirs), VMART_PEER_FAILURE);
}

}  // namespace
}  // namespace vma
