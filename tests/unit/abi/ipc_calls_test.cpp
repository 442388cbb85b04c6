// Goal: exports have names of fixed size, which are never those of others. Method: one process that
// exports to itself.

#include "abi/run_table.hpp"
#include "unit/abi/abi_rig.hpp"

#include <unistd.h>

namespace vma {
namespace {

class IpcCallsTest : public AbiTest {};

TEST_F(IpcCallsTest, MemoryIsExportedAndImportedByName) {
  std::uint64_t* words = filled(2, 30);
  vmart_exported* exported = nullptr;
  vmart_ipc_name name{};
  ASSERT_EQ(vmart_ipc_export(words, &exported, &name), VMART_OK) << vmart_last_error();
  EXPECT_EQ(name.user, geteuid());
  EXPECT_EQ(name.process, static_cast<std::uint32_t>(getpid()));
  void* theirs = nullptr;
  ASSERT_EQ(vmart_ipc_import(&name, long_ns, &theirs), VMART_OK) << vmart_last_error();
  EXPECT_EQ(wrong(static_cast<std::uint64_t*>(theirs), 2, 30), 0u);
  EXPECT_EQ(vmart_free(theirs), VMART_OK);
  vmart_exported_release(exported);
  EXPECT_EQ(vmart_ipc_import(&name, 0, &theirs), VMART_PEER_FAILURE);
  EXPECT_EQ(vmart_free(words), VMART_OK);
}

TEST_F(IpcCallsTest, EachExportHasAnotherName) {
  std::uint64_t* words = filled(1, 30);
  vmart_exported* exported[2] = {};
  vmart_ipc_name names[2] = {};
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(vmart_ipc_export(words, &exported[i], &names[i]), VMART_OK) << vmart_last_error();
  }
  EXPECT_NE(names[0].key, names[1].key);
  for (vmart_exported* const each : exported) vmart_exported_release(each);
  EXPECT_EQ(vmart_free(words), VMART_OK);
}

TEST_F(IpcCallsTest, BadArgumentsAreRefused) {
  vmart_exported* exported = nullptr;
  vmart_ipc_name name{};
  void* out = nullptr;
  int local = 0;
  EXPECT_EQ(vmart_ipc_export(nullptr, &exported, &name), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_ipc_export(&local, nullptr, &name), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_ipc_export(&local, &exported, nullptr), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_ipc_export(&local, &exported, &name), VMART_UNKNOWN_POINTER);
  EXPECT_EQ(vmart_ipc_import(nullptr, 0, &out), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_ipc_import(&name, 0, nullptr), VMART_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace vma
