#pragma once

#include "base/clock.hpp"
#include "driver/driver.hpp"
#include "memory/ledger.hpp"

#include <array>
#include <memory>

namespace vma {

/// Work of ours in a context of the program: an operation that waits for a word, and then writes
/// another. It shows whether the program's channels are served.
///
/// An operation of a stream and not a kernel: loading a kernel there waits for the program's work,
/// and a persistent kernel may leave no room for it. It is enqueued before anything is suspended,
/// since a call in the program's context may wait for a thread that waits for suspended work. For
/// the same reason a thread of its own enqueues it, for which nobody has to wait. All streams of a
/// context share a few hardware queues, in which the program's work may stand before ours; so there
/// are several, of which one that is next in its queue is enough.
///
/// One thread at a time.
class ProgramProbe {
 public:
  /// `words_context`: outlives this.
  ProgramProbe(Driver& driver, ContextHandle program, ContextHandle words_context, Ledger& ledger);
  /// Blocks: for some seconds at most, until the thread has returned and the operations have ended.
  /// A thread that does not return by then is left alone, with what it uses.
  ~ProgramProbe();
  ProgramProbe(const ProgramProbe&) = delete;
  ProgramProbe& operator=(const ProgramProbe&) = delete;

  ContextHandle context() const noexcept { return program_; }
  /// Enqueues it, and calls nothing more in the program's context. False if that, or the program's
  /// work before it, has not ended at `deadline`; then nothing waits any more. Throws: what the
  /// driver throws in the program's context.
  bool begin(TimePoint deadline);
  /// It may go on now.
  void open() noexcept;
  /// Whether it has gone on, anywhere.
  bool has_gone_on() const noexcept;
  /// Waits until it has gone on wherever it had begun at `begin`. False if not until `deadline`.
  bool goes_on(TimePoint deadline);

 private:
  static constexpr int lanes_max = 4;
  struct Work;  // Shared with the thread, which may outlive this.

  bool all_ended(TimePoint deadline) noexcept;

  Driver& driver_;
  const ContextHandle program_, words_context_;
  Ledger& ledger_;
  const std::shared_ptr<Work> work_;
  std::array<bool, lanes_max> begun_in_time_{};
  std::unique_ptr<Task> task_;
};

}  // namespace vma
