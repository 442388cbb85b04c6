#pragma once

#include "sim/sim_driver.hpp"

#include <vma/runtime.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace vma {

/// Of `RuntimeRig`, unless a test says otherwise.
inline constexpr std::uint64_t chunk_bytes = 8192;

/// Gates that wait long: a busy computer is no reason to give one up.
RuntimeOptions patient();

/// A runtime on a simulated machine with threads of the operating system, and short forms of what
/// its tests do. Memory is 64-bit words; word i of a pattern is its seed and i.
class RuntimeRig {
 public:
  explicit RuntimeRig(const std::string& machine = "test-2", RuntimeOptions options = {});

  Runtime& runtime() { return runtime_; }
  SimDriver& machine() { return *machine_; }
  std::uint64_t page() const { return 4096; }
  int gpus() const { return static_cast<int>(streams_.size()); }
  Stream stream(int gpu) const { return streams_.at(static_cast<std::size_t>(gpu)); }

  std::uint64_t* alloc(std::uint64_t bytes, Location at,
                       std::uint64_t chunk_bytes = vma::chunk_bytes);
  /// By a kernel of the GPU, through the pointer.
  void fill_by(int gpu, std::uint64_t* words, std::uint64_t count, std::uint64_t seed);
  /// The words that differ from the pattern, as a kernel of the GPU sees them.
  std::uint64_t wrong_for(int gpu, std::uint64_t* words, std::uint64_t count, std::uint64_t seed);
  /// The same as `read` sees them.
  std::uint64_t wrong(const std::uint64_t* words, std::uint64_t count, std::uint64_t seed);
  void write(std::uint64_t* words, std::uint64_t count, std::uint64_t seed);
  /// Where all of it lies; fails the test if that is more than one place.
  Location home(const void* pointer);
  /// Waits for the runtime's background work, then checks its books.
  void check_invariants();

 private:
  SimDriver* machine_ = nullptr;
  Runtime runtime_;
  std::vector<Stream> streams_;
  std::uint64_t* mismatches_ = nullptr;  // One call of `wrong_for` at a time.
};

/// The kind of the error that `body` throws; fails the test if it throws none, or one without a
/// call and a text.
ErrorKind kind_of_error(const std::function<void()>& body);
/// Its text.
std::string error_text(const std::function<void()>& body);

}  // namespace vma
