#include "gpu/twin_rig.hpp"

#include "runtime/runtime_parts.hpp"
#include "twin/bug_driver.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace vma {
namespace {

constexpr Dim3 twin_grid{8}, twin_block{256};

Settings settings_of(const GpuTwinPlan& plan) {
  Settings settings;
  for (int gpu = 0; gpu < plan.gpus; ++gpu) settings.devices.push_back(gpu);
  settings.cache_bytes_per_gpu = 8 * plan.chunks * plan.chunk_bytes;
  settings.host_cache_bytes = 8 * plan.chunks * plan.chunk_bytes;
  settings.hold_limit = std::chrono::seconds(10);
  settings.gate_limit = plan.gate_limit;
  settings.gate_retries = 8;
  settings.stall_budget = std::chrono::microseconds(0);  // No limit: many switches in little time.
  return settings;
}

}  // namespace

GpuTwinRig::GpuTwinRig(std::unique_ptr<Driver> driver, const GpuTwinPlan& plan)
    : plan_(plan), driver_(std::move(driver)), random_(plan.seed) {
  auto bugs = std::make_unique<BugDriver>(*driver_, plan.bug, plan.gate_limit);
  runtime_ = unique_runtime_of(std::make_unique<RuntimeParts>(std::move(bugs), settings_of(plan)));
  for (int ordinal = 0; ordinal < plan.gpus; ++ordinal) places_.push_back(gpu(ordinal));
  if (plan.hosts) places_.push_back(host(0));
  words_ = plan.chunks * plan.chunk_bytes / sizeof(std::uint64_t);
  for (Twins& twins : twins_) twins = make_twins();
}

GpuTwinRig::Twins GpuTwinRig::make_twins() {
  AllocOptions options;
  options.chunk_bytes = plan_.chunk_bytes;
  options.zeroed = true;
  const std::uint64_t bytes = plan_.chunks * plan_.chunk_bytes;
  Twins made;
  made.array = static_cast<std::uint64_t*>(runtime_->alloc(bytes, gpu(0), options));
  options.movable = false;
  made.twin = static_cast<std::uint64_t*>(runtime_->alloc(bytes, gpu(0), options));
  return made;
}

GpuTwinRig::~GpuTwinRig() {
  runtime_.reset();
}

void GpuTwinRig::fail(const std::string& problem) {
  const std::lock_guard lock(mutex_);
  if (outcome_.problem.empty()) outcome_.problem = problem;
  finished_ = true;
}

void GpuTwinRig::start(std::function<void()> body) {
  threads_.emplace_back([this, work = std::move(body)] {
    try {
      work();
    } catch (const std::exception& error) {
      fail(error.what());
    }
  });
}

/// Sometimes few of the bytes of an array, sometimes all. The last chunks are left to the waves.
/// Host memory has no atomic operations across GPUs, so each GPU has its own lines if the host is
/// one of the places.
TwinSpan GpuTwinRig::some_of(std::mt19937_64& random, int gpu) const {
  const std::uint64_t lines = words_ / twin_line_words / plan_.chunks * (plan_.chunks - 1);
  const std::uint64_t parts = plan_.hosts ? static_cast<std::uint64_t>(plan_.gpus) : 1;
  const std::uint64_t units = lines / 64;
  const std::uint64_t count = std::max<std::uint64_t>(1, units >> (random() % 8));
  const std::uint64_t first = (random() % (units - count + 1)) * 64 * twin_line_words;
  const Twins& twins = twins_[random() % twins_.size()];
  return {twins.array + first, twins.twin + first, count * 64,
          parts == 1 ? 0 : static_cast<std::uint64_t>(gpu), parts};
}

/// One thread keeps all streams of a GPU busy, with a few launches each.
void GpuTwinRig::write(int ordinal) {
  std::mt19937_64 random(plan_.seed * 100 + static_cast<unsigned>(ordinal));
  std::vector<Stream> streams;
  std::vector<AttachedStream> attached;
  const int waves = ordinal == 0 ? static_cast<int>(twins_.size()) : 0;
  for (int i = waves; i < plan_.streams_per_gpu; ++i) {
    streams.push_back(runtime_->make_stream(gpu(ordinal)));
    // The streams launch no graphs, and half of them declare that.
    attached.emplace_back(*runtime_, streams.back(), nullptr,
                          i % 2 == 0 ? StreamWork::any : StreamWork::no_graphs);
  }
  while (!finished_) {
    for (const Stream stream : streams) {
      for (std::uint64_t left = 1 + random() % 4; left > 0; --left) {
        const TwinAdds adds{random(), 1 + random() % plan_.adds, 1};
        runtime_->launch(stream, twin_add_kernel(), twin_grid, twin_block,
                         twin_add_arguments(some_of(random, ordinal), adds));
        ++launches_;
      }
    }
    // All others continue meanwhile.
    runtime_->synchronize(streams[random() % streams.size()]);
  }
  for (const Stream stream : streams) runtime_->synchronize(stream);
  attached.clear();
  for (const Stream stream : streams) runtime_->destroy_stream(stream);
}

/// Adds and subtracts again, in the last chunk of an array, so that old bytes come back.
void GpuTwinRig::write_waves(const Twins& twins, unsigned number) {
  std::mt19937_64 random(plan_.seed * 100 + 99 - number);
  const Stream stream = runtime_->make_stream(gpu(0));
  runtime_->attach(stream);
  const std::uint64_t first = words_ / plan_.chunks * (plan_.chunks - 1);
  const TwinSpan span{twins.array + first, twins.twin + first,
                      words_ / plan_.chunks / twin_line_words};
  Clock& clock = driver_->clock();
  while (!finished_) {
    TwinAdds adds{random(), 64, 1};
    for (const std::uint64_t factor : {std::uint64_t{1}, ~std::uint64_t{0}}) {
      adds.factor = factor;
      runtime_->launch(stream, twin_add_kernel(), {1}, {64}, twin_add_arguments(span, adds));
      runtime_->synchronize(stream);
      // A pause of random length, at least that of a copy, so that old bytes may come back between
      // two looks.
      const auto limit_us = static_cast<std::uint64_t>(plan_.gate_limit.count());
      const auto pause_us = random() % (2 * limit_us) >> random() % 6;
      poll_until(clock, clock.now() + std::chrono::microseconds(pause_us),
                 [this] { return finished_.load(); });
    }
  }
  runtime_->detach(stream);
  runtime_->destroy_stream(stream);
}

/// Often both arrays go to one place, so that they may share gates.
void GpuTwinRig::move_some() {
  const std::size_t which = random_() % twins_.size();
  const Place here = runtime_->where(twins_[which].array).front().at;
  Place there = here;
  while (there == here) there = places_[random_() % places_.size()];
  std::vector<Migration> moves{start_move(twins_[which], there)};
  if (random_() % 2 == 0) moves.push_back(start_move(twins_[1 - which], there));
  if (plan_.cancels && random_() % 8 == 0) moves.back().cancel();
  for (const Migration& move : moves) end(move);
}

Migration GpuTwinRig::start_move(const Twins& twins, Place to) {
  const std::uint64_t bytes = words_ * sizeof(std::uint64_t);
  std::uint64_t offset = 0, length = bytes;
  if (random_() % 3 == 0) {
    offset = random_() % bytes;
    length = 1 + random_() % (bytes - offset);
  }
  MigrateOptions options;
  options.scope = StopScope::attached;
  // Live moves are the subject of the test, even if all tiles are dirty.
  options.mode = plan_.hosts ? Mode::automatic : Mode::live;
  return runtime_->migrate_async(twins.array, offset, length, to, options);
}

void GpuTwinRig::end(const Migration& move) {
  try {
    outcome_.switches += static_cast<unsigned>(move.wait().chunks_moved);
  } catch (const Error& error) {
    outcome_.switches += static_cast<unsigned>(move.report().chunks_moved);
    if (error.kind() != ErrorKind::cancelled && error.kind() != ErrorKind::busy) throw;
  }
}

void GpuTwinRig::move() {
  // If all gates are given up, nothing is switched.
  const std::uint64_t moves_max = 4 * plan_.switches;
  for (std::uint64_t moves = 0;
       outcome_.switches < plan_.switches && moves < moves_max && !finished_; ++moves) {
    move_some();
  }
}

GpuTwinOutcome GpuTwinRig::play() {
  for (int ordinal = 0; ordinal < plan_.gpus; ++ordinal) {
    start([this, ordinal] { write(ordinal); });
  }
  for (unsigned i = 0; i < twins_.size(); ++i) start([this, i] { write_waves(twins_[i], i); });
  while (launches_ == 0 && !finished_) std::this_thread::yield();
  try {
    move();
  } catch (const std::exception& error) {
    fail(error.what());
  }
  finished_ = true;
  for (std::thread& thread : threads_) thread.join();
  try {
    if (outcome_.problem.empty()) {
      for (const Twins& twins : twins_) outcome_.words_different += compare(twins);
      outcome_.stats = runtime_->stats();
      outcome_.launches = launches_;
    }
  } catch (const std::exception& error) {
    fail(error.what());
  }
  return outcome_;
}

std::uint64_t GpuTwinRig::compare(const Twins& twins) {
  std::vector<std::uint64_t> ours(words_), theirs(words_);
  runtime_->read(twins.array, std::as_writable_bytes(std::span(ours)));
  runtime_->read(twins.twin, std::as_writable_bytes(std::span(theirs)));
  std::uint64_t different = 0;
  for (std::uint64_t i = 0; i < words_; ++i) different += ours[i] != theirs[i];
  return different;
}

}  // namespace vma
