#pragma once

#include "recording/reading/recording_reader.hpp"

#include <string>
#include <vector>

namespace vma {

/// Receives the contents of a recording.
class RecordListener {
 public:
  virtual ~RecordListener() = default;

  /// The following records come from a file with this header, which is valid until the next call.
  virtual void begin_file(const RecordingHeader& header) = 0;
  virtual void add(const RecordedEvent& event) = 0;
  /// Bytes at this position could not be read.
  virtual void damaged(const RecordingDamage& damage) = 0;
};

/// Returns vmart-PID-N.rec, and the files N+1 and so on of the same recording in the same folder.
/// Throws: as `RecordingReader`.
std::vector<std::string> recording_files(const std::string& first);

/// Reads all files of the recording. Throws: as the listener and `RecordingReader`.
void read_records(const std::string& first, RecordListener& listener);

}  // namespace vma
