#pragma once

#include <boost/json/object.hpp>

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace vma {

/// Which runtime a command addresses.
struct ControlChoice {
  int pid = 0;            ///< 0: not chosen.
  std::string socket;     ///< Empty: not chosen.
  int limit_ms = 10'000;  ///< Of each answer, up to its last byte.
};

/// What a runtime answers to a request that it refuses, with its message.
class ControlRefusal : public std::runtime_error {
 public:
  ControlRefusal(const std::string& message, std::string kind)
      : std::runtime_error(message), kind_(std::move(kind)) {}
  /// As `to_string` of an ErrorKind.
  const std::string& kind() const noexcept { return kind_; }

 private:
  std::string kind_;
};

/// A program whose runtime listens.
struct ListeningProgram {
  std::string path;
  pid_t pid = 0;  ///< As the kernel says: 0 in another pid namespace.
  uid_t user = 0;
};

/// The programs that this user may control: his own, or all of them for root.
std::vector<ListeningProgram> listeners();
/// "1234 (train.py)", and of another user "1234 (train.py, user 1000)".
std::string name_of(const ListeningProgram& listener);
/// What a process runs: "train.py" of a Python program. "?" if it has ended.
std::string program_of(std::uint64_t pid);

/// A connection to a runtime's control socket. One thread.
class ControlClient {
 public:
  /// Connects to the chosen runtime, or to the only one. Throws: std::runtime_error if there is
  /// none or if there are several, with those that there are; or if the answering process, the
  /// socket or its folder belongs to another user, except root, or others may write there. Root
  /// may control the programs of all users.
  explicit ControlClient(const ControlChoice& choice);
  ~ControlClient();
  ControlClient(const ControlClient&) = delete;
  ControlClient& operator=(const ControlClient&) = delete;

  /// Returns the answer's "ok". Throws: ControlRefusal if the runtime refused, and
  /// std::runtime_error if no answer arrives in time, or if it ends or answers otherwise. If the
  /// runtime is of another version, both say so.
  boost::json::object ask(const boost::json::object& request);
  const std::string& path() const noexcept { return path_; }
  /// Who listens, as the kernel says.
  const ListeningProgram& program() const noexcept { return program_; }

 private:
  /// The answer; empty if it is none.
  boost::json::object answer_to(const boost::json::object& request);
  /// Behind a refusal: the versions of both, if they differ. Empty if the runtime does not say.
  std::string why_versions();
  /// Throws: as `ask`, if the line is not complete at `deadline`.
  std::string read_line(std::chrono::steady_clock::time_point deadline);
  const int limit_ms_;
  std::string path_, input_;
  ListeningProgram program_;
  int descriptor_ = -1;
};

/// What to do about a runtime that answers `status` so; empty if it is of this version.
std::string version_advice(const boost::json::object& status);

}  // namespace vma
