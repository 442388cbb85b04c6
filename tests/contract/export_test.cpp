// Goal: a chunk that leaves the process by its descriptor is the same memory wherever it is
// imported, lives as long as anyone has it, and chunks created otherwise do not leave. Method: each
// claim in one process; tests/unit/sharing/ has two.

#include "contract/contract_test.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace vma {
namespace {

/// A chunk mapped and granted to all GPUs. The destructor gives everything back.
class Shown {
 public:
  Shown(Driver& driver, ChunkHandle chunk, std::uint64_t size_bytes)
      : driver_(driver), chunk_(chunk), size_bytes_(size_bytes) {
    begin_ = driver_.reserve(size_bytes_, 0);
    driver_.map(begin_, size_bytes_, chunk_);
    driver_.grant(begin_, size_bytes_, all_gpus(driver_));
  }
  ~Shown() {
    native_of([&] { driver_.unmap(begin_, size_bytes_); });
    native_of([&] { driver_.unreserve(begin_, size_bytes_); });
    native_of([&] { driver_.release(chunk_); });
  }
  Shown(const Shown&) = delete;
  Shown& operator=(const Shown&) = delete;

  std::uint64_t* words() const { return static_cast<std::uint64_t*>(to_pointer(begin_)); }
  Address begin() const { return begin_; }

 private:
  Driver& driver_;
  ChunkHandle chunk_;
  std::uint64_t size_bytes_;
  Address begin_{};
};

template <typename Machine>
class Exports : public ContractTest<Machine> {
 protected:
  static constexpr ExportTypes by_descriptor{.descriptor = true};

  bool exports(Place at) { return this->driver().export_types(at).descriptor; }
  ChunkHandle make(Place at) {
    return this->driver().create_exportable(at, this->rig().page(), by_descriptor);
  }
};
TYPED_TEST_SUITE(Exports, ContractMachines, MachineNames);

#define VMART_NEEDS_DESCRIPTORS(at)                                           \
  if (!this->exports(at)) {                                                   \
    GTEST_SKIP() << "SKIPPED: no descriptors of memory at " << to_string(at); \
  }

TYPED_TEST(Exports, AnImportedChunkIsTheSameMemory) {
  for (const Place at : {gpu(0), host(0)}) {
    VMART_NEEDS_DESCRIPTORS(at);
    ContractRig& rig = this->rig();
    const ChunkHandle chunk = this->make(at);
    const Shown first(this->driver(), chunk, rig.page());
    const int descriptor = this->driver().export_chunk(chunk);
    const Shown second(this->driver(), this->driver().import_chunk(descriptor), rig.page());
    EXPECT_EQ(close(descriptor), 0) << "the descriptor stays the caller's";
    EXPECT_EQ(rig.run(0, store_kernel(), first.words() + 1, std::uint64_t{7}), 0);
    EXPECT_EQ(rig.word_at(0, second.begin() + 8), 7u);
    EXPECT_EQ(rig.run(0, store_kernel(), second.words() + 2, std::uint64_t{9}), 0);
    EXPECT_EQ(rig.word_at(0, first.begin() + 16), 9u);
  }
}

TYPED_TEST(Exports, TheMemoryOutlivesItsExporter) {
  VMART_NEEDS_DESCRIPTORS(gpu(0));
  ContractRig& rig = this->rig();
  int descriptor = -1;
  {
    const ChunkHandle chunk = this->make(gpu(0));
    const Shown first(this->driver(), chunk, rig.page());
    EXPECT_EQ(rig.run(0, store_kernel(), first.words(), std::uint64_t{11}), 0);
    descriptor = this->driver().export_chunk(chunk);
  }
  const Shown second(this->driver(), this->driver().import_chunk(descriptor), rig.page());
  close(descriptor);
  EXPECT_EQ(rig.word_at(0, second.begin()), 11u);
}

TYPED_TEST(Exports, AChunkWithoutTheTypeDoesNotLeave) {
  Driver& driver = this->driver();
  const ChunkHandle chunk = driver.create(gpu(0), this->rig().page());
  EXPECT_NE(native_of([&] { driver.export_chunk(chunk); }), 0);
  driver.release(chunk);
}

TYPED_TEST(Exports, ADescriptorOfSomethingElseIsRefused) {
  Driver& driver = this->driver();
  EXPECT_NE(native_of([&] { driver.import_chunk(-1); }), 0);
  const int file = memfd_create("no chunk", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(file, static_cast<off_t>(2 * this->rig().page())), 0);
  EXPECT_NE(native_of([&] { driver.import_chunk(file); }), 0);
  ASSERT_EQ(fcntl(file, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW), 0);
  EXPECT_NE(native_of([&] { driver.import_chunk(file); }), 0) << "of the right size, but no chunk";
  close(file);
}

TYPED_TEST(Exports, ProgramsThatAreExecutedDoNotInheritDescriptors) {
  VMART_NEEDS_DESCRIPTORS(gpu(0));
  const ChunkHandle chunk = this->make(gpu(0));
  const int descriptor = this->driver().export_chunk(chunk);
  EXPECT_EQ(fcntl(descriptor, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  close(descriptor);
  this->driver().release(chunk);
}

TYPED_TEST(Exports, MemoryForNetworkCardsIsCreatedWhereTheDeviceSaysSo) {
  Driver& driver = this->driver();
  ExportTypes types = driver.export_types(gpu(0));
  types.fabric = false;  // See below.
  const ChunkHandle chunk = driver.create_exportable(gpu(0), this->rig().page(), types);
  driver.release(chunk);
}

/// The device may report fabric handles although no IMEX daemon runs: only a creation shows it.
TYPED_TEST(Exports, ARefusedFabricHandleIsUnsupported) {
  Driver& driver = this->driver();
  try {
    driver.release(driver.create_exportable(gpu(0), this->rig().page(), {.fabric = true}));
    this->report("fabric handles", "created");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported) << error.what();
  }
}

}  // namespace
}  // namespace vma
