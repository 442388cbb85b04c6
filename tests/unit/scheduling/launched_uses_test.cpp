// Goal: what launches use is booked where it lies and within reason, for policies and in recordings
// alike. Method: a policy that adds up what it is told of launches on a simulated machine.
#include "recording/reading/recording_reader.hpp"
#include "unit/recording/record_samples.hpp"
#include "unit/runtime/scheduler_rig.hpp"
#include "unit/runtime/scoped_variable.hpp"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace vma {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t tensor_bytes = SchedulerRig::chunk_bytes;
constexpr std::uint64_t words_a_chunk = tensor_bytes / sizeof(std::uint64_t);

/// Bytes read and written by tensor_bytes and GPU. Proposes nothing.
struct Sums : Policy {
  using Books = std::map<std::pair<std::uint32_t, int>, std::pair<double, double>>;
  explicit Sums(std::shared_ptr<Books> books) : books_(std::move(books)) {}
  void on_use(const UseEvent& use, const Snapshot& snapshot, Plan&) override {
    auto& sum = (*books_)[{snapshot.chunk(use.chunk).slot, static_cast<int>(index(use.device))}];
    sum.first += use.bytes_read;
    sum.second += use.bytes_written;
  }
  std::shared_ptr<Books> books_;
};

class LaunchedUses : public testing::Test {
 protected:
  void open() {
    PolicyKind kind;
    kind.name = "sums";
    kind.make = [books = books_](const PolicyValues&) { return std::make_unique<Sums>(books); };
    RuntimeOptions options;
    options.policies = {kind};
    rig_ = std::make_unique<SchedulerRig>("sums", "test-2", options);
    for (const int ordinal : {0, 1}) streams_.push_back(rig_->runtime().make_stream(gpu(ordinal)));
    words_ = rig_->alloc(4, gpu(0));
    rig_->step();
  }
  void launch(int ordinal, std::vector<std::uint64_t*> pointers) {
    const Kernel kernel{"", "body", [](DeviceView&, const KernelArguments&, LaunchShape) {}};
    for (std::uint64_t* pointer : pointers) {
      rig_->runtime().launch_recorded(streams_[static_cast<std::size_t>(ordinal)], kernel, {}, {},
                                      KernelArguments::of(pointer));
    }
  }
  std::uint64_t* tensor(std::uint64_t number) { return words_ + number * words_a_chunk; }
  double claimed(int ordinal) const {
    double sum = 0;
    for (const auto& [key, bytes] : *books_) {
      if (key.second == ordinal) sum += bytes.first + bytes.second;
    }
    return sum;
  }

  std::shared_ptr<Sums::Books> books_ = std::make_shared<Sums::Books>();
  std::unique_ptr<SchedulerRig> rig_;
  std::vector<Stream> streams_;
  std::uint64_t* words_ = nullptr;
};

TEST_F(LaunchedUses, OfTensorsInOneAllocationAreBookedApart) {
  open();
  launch(0, {tensor(0), tensor(0)});
  launch(1, {tensor(1), tensor(3)});
  rig_->step();
  const double half = tensor_bytes / 2.0;
  EXPECT_EQ(*books_, (Sums::Books{{{0, 0}, {2 * half, 2 * half}},
                                  {{1, 1}, {half, half}},
                                  {{2, 1}, {half, half}},  // Nobody has used what begins there.
                                  {{3, 1}, {half, half}}}));
  launch(0, {tensor(2)});
  books_->clear();
  rig_->step();
  EXPECT_EQ(*books_, (Sums::Books{{{2, 0}, {half, half}}}));
}

TEST_F(LaunchedUses, ClaimNoMoreThanTheGpuCanHaveRead) {
  open();
  rig_->pass(std::chrono::seconds(5));
  Use use{tensor(0), 0, gpu(0), UseKind::unknown, 1e9F};
  for (int tick = 0; tick < 10; ++tick) {
    rig_->pass(milliseconds(10));
    rig_->runtime().record_uses({&use, 1});
    rig_->step();
  }
  // A second's worth in advance, then what passes; of that, steps take some, too.
  const double rate =
      parts_of(rig_->runtime()).machinery->costs.access_rate(PlaceId{0}, PlaceId{0});
  EXPECT_GE(claimed(0), rate * 1.0);
  EXPECT_LE(claimed(0), rate * 1.12);
  use = {tensor(1), tensor_bytes, gpu(1), UseKind::read, 1e9F};
  rig_->runtime().record_uses({&use, 1});
  rig_->step();
  EXPECT_EQ(claimed(1), 1e9 * static_cast<double>(tensor_bytes)) << "what the program knows stays";
}

TEST_F(LaunchedUses, AreRecordedAsTheyAreBooked) {
  const TemporaryFolder folder;
  double booked = 0;
  {
    const ScopedVariable variable("VMART_RECORD", folder.path().c_str());
    open();
    launch(0, {tensor(1)});
    launch(0, {tensor(2)});
    const Use inflated{tensor(3), 0, gpu(0), UseKind::unknown, 1e9F};
    rig_->runtime().record_uses({&inflated, 1});
    rig_->runtime().record_use(tensor(0), 8, host(0));  // Nonsense, which must not harm.
    rig_->step();
    booked = claimed(0);
    rig_->runtime().shutdown();
  }
  RecordingReader reader(folder / folder.files().at(0));
  std::vector<RecordedUse> uses;
  double recorded = 0;
  while (const RecordedEvent* event = reader.next()) {
    const auto* use = std::get_if<RecordedUse>(event);
    if (use == nullptr) continue;
    uses.push_back(*use);
    recorded += 2.0 * static_cast<double>(use->bytes) * use->passes;
  }
  ASSERT_EQ(uses.size(), 3u);
  EXPECT_EQ(uses[0].offset, tensor_bytes);
  EXPECT_EQ(uses[0].bytes, tensor_bytes);
  EXPECT_EQ(uses[0].kind, UseKind::read_write);
  EXPECT_NEAR(recorded / booked, 1, 1e-6);
}

}  // namespace
}  // namespace vma
