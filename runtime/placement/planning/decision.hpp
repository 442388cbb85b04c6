#pragma once

#include <vma/place.hpp>
#include <vma/snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

namespace vma {

/// What happened to a proposal, or to a policy or place.
enum class DecisionKind : std::uint8_t {
  planned,          ///< A policy wants the move and the planner accepts it.
  refused,          ///< The planner refuses it; `reason` is the planner's.
  started,          ///< The mover has it.
  moved,            ///< The chunk is at `to`.
  not_moved,        ///< The move ended without reaching `to`; `reason` says why.
  policy_failed,    ///< The policy threw or took too long: its plan is dropped.
  policy_replaced,  ///< `policy` is the one that decides from now on.
  paused,
  resumed,
  drained,   ///< `from` takes no more chunks.
  refilled,  ///< `to` takes chunks again.
  parked,
  unparked,
  ahead,         ///< Planned moves spend the stall budget of later; `reason` has the prediction.
  ahead_judged,  ///< What came of that; `reason` has what the moves saved.
  pace_judged,   ///< Moves stop, or go on, by the program's pace; `reason` has the test.
};
constexpr std::size_t decision_kinds = static_cast<std::size_t>(DecisionKind::pace_judged) + 1;

/// As in files and output: "not_moved".
std::string_view to_string(DecisionKind kind) noexcept;
std::optional<DecisionKind> parse_decision_kind(std::string_view name) noexcept;

/// Identifies a chunk in a way that stays valid after it is freed.
struct DecidedChunk {
  std::uint64_t allocation = 0;  ///< Its number, unique in the life of the process.
  std::uint64_t begin = 0;       ///< Start of the allocation: the program's pointer.
  std::uint32_t slot = 0;        ///< Which chunk of the allocation.
  std::uint64_t bytes = 0;
  std::string tag;

  friend bool operator==(const DecidedChunk&, const DecidedChunk&) = default;
};

/// How long a move takes by itself, without waiting for programs' work to stop, and how long it
/// stops that work.
struct MoveTimes {
  Time move{0}, stall{0};

  friend bool operator==(const MoveTimes&, const MoveTimes&) = default;
};

/// One decision of the scheduler: a line of the decision log, a record of a recording, and what
/// `explain` shows.
///
/// The `planned` and `refused` ones of one `plan`, in the order of their numbers, are the moves
/// that the policy wanted: chunk, `to`, `value`, `victim` and `proposal` are those of its `Move`.
struct Decision {
  std::uint64_t sequence = 0;  ///< From 1 on, without gaps; assigned by the log.
  Time time{0};
  DecisionKind kind = DecisionKind::planned;
  std::uint64_t plan = 0;  ///< Equal for the proposals of one call of a policy; 0: no policy.
  std::string policy;
  std::optional<DecidedChunk> chunk;
  std::optional<Place> from, to;
  std::string why;     ///< Why the policy wants it.
  std::string reason;  ///< Why it came to `kind`; empty if there is nothing to add.
  double value = 0;
  bool victim = false;
  std::optional<MoveTimes> predicted, happened;
  std::optional<Time> began, ended;  ///< Of the move.
  /// In memory, a refusal stands for all of its run (`RefusalRuns`): `time` is that of the first,
  /// and the texts are those of the last.
  std::uint64_t times = 1;
  std::optional<Time> last_time;  ///< Empty if it was refused once.

  friend bool operator==(const Decision&, const Decision&) = default;
};

/// Longer texts are cut, so that rings, lines and records are bounded.
constexpr std::size_t decision_text_bytes_max = 2048;
constexpr std::size_t decision_name_bytes_max = 256;  ///< Of a policy or tag.

/// Cuts its texts, at the start of a UTF-8 character.
void clip(Decision& decision);
void clip(std::string& text, std::size_t bytes_max);

/// Which refusals are the same again: a policy that wants a move wants it at each tick, and is
/// refused for the same reason until that changes. Rings keep one entry of such a run, with a
/// count, so that refusals do not push out what has happened. One thread at a time.
class RefusalRuns {
 public:
  enum class Of { chunk, allocation };  ///< What has one run for each reason and target.

  explicit RefusalRuns(Of of) : of_(of) {}

  /// The number of the entry that a refusal belongs to. None: it begins a run, and `begin` follows.
  std::optional<std::uint64_t> entry_of(const Decision& refused) const;
  /// Throws: std::bad_alloc.
  void begin(const Decision& refused, std::uint64_t entry);
  /// Anything but a refusal ends the runs of what it is about.
  void end(const Decision& decision) noexcept;

 private:
  /// Allocation, slot, target and the name of the reason, without the numbers behind it.
  using Key = std::tuple<std::uint64_t, std::uint32_t, Place, std::string>;
  Key key_of(const Decision& decision) const;

  static constexpr std::size_t runs_max = 65'536;

  const Of of_;
  std::map<Key, std::uint64_t> entries_;
};

}  // namespace vma
