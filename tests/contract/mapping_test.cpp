// Goal: what may be mapped, unmapped, released and reserved, and the driver's errors otherwise.
// Method: each claim of the facts about the virtual memory calls, by these calls alone.
// `contract_test.hpp` lists what `Driver` cannot express.

#include "contract/contract_test.hpp"

namespace vma {
namespace {

template <typename Machine>
class Mapping : public ContractTest<Machine> {};
TYPED_TEST_SUITE(Mapping, ContractMachines, MachineNames);

TYPED_TEST(Mapping, AMapOverAMappingIsRefused) {
  const std::uint64_t page = this->rig().page();
  TestMapping shown(this->driver(), gpu(0), page, {});
  TestMapping other(this->driver(), gpu(0), page, {});
  EXPECT_EQ(native_of([&] { this->driver().map(shown.address(), page, other.chunk()); }),
            native_invalid_value);
}

TYPED_TEST(Mapping, PartOfAChunkCannotBeMapped) {
  Driver& driver = this->driver();
  const std::uint64_t page = this->rig().page();
  const Address begin = driver.reserve(2 * page, 0);
  const ChunkHandle chunk = driver.create(gpu(0), 2 * page);
  EXPECT_EQ(native_of([&] { driver.map(begin, page, chunk); }), native_not_supported);
  driver.release(chunk);
  driver.unreserve(begin, 2 * page);
}

TYPED_TEST(Mapping, OneChunkAtTwoAddressesShowsTheSameBytes) {
  ContractRig& rig = this->rig();
  Driver& driver = this->driver();
  const TestMapping first(driver, gpu(0), rig.page(), all_gpus(driver));
  const Address second = driver.reserve(rig.page(), 0);
  driver.map(second, rig.page(), first.chunk());
  driver.grant(second, rig.page(), all_gpus(driver));
  rig.fill(0, first, 70);
  EXPECT_EQ(rig.word_at(0, second + 8), 71u);
  auto* words = static_cast<std::uint64_t*>(to_pointer(second));
  EXPECT_EQ(rig.run(0, store_kernel(), words + 1, std::uint64_t{5}), 0);
  EXPECT_EQ(rig.word_at(0, first.address() + 8), 5u);
  driver.unmap(second, rig.page());
  driver.unreserve(second, rig.page());
}

TYPED_TEST(Mapping, PartOfAMappingCannotBeUnmapped) {
  const std::uint64_t page = this->rig().page();
  const TestMapping mapping(this->driver(), gpu(0), 2 * page, {});
  EXPECT_EQ(native_of([&] { this->driver().unmap(mapping.address(), page); }),
            native_invalid_value);
  EXPECT_EQ(native_of([&] { this->driver().unmap(mapping.address() + page, page); }),
            native_invalid_value);
}

/// A reservation of several pages, each with its own chunk.
class Row {
 public:
  Row(Driver& driver, std::uint64_t page, const std::vector<Place>& places)
      : driver_(driver), page_(page), size_bytes_(page * places.size()) {
    begin_ = driver_.reserve(size_bytes_, 0);
    for (std::size_t i = 0; i < places.size(); ++i) {
      chunks_.push_back(driver_.create(places[i], page_));
      driver_.map(begin_ + i * page_, page_, chunks_.back());
    }
  }
  ~Row() {
    for (const ChunkHandle chunk : chunks_) native_of([&] { driver_.release(chunk); });
    native_of([&] { driver_.unreserve(begin_, size_bytes_); });
  }
  Row(const Row&) = delete;
  Row& operator=(const Row&) = delete;

  Address begin() const { return begin_; }
  std::uint64_t size_bytes() const { return size_bytes_; }

 private:
  Driver& driver_;
  std::uint64_t page_;
  std::uint64_t size_bytes_;
  Address begin_{};
  std::vector<ChunkHandle> chunks_;
};

TYPED_TEST(Mapping, SeveralWholeMappingsAreGrantedAndUnmappedAtOnce) {
  Driver& driver = this->driver();
  const std::uint64_t page = this->rig().page();
  const Row row(driver, page, {gpu(0), gpu(0), host(0)});
  driver.grant(row.begin(), row.size_bytes(), all_gpus(driver));
  EXPECT_EQ(driver.access(row.begin(), gpu(0)), Access::read_write);
  EXPECT_EQ(driver.access(row.begin() + 2 * page, gpu(0)), Access::read_write);
  driver.unmap(row.begin(), row.size_bytes());
  EXPECT_NE(native_of([&] { driver.access(row.begin(), gpu(0)); }), 0);
}

TYPED_TEST(Mapping, GrantOverAnUnmappedPartOrHalfAMappingIsRefused) {
  Driver& driver = this->driver();
  const std::uint64_t page = this->rig().page();
  const std::vector<Accessor> all = all_gpus(driver);
  const Address begin = driver.reserve(2 * page, 0);
  const ChunkHandle chunk = driver.create(gpu(0), page);
  driver.map(begin, page, chunk);
  EXPECT_EQ(native_of([&] { driver.grant(begin, 2 * page, all); }), native_invalid_value);
  driver.unmap(begin, page);
  driver.release(chunk);
  driver.unreserve(begin, 2 * page);
  const TestMapping mapping(driver, gpu(0), 2 * page, {});
  EXPECT_EQ(native_of([&] { driver.grant(mapping.address(), page, all); }), native_invalid_value);
}

TYPED_TEST(Mapping, AReleasedChunkLivesWhileItIsMapped) {
  ContractRig& rig = this->rig();
  Driver& driver = this->driver();
  TestMapping mapping(driver, gpu(0), rig.page(), all_gpus(driver));
  mapping.release();
  rig.fill(0, mapping, 11);
  EXPECT_EQ(rig.mismatches(0, mapping, 11), 0u);
  const ChunkHandle again = driver.retain_handle(mapping.address());
  EXPECT_FALSE(is_none(again));
  mapping.unmap();
  driver.map(mapping.address(), rig.page(), again);
  driver.grant(mapping.address(), rig.page(), all_gpus(driver));
  EXPECT_EQ(rig.mismatches(0, mapping, 11), 0u) << "the retained handle is the same memory";
  driver.release(again);
}

TYPED_TEST(Mapping, GranularityIsThatOfEveryPlaceAndBindsCreation) {
  Driver& driver = this->driver();
  for (const Place at : {gpu(0), host(0)}) {
    const std::uint64_t granularity = driver.granularity(at);
    if (!driver.simulated()) {
      EXPECT_EQ(granularity, 2u << 20) << to_string(at);
    }
    EXPECT_EQ(native_of([&] { driver.release(driver.create(at, granularity / 32)); }),
              native_invalid_value)
        << to_string(at);
  }
}

TYPED_TEST(Mapping, MemoryIsMadeAtEveryHostNodeAndAtNoOther) {
  Driver& driver = this->driver();
  const int nodes = driver.host_node_count();
  ASSERT_GE(nodes, 1);
  for (int node = 0; node < nodes; ++node) {
    EXPECT_EQ(native_of([&] { driver.release(driver.create(host(node), this->rig().page())); }), 0);
  }
  EXPECT_EQ(native_of([&] { driver.release(driver.create(host(nodes), this->rig().page())); }),
            native_invalid_value);
}

TYPED_TEST(Mapping, ReservationsMayBeFarLargerThanMemory) {
  // The sanitizers randomise the address space and may leave no gap of a TiB.
  const std::vector<std::uint64_t> sizes =
      under_sanitizer ? std::vector<std::uint64_t>{std::uint64_t{64} << 30}
                      : std::vector<std::uint64_t>{std::uint64_t{1} << 40, std::uint64_t{16} << 40,
                                                   std::uint64_t{64} << 40};
  for (const std::uint64_t size_bytes : sizes) {
    Address begin{};
    EXPECT_EQ(native_of([&] { begin = this->driver().reserve(size_bytes, 0); }), 0)
        << size_bytes << " bytes";
    if (to_integer(begin) != 0) this->driver().unreserve(begin, size_bytes);
  }
}

TYPED_TEST(Mapping, AddressRangeIsThatOfTheOneMapping) {
  Driver& driver = this->driver();
  const std::uint64_t page = this->rig().page();
  const Row row(driver, page, {gpu(0), gpu(0), gpu(0)});
  driver.grant(row.begin(), row.size_bytes(), all_gpus(driver));
  const AddressRange range = driver.address_range(row.begin() + page + 5);
  EXPECT_EQ(range.begin, row.begin() + page);
  EXPECT_EQ(range.size_bytes, page);
  driver.unmap(row.begin(), row.size_bytes());
}

TYPED_TEST(Mapping, PointerInfoFollowsTheBacking) {
  Driver& driver = this->driver();
  const std::vector<Accessor> all = all_gpus(driver);
  TestMapping mapping(driver, gpu(0), this->rig().page(), all);
  const PointerInfo before = driver.pointer_info(mapping.address());
  EXPECT_EQ(before.at, gpu(0));
  EXPECT_FALSE(before.has_context);

  mapping.unmap();
  mapping.map();
  mapping.grant(all);
  const PointerInfo again = driver.pointer_info(mapping.address());
  EXPECT_NE(again.buffer_id, before.buffer_id) << "BUFFER_ID changes at every remap";

  const int last = this->rig().gpus() - 1;
  mapping.replace(gpu(last), all);
  EXPECT_EQ(driver.pointer_info(mapping.address()).at, gpu(last));
  mapping.replace(host(0), all);
  EXPECT_EQ(driver.pointer_info(mapping.address()).at, host(0));
  EXPECT_FALSE(driver.pointer_info(mapping.address()).has_context);
}

TYPED_TEST(Mapping, OrdinaryMemoryHasAContext) {
  Driver& driver = this->driver();
  const Address plain = driver.allocate_plain(this->rig().context(0), 4096);
  EXPECT_TRUE(driver.pointer_info(plain).has_context);
  EXPECT_EQ(driver.pointer_info(plain).at, gpu(0));
  driver.free_plain(this->rig().context(0), plain);
}

}  // namespace
}  // namespace vma
