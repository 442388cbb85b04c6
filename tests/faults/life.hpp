#pragma once

#include "support/drivers/calls.hpp"
#include "driver/driver.hpp"
#include "support/drivers/fault_driver.hpp"
#include "sim/sim_driver.hpp"
#include "support/stepped_executor.hpp"

#include <vma/runtime.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace vma {

constexpr std::uint64_t life_page = 4096;
constexpr std::uint64_t life_chunk_bytes = 2 * life_page;

/// How to run one life.
struct LifePlan {
  std::uint64_t seed = 1;
  /// The numbers of the calls that fail, counted from the opening of the runtime.
  std::set<int> fail;
  /// Puts another driver between the machine and the one that fails calls; none if empty.
  std::function<std::unique_ptr<Driver>(SimDriver& machine)> wrap;
  /// Arms or disarms that driver.
  std::function<void(bool armed)> arm;
  /// Whether that driver did something that may make calls fail. Asked at the end of the life.
  std::function<bool()> disturbed;
  /// The driver never recovers after its first failure, so no later call has to succeed.
  bool driver_lost = false;
  /// Adds a last part: the memory becomes read-only, moves to HBM leaving clean copies behind, and
  /// returns to them.
  bool clean_copies = false;
  /// Copies never run in contexts of the program; see `RuntimeOptions::own_contexts`.
  bool own_contexts = false;
  /// Moves suspend the program's work, where they need not wait for it.
  bool suspends = false;
};

/// The results of a life.
struct LifeOutcome {
  std::vector<Call> seen;
  std::set<Call> failed;
  int fired = 0;
  bool poisoned = false;
  bool opened = false;
  std::size_t bytes_remapped = 0;  ///< Moved without a copy.
  /// Errors that public calls threw, as "stage: text".
  std::vector<std::string> errors;
  /// Violations; empty if all is well.
  std::vector<std::string> problems;
};

/// The life of one allocation on a simulated machine with two GPUs, stepped by a seed: open,
/// allocate, write, kernels, moves to each kind of place, a range, live moves, a move together with
/// another allocation, parking one without its contents, free, shut down. After each stage, and
/// with no call failing, it checks the bytes, the driver's own view of the mappings and the books.
class Life {
 public:
  /// Each life has its own machine and driver; lives share nothing.
  static LifeOutcome live(const LifePlan& plan);

 private:
  explicit Life(const LifePlan& plan, SteppedExecutor& executor);

  void run();
  void open();
  void use();
  void end();
  void allocate();
  void write();
  void run_kernel();
  void record_launch();
  void move(const char* stage, const std::function<void()>& body);
  void move_live(const char* stage, Place to);
  void drop_and_resume();
  void check_group(const char* stage, const GroupReport& group,
                   const std::vector<std::uint64_t>& before);
  void move_group(const char* stage, const MigrateOptions& options);
  void attach(std::vector<AttachedStream>& attached);
  void come_and_go(const char* stage, const std::function<void(Place to)>& body);
  void leave_clean_copies();
  void free();
  bool attempt(const char* stage, const std::function<void()>& body);
  void undisturbed(const char* stage, const std::function<void()>& body);
  void check(const char* stage);
  void check_poisoned(const char* stage);
  void check_mappings(const char* stage);
  void check_mappings(const char* stage, const void* memory);
  void check_bytes(const char* stage);
  void check_kernels(const char* stage);
  void check_leaks();
  void arm();
  void disarm();
  bool disturbed() const;
  void problem(const char* stage, const std::string& text);

  const LifePlan& plan_;
  SimDriver machine_;
  LifeOutcome outcome_;
  std::unique_ptr<FaultDriver> faults_;
  std::unique_ptr<Runtime> runtime_;
  std::shared_ptr<const std::atomic<std::uint64_t>> leaked_, kept_;
  void* memory_ = nullptr;
  std::uint64_t* mismatches_ = nullptr;
  std::vector<Stream> streams_;
  std::uint64_t content_ = 0;  // Word i of the memory is this plus i.
  int counted_before_ = 0;     // Calls up to the last `arm`.
};

/// "seed 3, calls 17 and 40 fail": all that is needed to replay a life.
std::string describe(const LifePlan& plan);

}  // namespace vma
