#pragma once

#include "lab/experiments/experiment.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace vma {

/// The folder with the results of one experiment. Several processes may write to it at a time: a
/// file appears under its name once it is complete, and two processes produce the same contents.
/// Any thread.
class ResultFolder {
 public:
  /// Creates the folder, or opens one of the same experiment, and cleans up after a crash. If
  /// several experiments begin in one folder at a time, only one gets it. Throws:
  /// Error{invalid_argument} that says why it cannot be this experiment's, Error{driver_failure} if
  /// it cannot be written.
  ResultFolder(std::string path, const Experiment& experiment);
  /// Removes unfinished files.
  ~ResultFolder();
  ResultFolder(const ResultFolder&) = delete;
  ResultFolder& operator=(const ResultFolder&) = delete;

  const std::string& path() const noexcept { return path_; }
  std::string cell_path(const std::string& id) const;
  std::string bound_path(const std::string& id) const;
  std::string trace_path(const std::string& name) const;
  /// Path of the note that says how such a trace was made.
  std::string trace_note_path(const std::string& name) const;

  /// Writes the whole file or nothing. Throws: Error{driver_failure}, also for a full disk.
  void write(const std::string& path, std::string_view text) const;
  /// A name for a file that the caller writes and passes to `finish`. Requires: no other unfinished
  /// file has it.
  std::string unfinished_path(const std::string& name) const;
  /// The file is complete, and gets its name.
  void finish(const std::string& unfinished, const std::string& path) const;

  /// All of a file; none if it does not exist. Throws: Error{invalid_argument} if it cannot be
  /// read.
  static std::optional<std::string> read(const std::string& path);

 private:
  void lock();
  void leave() noexcept;
  /// False: another process has written one meanwhile.
  bool write_first(const Experiment& experiment) const;
  /// Whether it has the experiment's file already.
  bool is_known(const Experiment& experiment) const;
  void make_unfinished();

  std::string path_;
  std::string unfinished_;  // A folder of this process.
  int descriptor_ = -1;     // Of the folder, for its lock.
};

}  // namespace vma
