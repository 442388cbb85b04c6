// Goal: places are written and parsed in the same format, and an error quotes text that names no
// place.
#include <vma/error.hpp>
#include <vma/place.hpp>

#include "base/ids.hpp"
#include "base/printable.hpp"
#include "base/units.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <unordered_set>

namespace vma {
namespace {

TEST(Place, IsReadAsItIsWritten) {
  for (const Place at : {gpu(0), gpu(7), gpu(255), host(0), host(3), host(2147483647)}) {
    EXPECT_EQ(parse_place(to_string(at)), at);
  }
  EXPECT_EQ(to_string(gpu(3)), "gpu(3)");
  EXPECT_EQ(to_string(host(1)), "host(1)");
}

TEST(Place, IsReadAsAShellAndOtherLibrariesWriteIt) {
  for (const std::string text :
       {"gpu2", "gpu:2", "gpu(2)", "GPU2", "Gpu:2", "cuda:2", "cuda2", "CUDA:2", "cuda(2)"}) {
    EXPECT_EQ(parse_place(text), gpu(2)) << text;
  }
  for (const std::string text : {"host11", "host:11", "host(11)", "HOST11", "cpu:11", "cpu11"}) {
    EXPECT_EQ(parse_place(text), host(11)) << text;
  }
  EXPECT_EQ(parse_place("cuda"), gpu(0));
  EXPECT_EQ(parse_place("cpu"), host(0));
  EXPECT_EQ(parse_place("host"), host(0));
}

TEST(Place, RefusesWhatNamesNoPlaceAndQuotesIt) {
  for (const std::string text :
       {"",      "gpu",    "gpu()",  "cpu()",   "cuda:",         "cuda:one",
        "gpus0", "gpu(",   "gpu(1",  "gpu1)",   "gpu-1",         "gpu(-1)",
        "gpu 1", "gpu1 ",  " gpu1",  "gpu(1)x", "gpu::1",        "gpu:(1)",
        "node1", "gpu1.0", "gpu0x1", "gpu+1",   "gpu2147483648", "gpu99999999999999999999"}) {
    SCOPED_TRACE(text);
    try {
      const Place at = parse_place(text);
      ADD_FAILURE() << "read as " << to_string(at);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      EXPECT_NE(std::string(error.what()).find("\"" + text + "\" is not a place; write gpu0"),
                std::string::npos)
          << error.what();
    }
  }
}

TEST(Place, IsShownAsAShellTakesIt) {
  EXPECT_EQ(place_name(gpu(12)), "gpu12");
  EXPECT_EQ(place_name(host(0)), "host0");
  EXPECT_EQ(with_place_names("gpu(7) is none; it has gpu(0) host(10)"),
            "gpu7 is none; it has gpu0 host10");
  for (const std::string other : {"", "gpu", "gpu(", "gpu()", "gpu(1", "gpu(x)", "host(1 )"}) {
    EXPECT_EQ(with_place_names(other), other);
  }
}

TEST(Place, GpusComeBeforeHostsAndHashApart) {
  EXPECT_LT(gpu(9), host(0));
  EXPECT_LT(gpu(0), gpu(1));
  EXPECT_NE(gpu(0), host(0));
  std::unordered_set<Place> places;
  std::set<std::size_t> hashes;
  for (int ordinal = 0; ordinal < 16; ++ordinal) {
    for (const Place at : {gpu(ordinal), host(ordinal)}) {
      places.insert(at);
      hashes.insert(std::hash<Place>{}(at));
    }
  }
  EXPECT_EQ(places.size(), 32u);
  EXPECT_EQ(hashes.size(), 32u);
}

TEST(Units, RoundingKeepsMultiples) {
  EXPECT_EQ(round_up(0, 4096), 0u);
  EXPECT_EQ(round_up(1, 4096), 4096u);
  EXPECT_EQ(round_up(4096, 4096), 4096u);
  EXPECT_EQ(round_up(4097, 4096), 8192u);
  EXPECT_EQ(round_down(4095, 4096), 0u);
  EXPECT_EQ(round_down(8191, 4096), 4096u);
}

TEST(Units, SizesAreShownInTheLargestUnitThatTheyReach) {
  EXPECT_EQ(bytes_text(80), "80 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(100663296), "96.0 MiB");
  EXPECT_EQ(bytes_text(1536.0 * GiB), "1.5 TiB");
}

TEST(Ids, AddressesAddAndSubtract) {
  int value = 0;
  const Address address = address_of(&value);
  EXPECT_EQ(to_pointer(address), &value);
  EXPECT_EQ((address + 24) - address, 24u);
  EXPECT_TRUE(is_none(ChunkHandle{}));
  EXPECT_FALSE(is_none(ChunkHandle{1}));
}

}  // namespace
}  // namespace vma
