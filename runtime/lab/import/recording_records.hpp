#pragma once

#include "recording/reading/recording_reader.hpp"

#include <string>
#include <vector>

namespace vma {

/// Receives the contents of a recording.
class RecordListener {
 public:
  virtual ~RecordListener() = default;

  /// The following records are from this file. The header is valid until the next call.
  virtual void begin_file(const RecordingHeader& header) = 0;
  virtual void add(const RecordedEvent& event) = 0;
  /// The bytes here could not be read.
  virtual void damaged(const RecordingDamage& damage) = 0;
};

/// vmart-PID-N.rec, and the files N+1 and so on of the same recording beside it. Throws: what
/// `RecordingReader` throws.
std::vector<std::string> recording_files(const std::string& first);

/// Reads all of these. Throws: what the listener and `RecordingReader` throw.
void read_records(const std::string& first, RecordListener& listener);

}  // namespace vma
