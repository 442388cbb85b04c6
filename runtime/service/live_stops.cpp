#include "service/live_stops.hpp"

#include "base/log.hpp"
#include "service/access_kernels.hpp"
#include "service/cost_estimates.hpp"
#include "service/move_time.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <optional>
#include <utility>

namespace vma {
namespace {

constexpr int move_tries = 12;  // The first one warms up.
constexpr int reader_passes = 4;

Time median(std::vector<Time>& times) {
  if (times.empty()) {
    throw Error(ErrorKind::busy, "vma::calibrate", "no move came to a gate");
  }
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

PlaceId place_numbered(std::size_t at) {
  return PlaceId{static_cast<std::uint8_t>(at)};
}

}  // namespace

/// A GPU that reads, from construction on.
class LiveStops::Reader {
 public:
  Reader(Runtime& runtime, Location gpu, std::size_t bytes, Executor& executor)
      : runtime_(runtime), bytes_(bytes) {
    AllocOptions options;
    options.tag = "calibration";
    options.zeroed = true;
    try {
      stream_ = runtime.make_stream(gpu);
      data_ = static_cast<std::byte*>(runtime.alloc(bytes, gpu, options));
      attached_.emplace(runtime, stream_);
      read();  // Loads the kernel.
      task_ = executor.spawn("vmart_reader", [this] { work(); });
    } catch (...) {
      give_back();
      throw;
    }
  }
  ~Reader() {
    stop_ = true;
    task_->join();
    give_back();
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  /// Throws: what reading failed with.
  void require_works() const {
    if (ended_ && error_) std::rethrow_exception(error_);
  }

 private:
  void read() {
    constexpr std::uint64_t vector_bytes = 16, no_sum = ~std::uint64_t{0};
    constexpr unsigned blocks = 512, threads = 512;
    runtime_.launch(
        stream_, access_read_kernel(), {blocks}, {threads},
        KernelArguments::of(data_, bytes_ / vector_bytes, reader_passes, no_sum, data_));
    runtime_.synchronize(stream_);
  }
  void work() noexcept {
    try {
      while (!stop_) read();
    } catch (...) {
      error_ = std::current_exception();
    }
    ended_ = true;
  }
  void give_back() noexcept {
    attached_.reset();
    try {
      if (data_ != nullptr) runtime_.free(data_);
      if (stream_ != nullptr) runtime_.destroy_stream(stream_);
    } catch (const std::exception& error) {
      log(LogLevel::warn, "calibration could not give a reader back: {}", error.what());
    }
  }

  Runtime& runtime_;
  const std::size_t bytes_;
  Stream stream_ = nullptr;
  std::byte* data_ = nullptr;
  std::optional<AttachedStream> attached_;
  std::atomic<bool> stop_{false}, ended_{false};
  std::exception_ptr error_;  // Written before `ended_` is set.
  std::unique_ptr<Task> task_;
};

LiveStops::LiveStops(Runtime& runtime, const Sizes& sizes) : runtime_(runtime), sizes_(sizes) {}

LiveStops::~LiveStops() = default;

void LiveStops::free(std::byte* pointer) noexcept {
  if (pointer == nullptr) return;
  try {
    runtime_.free(pointer);
  } catch (const std::exception& error) {
    log(LogLevel::warn, "calibration could not give memory back: {}", error.what());
  }
}

void LiveStops::open_readers() {
  for (const Location at : runtime_.locations()) {
    if (at.kind != Location::Kind::gpu) continue;
    readers_.push_back(std::make_unique<Reader>(runtime_, at, sizes_.read_bytes, executor_));
  }
}

/// Two chunks at once, so that one is copied while the other stands at its gate, as in a program
/// whose memory moves on.
void LiveStops::swap(const std::array<std::byte*, 2>& chunks, Location home, Location away,
                     Route* route) {
  const Migration there = runtime_.migrate_async(chunks[0], away);
  const Migration back = runtime_.migrate_async(chunks[1], home);
  const auto note = [](const MigrationReport& report, Times& times) {
    if (report.stall.count == 0) return;
    times.moves.push_back(move_time(report));
    times.stalls.push_back(report.stall.median);
  };
  const MigrationReport gone = there.wait(), come = back.wait();
  for (const auto& reader : readers_) reader->require_works();
  if (route == nullptr) return;
  note(gone, route->there);
  note(come, route->back);
}

LiveStops::Route LiveStops::measure(Location home, Location away, std::size_t bytes) {
  AllocOptions options;
  options.tag = "calibration";
  options.chunk_bytes = bytes;
  std::array<std::byte*, 2> chunks{};
  Route route;
  try {
    chunks[0] = static_cast<std::byte*>(runtime_.alloc(bytes, home, options));
    chunks[1] = static_cast<std::byte*>(runtime_.alloc(bytes, away, options));
    for (int attempt = 0; attempt < move_tries; ++attempt) {
      swap(chunks, home, away, attempt > 0 ? &route : nullptr);
      std::swap(chunks[0], chunks[1]);
    }
  } catch (...) {
    for (std::byte* chunk : chunks) free(chunk);
    throw;
  }
  for (std::byte* chunk : chunks) free(chunk);
  return route;
}

void LiveStops::take(Calibration& calibration, PlaceId from, PlaceId to, Times& small,
                     Times& large) const {
  MachineCosts& costs = calibration.costs;
  const auto small_bytes = static_cast<double>(sizes_.small_bytes);
  const auto large_bytes = static_cast<double>(sizes_.large_bytes);
  const double copy = 1 / costs.copy_rate(from, to);
  const LinearCost moved =
      LinearCost::through(small_bytes, median(small.moves), large_bytes, median(large.moves), copy);
  const LinearCost stood =
      LinearCost::through(small_bytes, median(small.stalls), large_bytes, median(large.stalls));
  costs.move_fixed(from, to) = moved.fixed;
  costs.move_per_byte(from, to) = moved.per_byte - copy;
  costs.stall_fixed(from, to) = stood.fixed;
  costs.stall_per_byte(from, to) = stood.per_byte;
}

void LiveStops::measure(Calibration& calibration) {
  const std::vector<Location>& places = calibration.places;
  const auto attempt = [&](const std::string& what, auto&& body) {
    try {
      body();
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::driver_gone) throw;
      calibration.estimates.push_back(fmt::format("{}: {}", what, error.what()));
    }
  };
  bool open = false;
  attempt("live moves", [&] {
    open_readers();
    open = true;
  });
  if (!open) return;
  for (std::size_t home = 0; home < places.size(); ++home) {
    for (std::size_t away = home + 1; away < places.size(); ++away) {
      if (places[home].kind == Location::Kind::host) continue;
      const std::string route =
          fmt::format("{}->{} and back", to_string(places[home]), to_string(places[away]));
      attempt("live moves " + route, [&] {
        Route small = measure(places[home], places[away], sizes_.small_bytes);
        Route large = measure(places[home], places[away], sizes_.large_bytes);
        take(calibration, place_numbered(home), place_numbered(away), small.there, large.there);
        take(calibration, place_numbered(away), place_numbered(home), small.back, large.back);
        // What the calibrator could not measure stopped, has been.
        const std::string estimate = "moves " + route;
        std::erase_if(calibration.estimates,
                      [&](const std::string& it) { return it.starts_with(estimate); });
      });
    }
  }
}

}  // namespace vma
