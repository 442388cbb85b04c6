#pragma once

#include "lab/experiments/experiment.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace vma {

/// Where the results of one experiment lie. Several processes may write into one at a time: a file
/// appears under its name once it is whole, and what two of them make is the same. All calls may
/// come from any thread.
class ResultFolder {
 public:
  /// Makes the folder, or takes one of the same experiment, and clears what a crash has left. Of
  /// several experiments that begin in one at a time only one gets it.
  /// Throws: Error{invalid_argument} that says why it cannot be this experiment's,
  /// Error{driver_failure} if it cannot be written.
  ResultFolder(std::string path, const Experiment& experiment);
  /// Removes what is unfinished.
  ~ResultFolder();
  ResultFolder(const ResultFolder&) = delete;
  ResultFolder& operator=(const ResultFolder&) = delete;

  const std::string& path() const noexcept { return path_; }
  std::string cell_path(const std::string& id) const;
  std::string bound_path(const std::string& id) const;
  std::string trace_path(const std::string& name) const;
  /// Of what such a trace was made.
  std::string trace_note_path(const std::string& name) const;

  /// Writes the whole file or nothing. Throws: Error{driver_failure}, for a full disk too.
  void write(const std::string& path, std::string_view text) const;
  /// A name for a file that somebody makes and hands to `finish`. Requires: no other file under
  /// way has it.
  std::string unfinished_path(const std::string& name) const;
  /// It is whole now, and gets its name.
  void finish(const std::string& unfinished, const std::string& path) const;

  /// All of a file; nothing if there is none. Throws: Error{invalid_argument} if it cannot be read.
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
  std::string unfinished_;  // A folder of this process's own.
  int descriptor_ = -1;     // Of the folder, for its lock.
};

}  // namespace vma
