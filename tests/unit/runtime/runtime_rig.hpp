#pragma once

#include "sim/sim_driver.hpp"

#include <vma/runtime.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace vma {

/// The default chunk size of `RuntimeRig`.
inline constexpr std::uint64_t chunk_bytes = 8192;

/// Long limits for gates, so that busy computers give up none.
RuntimeOptions patient();
/// Moves wait for the program's work, at gates and by holds.
RuntimeOptions without_suspension(RuntimeOptions options = {});

/// A runtime on a simulated machine with operating system threads, and short forms of common steps.
/// Memory consists of 64-bit words; word i of a pattern is its seed plus i.
class RuntimeRig {
 public:
  explicit RuntimeRig(const std::string& machine = "test-2", RuntimeOptions options = {});

  Runtime& runtime() { return runtime_; }
  SimDriver& machine() { return *machine_; }
  std::uint64_t page() const { return 4096; }
  int gpus() const { return static_cast<int>(streams_.size()); }
  Stream stream(int gpu) const { return streams_.at(static_cast<std::size_t>(gpu)); }

  std::uint64_t* alloc(std::uint64_t bytes, Place at, std::uint64_t chunk_bytes = vma::chunk_bytes);
  /// Uses a kernel of the GPU, through the pointer.
  void fill_by(int gpu, std::uint64_t* words, std::uint64_t count, std::uint64_t seed);
  /// The number of words that differ from the pattern, as a kernel of the GPU sees them.
  std::uint64_t wrong_for(int gpu, std::uint64_t* words, std::uint64_t count, std::uint64_t seed);
  /// The same, as `read` sees them.
  std::uint64_t wrong(const std::uint64_t* words, std::uint64_t count, std::uint64_t seed);
  void write(std::uint64_t* words, std::uint64_t count, std::uint64_t seed);
  /// The place of the whole allocation; the test fails if it is at several places.
  Place place(const void* pointer);
  /// Waits for the runtime's background work, then checks its books.
  void check_invariants();

 private:
  SimDriver* machine_ = nullptr;
  Runtime runtime_;
  std::vector<Stream> streams_;
  std::uint64_t* mismatches_ = nullptr;  // For one call of `wrong_for` at a time.
};

/// The kind of the error that `body` throws; the test fails if it throws none, or one without a
/// call and a text.
ErrorKind kind_of_error(const std::function<void()>& body);
/// The text of that error.
std::string error_text(const std::function<void()>& body);

}  // namespace vma
