// Goal: every driver code maps to one kind of error, and an unlisted code does not map to the kind
// of a neighbouring code.

#include "driver/native_codes.hpp"

#include "support/drivers/calls.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace vma {
namespace {

TEST(NativeCodes, BecomeTheirKind) {
  EXPECT_EQ(kind_of(native_out_of_memory), ErrorKind::out_of_memory);
  EXPECT_EQ(kind_of(native_invalid_value), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of(native_not_supported), ErrorKind::unsupported);
  EXPECT_EQ(kind_of(native_stub_library), ErrorKind::no_driver);
  EXPECT_EQ(kind_of(native_no_device), ErrorKind::no_driver);
  EXPECT_EQ(kind_of(native_deinitialized), ErrorKind::driver_gone);
  EXPECT_EQ(kind_of(native_illegal_address), ErrorKind::driver_failure);
}

TEST(NativeCodes, AnUnlistedCodeIsADriverFailure) {
  for (const int native : {5, 99, 702, 12345, -1}) {
    EXPECT_EQ(kind_of(native), ErrorKind::driver_failure) << native;
  }
}

TEST(NativeCodes, AnErrorNamesCallCodeAndValues) {
  const Error error = driver_error(native_invalid_value, "cuMemMap", "(0x1000, 4096)");
  EXPECT_EQ(error.native(), native_invalid_value);
  const std::string text = error.what();
  for (const char* part : {"cuMemMap", "CUDA_ERROR_INVALID_VALUE", "0x1000", "4096"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
  }
}

TEST(Calls, AreNamedOnce) {
  const std::set<std::string_view> names(std::begin(call_names), std::end(call_names));
  EXPECT_EQ(static_cast<int>(names.size()), call_count);
  EXPECT_EQ(to_string(Call::free_plain), "free_plain");
}

}  // namespace
}  // namespace vma
