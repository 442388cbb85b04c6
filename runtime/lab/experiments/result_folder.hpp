#pragma once

#include "lab/experiments/experiment.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace vma {

/// The folder with the results of one experiment. Several processes may write to it concurrently: a
/// file gets its name only when it is complete, and all processes produce the same contents. Any
/// thread.
class ResultFolder {
 public:
  /// Creates the folder, or opens that of the same experiment, and removes the leftovers of a
  /// crash. If several experiments start in one folder at the same time, only one gets it. Throws:
  /// Error{invalid_argument} that says why the folder cannot be this experiment's;
  /// Error{driver_failure} if it cannot be written.
  ResultFolder(std::string path, const Experiment& experiment);
  /// Removes unfinished files.
  ~ResultFolder();
  ResultFolder(const ResultFolder&) = delete;
  ResultFolder& operator=(const ResultFolder&) = delete;

  const std::string& path() const noexcept { return path_; }
  std::string cell_path(const std::string& id) const;
  std::string bound_path(const std::string& id) const;
  std::string trace_path(const std::string& name) const;
  /// Path of the note that says how the trace was made.
  std::string trace_note_path(const std::string& name) const;

  /// Writes the whole file or nothing. Throws: Error{driver_failure}, also if the disk is full.
  void write(const std::string& path, std::string_view text) const;
  /// A path for a file that the caller writes and then passes to `finish`. Requires: no other
  /// unfinished file has this name.
  std::string unfinished_path(const std::string& name) const;
  /// Renames a complete file.
  void finish(const std::string& unfinished, const std::string& path) const;

  /// Returns a file's contents; nothing if it does not exist. Throws: Error{invalid_argument} if it
  /// cannot be read.
  static std::optional<std::string> read(const std::string& path);

 private:
  void lock();
  void leave() noexcept;
  /// Writes the experiment's file. Returns false if another process wrote one meanwhile.
  bool write_first(const Experiment& experiment) const;
  /// Whether the folder already contains the experiment's file.
  bool is_known(const Experiment& experiment) const;
  void make_unfinished();

  std::string path_;
  std::string unfinished_;  // This process's own folder.
  int descriptor_ = -1;     // Of the folder; holds its lock.
};

}  // namespace vma
