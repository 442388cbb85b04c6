#pragma once

#include "recording/block_queue.hpp"
#include "recording/recording_format.hpp"

#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

namespace vma {

/// A temporary folder, removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  const std::filesystem::path& path() const noexcept { return path_; }
  /// The names of its files, sorted.
  std::vector<std::string> files() const;

 private:
  std::filesystem::path path_;
};

std::vector<std::uint8_t> read_bytes(const std::string& path);
void write_bytes(const std::string& path, const std::vector<std::uint8_t>& bytes);

/// Two GPUs and a host node, with a different number in each cell.
RecordingHeader sample_header();

/// Random values over their whole range; small and extreme ones are more frequent than in a uniform
/// distribution.
class RecordSamples {
 public:
  explicit RecordSamples(std::uint64_t seed) : random_(seed) {}

  RecordedEvent any();
  RecordedUse use();
  Decision decision();
  std::uint64_t number();

 private:
  Time time();
  std::string text(std::size_t bytes_max);
  Place any_place();
  PlaceId place() { return PlaceId{static_cast<std::uint8_t>(random_() % 3)}; }
  std::uint32_t number32() { return static_cast<std::uint32_t>(number()); }
  bool chance() { return random_() % 2 == 0; }

  std::mt19937_64 random_;
};

bool same(const RecordedEvent& left, const RecordedEvent& right);

}  // namespace vma
