// Goal: a misspelled name finds the intended one, and an unrelated name finds none.
#include "base/nearest_name.hpp"

#include <gtest/gtest.h>

#include <string>

namespace vma {
namespace {

constexpr std::string_view names[] = {"seeds", "machines", "hbm_gib", "host_gib", "a"};

TEST(NearestName, FindsWhatWasMeant) {
  EXPECT_EQ(nearest_name("seed", names), "seeds");
  EXPECT_EQ(nearest_name("sedes", names), "seeds");  // Two swapped letters count as one mistake.
  EXPECT_EQ(nearest_name("machinse", names), "machines");
  EXPECT_EQ(nearest_name("hots_gib", names), "host_gib");
  EXPECT_EQ(nearest_name("hbm", names), "hbm_gib");  // A prefix.
  EXPECT_EQ(nearest_name("hbm_gb", names), "hbm_gib");
  EXPECT_EQ(nearest_name("seeds", names), "seeds");
}

TEST(NearestName, FindsNoneWhereNoneIsNear) {
  EXPECT_EQ(nearest_name("colour", names), "");
  EXPECT_EQ(nearest_name("b", {}), "");
  EXPECT_EQ(nearest_name("", names), "");
  EXPECT_EQ(nearest_name(std::string(1 << 20, 's'), names), "");
}

}  // namespace
}  // namespace vma
