// Goal: once a stopped stream has arrived, nothing that other threads enqueue there runs, and all
// earlier work has ended. Method: a thread enqueues {count; spin; count} as fast as it can, as
// launches or as a graph; while the stream is stopped, both counts stay the same. Those of a graph
// are also equal, since it is one launch.

#include "contract/beside.hpp"
#include "contract/contract_test.hpp"

#include <atomic>
#include <functional>
#include <string>

namespace vma {
namespace {

enum class Work { launches, graph };

/// The thread of an application.
class Enqueuer {
 public:
  Enqueuer(ContractRig& rig, Driver& driver, Work work)
      : driver_(driver),
        work_(work),
        stream_(rig.new_stream(rig.context(0))),
        begun_(rig.new_word()),
        ended_(rig.new_word()),
        count_(rig.kernel(stream_.context, atomic_add_kernel())),
        spin_(rig.kernel(stream_.context, spin_kernel())) {
    if (work == Work::graph) {
      driver.begin_capture(stream_, CaptureMode::relaxed);
      enqueue();
      const GraphHandle graph = driver.end_capture(stream_);
      ready_ = driver.instantiate(graph);
      driver.destroy_graph(graph);
    }
    thread_.emplace([this] { loop(); });
  }
  ~Enqueuer() {
    stop_ = true;
    thread_.reset();
    if (!is_none(ready_)) driver_.destroy_exec_graph(ready_);
  }
  Enqueuer(const Enqueuer&) = delete;
  Enqueuer& operator=(const Enqueuer&) = delete;

  /// Ends the thread. Throws what the thread threw.
  void finish() {
    stop_ = true;
    thread_->join();
  }
  Work work() const { return work_; }
  BoundStream stream() const { return stream_; }
  std::uint64_t begun() const { return std::atomic_ref(*begun_).load(); }
  std::uint64_t ended() const { return std::atomic_ref(*ended_).load(); }

 private:
  void enqueue() {
    const LaunchShape one{{1}, {1}};
    driver_.launch(stream_, count_, one, KernelArguments::of(begun_, std::uint64_t{1}));
    driver_.launch(stream_, spin_, one, KernelArguments::of(std::uint64_t{20'000}));
    driver_.launch(stream_, count_, one, KernelArguments::of(ended_, std::uint64_t{1}));
  }
  void loop() {
    constexpr int under_way_max = 4;
    for (int i = 1; !stop_; ++i) {
      if (is_none(ready_)) {
        enqueue();
      } else {
        driver_.launch_graph(stream_, ready_);
      }
      if (i % under_way_max == 0) driver_.wait_stream(stream_, never);
    }
    driver_.wait_stream(stream_, never);
  }

  Driver& driver_;
  const Work work_;
  const BoundStream stream_;
  std::uint64_t* const begun_;
  std::uint64_t* const ended_;
  const KernelHandle count_, spin_;
  ExecGraphHandle ready_{};
  std::atomic<bool> stop_{false};
  std::optional<Beside> thread_;  // Last, because it uses the other members.
};

template <typename Machine>
class Stops : public ContractTest<Machine> {
 protected:
  /// Stops the stream many times by `enqueue(operations, epoch)`, and returns how often something
  /// ran while it was stopped.
  template <typename Enqueue>
  int ran_beside(Enqueuer& application, Enqueue enqueue) {
    ContractRig& rig = this->rig();
    std::uint64_t* arrived = rig.new_word();
    std::uint64_t* opened = rig.new_word();
    const std::uint64_t gates = this->driver().simulated() ? 40 : 500;
    int found = 0;
    for (std::uint64_t epoch = 1; epoch <= gates; ++epoch) {
      const WordOperation operations[] = {
          {WordOperation::Kind::write, address_of(arrived), epoch},
          {WordOperation::Kind::wait_until_at_least, address_of(opened), epoch}};
      enqueue(std::span(operations));
      EXPECT_TRUE(ContractRig::becomes(*arrived, epoch));
      const std::uint64_t begun = application.begun(), ended = application.ended();
      Clock& clock = this->driver().clock();
      const bool changed = poll_until(clock, clock.now() + std::chrono::microseconds(100), [&] {
        return application.begun() != begun || application.ended() != ended;
      });
      const bool cut = application.work() == Work::graph && begun != ended;
      found += changed || cut ? 1 : 0;
      std::atomic_ref(*opened).store(epoch);
      // So that the next stop meets new work: the thread launches when it sees its stream idle.
      poll_until(clock, clock.now() + std::chrono::milliseconds(5),
                 [&] { return application.begun() != begun; });
    }
    application.finish();
    EXPECT_GT(application.ended(), gates / 4) << "too little to be beside";
    return found;
  }

  int ran_beside_stops(Work work) {
    Driver& driver = this->driver();
    ExecGraphHandle chain{};
    int found = 0;
    {
      Enqueuer application(this->rig(), driver, work);
      found = ran_beside(application, [&](std::span<const WordOperation> operations) {
        ChainStep step;
        step.words.assign(operations.begin(), operations.end());
        if (is_none(chain)) chain = driver.make_chain(application.stream().context, {&step, 1});
        driver.stop(application.stream(), chain, operations);
      });
    }
    driver.destroy_exec_graph(chain);
    return found;
  }

  int ran_beside_batches(Work work) {
    Enqueuer application(this->rig(), this->driver(), work);
    return ran_beside(application, [&](std::span<const WordOperation> operations) {
      this->driver().batch(application.stream(), operations);
    });
  }
};
TYPED_TEST_SUITE(Stops, ContractMachines, MachineNames);

TYPED_TEST(Stops, NothingRunsBesideOneWhereAnotherThreadLaunches) {
  VMART_IN_CHILD(90);
  EXPECT_EQ(this->ran_beside_stops(Work::launches), 0);
}

TYPED_TEST(Stops, NothingRunsBesideOneWhereAnotherThreadLaunchesGraphs) {
  VMART_IN_CHILD(90);
  EXPECT_EQ(this->ran_beside_stops(Work::graph), 0);
}

TYPED_TEST(Stops, NothingRunsBesideABatchWhereAnotherThreadLaunches) {
  VMART_IN_CHILD(90);
  EXPECT_EQ(this->ran_beside_batches(Work::launches), 0);
}

TYPED_TEST(Stops, ABatchIsNotInOrderWithGraphsOfAnotherThread) {
  VMART_IN_CHILD(90);
  const int found = this->ran_beside_batches(Work::graph);
  this->report("work that ran beside a batch that stops, of graphs of another thread",
               std::to_string(found));
  EXPECT_TRUE(found == 0 || !this->driver().simulated());
}

}  // namespace
}  // namespace vma
