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
