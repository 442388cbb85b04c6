// Goal: the cost model of the H200 machines reproduces the measurements. Method: rows of the
// measured tables, with the run-to-run variation as tolerance.
#include "machine/cost_model.hpp"

#include "base/units.hpp"
#include "machine/machine_file.hpp"

#include <gtest/gtest.h>

namespace vma {
namespace {

double us(TimePoint time) {
  return static_cast<double>(time.count()) / 1e3;
}

GrantSituation device_grant(std::uint64_t size_bytes, int gpus) {
  GrantSituation grant;
  grant.at = gpu(0);
  grant.size_bytes = size_bytes;
  grant.gpus = gpus;
  return grant;
}

struct CostModelTest : testing::Test {
  CostModel costs{load_machine("h200x4")};
};

TEST_F(CostModelTest, PeerCopiesRampUpAsMeasured) {
  const struct {
    std::uint64_t mib;
    double gb_s;
  } measured[] = {{2, 248}, {16, 361}, {64, 389}, {256, 395}, {1024, 397}};
  for (const auto& row : measured) {
    const auto bytes = static_cast<double>(row.mib * MiB);
    const double gb_s =
        bytes / static_cast<double>(costs.copy(gpu(0), gpu(1), row.mib * MiB).count());
    EXPECT_NEAR(gb_s, row.gb_s, row.gb_s * 0.03) << row.mib << " MiB";
  }
  EXPECT_EQ(costs.bandwidth(host(0), gpu(3)), 55);
  EXPECT_EQ(costs.bandwidth(gpu(1), gpu(1)), 2100);
}

TEST_F(CostModelTest, GrantsCostWhatTheTablesSay) {
  GrantSituation cold = device_grant(256 * MiB, 2);
  cold.cold_peers = 1;
  cold.fresh = true;
  EXPECT_NEAR(us(costs.grant(cold)), 1060, 1);
  GrantSituation first = device_grant(256 * MiB, 4);
  first.fresh = true;
  EXPECT_NEAR(us(costs.grant(first)), 660, 1);
  EXPECT_NEAR(us(costs.grant(device_grant(2 * MiB, 2))), 44, 1);
  EXPECT_NEAR(us(costs.grant(device_grant(64 * MiB, 4))), 157, 1);
  // The jump at 512 MiB, which a keeper of that size avoids.
  EXPECT_LT(us(costs.grant(device_grant(510 * MiB, 2))), 200);
  EXPECT_GT(us(costs.grant(device_grant(512 * MiB, 2))), 8000);
  GrantSituation large = device_grant(512 * MiB, 2);
  large.own_class_warm = true;
  EXPECT_NEAR(us(costs.grant(large)), 170, 1);
  GrantSituation shadow = device_grant(1 * GiB, 4);
  shadow.shown_elsewhere = true;
  EXPECT_NEAR(us(costs.grant(shadow)), 155, 1);
}

TEST_F(CostModelTest, HostMemoryIsMappedPageByPage) {
  GrantSituation grant = device_grant(256 * MiB, 4);
  grant.at = host(0);
  EXPECT_NEAR(us(costs.grant(grant)), 8600, 900);
  EXPECT_NEAR(us(costs.unmap(host(0), 256 * MiB, 4)), 2200, 300);
  EXPECT_NEAR(us(costs.create(host(0), 1 * GiB)), 202'000, 2'000);
  EXPECT_LT(us(costs.create(gpu(0), 256 * MiB)), 13);
}

TEST_F(CostModelTest, ARemapOfHbmStaysUnderTheDarkBar) {
  EXPECT_LT(us(costs.remap(gpu(0), gpu(1), 256 * MiB, 2)), 150);
  EXPECT_LT(us(costs.remap(gpu(0), gpu(1), 256 * MiB, 4)), 260);
  EXPECT_GT(us(costs.remap(gpu(0), gpu(1), 256 * MiB, 4)),
            us(costs.remap(gpu(0), gpu(1), 256 * MiB, 2)));
}

}  // namespace
}  // namespace vma
