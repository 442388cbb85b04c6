// Goal: NVIDIA's sample streamOrderedAllocationIPC works on vmart's pools, and a process that is
// killed costs a pool nothing. Method: the steps and checks of the sample, with a process for each
// GPU; this one allocates, and stands for the sample's barrier.
#include "base/clock.hpp"
#include "gpu/pools/pool_test.hpp"
#include "unit/runtime/scoped_variable.hpp"
#include "unit/sharing/peer_process.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace vma {
namespace {

/// The runtime of this process, with one exported pool on each GPU and one buffer in each.
class Exporter {
 public:
  Exporter(const std::string& driver, std::uint64_t words)
      : others_("VMART_DRIVER", driver.c_str()), words_(words) {
    RuntimeOptions options;
    options.driver = driver;
    runtime_ = std::make_unique<Runtime>(options);
    const auto gpus = std::ranges::count(runtime_->places(), Place::Kind::gpu, &Place::kind);
    constexpr int gpus_max = 4;
    for (int i = 0; i < gpus && i < gpus_max; ++i) add(i);
  }

  struct Buffer {
    Stream stream{};
    Pool pool;
    std::optional<ExportedPool> exported;
    void* memory = nullptr;
  };
  std::vector<Buffer>& buffers() { return buffers_; }
  std::string import_line(const Buffer& buffer) const {
    const ExportedPointer pointer = buffer.exported->pointer(buffer.memory);
    return fmt::format("import {} {} {} {}", buffer.exported->path(), pointer.segment,
                       pointer.offset, pointer.bytes);
  }
  static bool no_importer_left(const Buffer& buffer) {
    SteadyClock clock;
    return poll_until(clock, clock.now() + std::chrono::seconds(30),
                      [&] { return buffer.exported->importers().empty(); });
  }

 private:
  void add(int at) {
    Buffer buffer;
    buffer.stream = runtime_->make_stream(gpu(at));
    PoolOptions options;
    options.exportable = true;
    options.release_threshold = SIZE_MAX;
    buffer.pool = runtime_->make_pool(gpu(at), options);
    buffer.exported.emplace(
        runtime_->export_pool(buffer.pool, {.import_limit = std::chrono::minutes(1)}));
    buffer.memory = buffer.pool.allocate(words_ * sizeof(std::uint64_t), buffer.stream);
    runtime_->synchronize(buffer.stream);
    buffers_.push_back(std::move(buffer));
  }

  const ScopedVariable others_;  // For the other processes.
  const std::uint64_t words_;
  std::unique_ptr<Runtime> runtime_;
  std::vector<Buffer> buffers_;
};

template <typename Subject>
class IpcSample : public testing::Test {
 protected:
  static constexpr bool simulated = std::is_same_v<Subject, VmartOnSimulation>;
  /// 64 MiB, as in the sample, on GPUs.
  static constexpr std::uint64_t words = simulated ? 1 << 16 : 8 << 20;

  void SetUp() override {
    const std::string why = Subject::unavailable();
    if (!why.empty()) GTEST_SKIP() << "SKIPPED: " << why;
    exporter.emplace(simulated ? "sim:h200x2" : "cuda", words);
  }
  std::size_t count() { return exporter->buffers().size(); }
  /// A process for each GPU, which has imported all buffers.
  void start_peers() {
    for (std::size_t id = 0; id < count(); ++id) {
      peers.push_back(std::make_unique<PeerProcess>());
      ASSERT_EQ(peers[id]->ask(fmt::format("open {} {}", id, words)), "opened");
      for (const Exporter::Buffer& buffer : exporter->buffers()) {
        ASSERT_EQ(peers[id]->ask(exporter->import_line(buffer)), "imported");
      }
    }
  }
  /// Each of them does it beside the others.
  void all(const std::string& line, const std::string& answer) {
    for (const auto& peer : peers) peer->tell(line);
    for (const auto& peer : peers) EXPECT_EQ(peer->answer(), answer);
  }

  std::optional<Exporter> exporter;
  std::vector<std::unique_ptr<PeerProcess>> peers;
};
using VmartSubjects = testing::Types<VmartOnSimulation, VmartOnGpus>;
TYPED_TEST_SUITE(IpcSample, VmartSubjects, PoolSubjectNames);

TYPED_TEST(IpcSample, StreamOrderedAllocationIPC) {
  this->start_peers();
  if (this->HasFatalFailure()) return;
  for (std::size_t step = 0; step < this->count(); ++step) {
    this->all(fmt::format("step {}", step), "done");
  }
  for (std::size_t id = 0; id < this->count(); ++id) {
    const std::size_t sibling = (id + 1) % this->count();
    EXPECT_EQ(this->peers[id]->ask(fmt::format("wrong {}", sibling)), "wrong 0");
  }
  this->all("free", "freed");
  for (Exporter::Buffer& buffer : this->exporter->buffers()) {
    EXPECT_TRUE(Exporter::no_importer_left(buffer));
    buffer.pool.deallocate(buffer.memory, buffer.stream);
    buffer.pool.synchronize();
    buffer.pool.trim(0);
    EXPECT_EQ(buffer.pool.stats().reserved_bytes, 0u);
    buffer.pool.destroy();
  }
  for (const auto& peer : this->peers) EXPECT_EQ(peer->end(), 0);
}

TYPED_TEST(IpcSample, AKilledImporterCostsThePoolNothing) {
  this->start_peers();
  if (this->HasFatalFailure()) return;
  for (std::size_t step = 0; step < this->count(); ++step) {
    this->all(fmt::format("step {}", step), "done");
  }
  for (const auto& peer : this->peers) peer->kill();
  for (Exporter::Buffer& buffer : this->exporter->buffers()) {
    EXPECT_TRUE(Exporter::no_importer_left(buffer));
  }
  this->peers.clear();
  this->start_peers();
  for (std::size_t id = 0; id < this->count(); ++id) {
    const std::size_t sibling = (id + 1) % this->count();
    EXPECT_EQ(this->peers[id]->ask(fmt::format("wrong {}", sibling)), "wrong 0");
  }
}

}  // namespace
}  // namespace vma
