// Goal: what libvmart gives to libvmart-run are its own functions. Method: this program has one of
// the same name, which the loader finds first, as it finds those of another copy of libvmart.

#include "abi/run_table.hpp"

#include <gtest/gtest.h>

namespace {
int calls = 0;
}

vmart_status vmart_trim(vmart_place, std::uint64_t*) {
  ++calls;
  return VMART_OK;
}

namespace vma {
namespace {

TEST(RunTable, HasTheFunctionsOfItsOwnLibrary) {
  const RunTable* const table = vmart_run_table(RunTable::version);
  ASSERT_NE(table, nullptr);
  EXPECT_NE(table->vmart_trim, &::vmart_trim);
  table->vmart_trim({VMART_HOST, 0}, nullptr);
  EXPECT_EQ(calls, 0);
}

TEST(RunTable, IsForLibrariesOfTheSameVersion) {
  EXPECT_EQ(vmart_run_table(RunTable::version + 1), nullptr);
}

}  // namespace
}  // namespace vma
