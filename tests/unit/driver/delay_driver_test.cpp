// Goal: the chosen call, and no other, takes longer on the driver's clock.

#include "support/drivers/delay_driver.hpp"

#include "unit/driver/counting_driver.hpp"

#include <gtest/gtest.h>

namespace vma {
namespace {

using std::chrono::milliseconds;

template <typename Body>
TimePoint took(Driver& driver, Body body) {
  const TimePoint start = driver.clock().now();
  body();
  return driver.clock().now() - start;
}

TEST(DelayDriver, EachChosenCallWaits) {
  CountingDriver inner;
  DelayDriver delays(inner);
  delays.delay_each(Call::unmap, milliseconds(20));
  EXPECT_GE(took(delays, [&] { delays.unmap(Address{4096}, 4096); }), TimePoint{milliseconds(20)});
  EXPECT_LT(took(delays, [&] { delays.reserve(4096, 0); }), TimePoint{milliseconds(20)});
  delays.delay_each(Call::unmap, TimePoint{0});
  EXPECT_LT(took(delays, [&] { delays.unmap(Address{4096}, 4096); }), TimePoint{milliseconds(20)});
  EXPECT_EQ(inner.calls(Call::unmap), 2);
}

TEST(DelayDriver, TheCallWithTheNumberWaitsOnce) {
  CountingDriver inner;
  DelayDriver delays(inner);
  delays.delay_call_number(1, milliseconds(20));
  EXPECT_LT(took(delays, [&] { delays.reserve(4096, 0); }), TimePoint{milliseconds(20)});
  EXPECT_GE(took(delays, [&] { delays.reserve(4096, 0); }), TimePoint{milliseconds(20)});
  EXPECT_LT(took(delays, [&] { delays.reserve(4096, 0); }), TimePoint{milliseconds(20)});
  EXPECT_EQ(delays.counted(), 3);
  EXPECT_EQ(delays.fired(), 1);
}

}  // namespace
}  // namespace vma
